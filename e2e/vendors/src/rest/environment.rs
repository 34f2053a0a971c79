//! The variables with which QRMI finds a resource, without the prefix of the resource.

use crate::error::Service;

/// Variables for one vendor on the port of an emulator, for an account with its key.
pub(crate) fn of(
    port: &str,
    service: Service,
    _account: &str,
    key: &str,
) -> Vec<(&'static str, String)> {
    let url = format!("{port}/{}", service.as_str());
    match service {
        Service::Iqm => vec![("IQM_ISA_ENDPOINT", url), ("IQM_ISA_TOKEN", key.to_owned())],
        Service::IbmQuantumSystem => vec![
            ("IBM_QS_ENDPOINT", url.clone()),
            ("IBM_QS_IAM_ENDPOINT", url),
            ("IBM_QS_IAM_APIKEY", key.to_owned()),
            ("IBM_QS_SERVICE_CRN", "crn:v1:emulated".to_owned()),
            // The storage is not IBM's: it is the emulated S3, with the keys of its first user.
            ("IBM_QS_AWS_ACCESS_KEY_ID", "AKIDEXAMPLE".to_owned()),
            ("IBM_QS_AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("IBM_QS_S3_ENDPOINT", port.to_owned()),
            ("IBM_QS_S3_BUCKET", "qrmi".to_owned()),
            ("IBM_QS_S3_REGION", "us-east-1".to_owned()),
            ("JOB_TIMEOUT_SECONDS", "600".to_owned()),
        ],
        // Not vendors of QRMI.
        Service::Braket | Service::S3 | Service::Sts => Vec::new(),
    }
}
