//! The variables with which QRMI finds a resource, without the prefix of the resource.

use super::access::base64;
use crate::error::Service;

/// Variables for one vendor on the port of an emulator, for an account with its key.
pub(crate) fn of(
    port: &str,
    service: Service,
    account: &str,
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
        Service::IbmQuantumComputeService => vec![
            ("IBM_QCS_ENDPOINT", format!("{url}/api/v1")),
            ("IBM_QCS_IAM_ENDPOINT", url),
            ("IBM_QCS_IAM_APIKEY", key.to_owned()),
            ("IBM_QCS_SERVICE_CRN", "crn:v1:emulated".to_owned()),
        ],
        Service::Pasqal => vec![
            ("PASQAL_CLOUD_BASE_URL", url.clone()),
            ("PASQAL_CLOUD_AUTH_ENDPOINT", format!("{url}/oauth/token")),
            ("PASQAL_CLOUD_PROJECT_ID", "project".to_owned()),
            ("PASQAL_CLOUD_CLIENT_ID", account.to_owned()),
            ("PASQAL_CLOUD_CLIENT_SECRET", key.to_owned()),
        ],
        Service::Felis => vec![
            ("AB_FELIS_BASE_ENDPOINT", url),
            ("AB_FELIS_API_KEY", base64(format!("{account}:{key}").as_bytes())),
        ],
        // Not vendors of QRMI.
        Service::Braket | Service::S3 | Service::Sts => Vec::new(),
    }
}
