//! The variables with which QRMI finds a resource, without the prefix of the resource.

use super::access::base64;
use crate::error::Service;

/// A name of an instance with all the parts that IBM's own client reads; it belongs to nobody.
const INSTANCE: &str = "crn:v1:bluemix:public:quantum-computing:us-east:a/team:emulated::";

/// Variables for IBM's own client, `qiskit-ibm-runtime`, for an account with this key.
///
/// The client puts `quantum.` before the host of its URL and drops the port, unless the URL holds
/// the word `experimental`: then it is used as it is. The word stands here as the name of a user,
/// which is no part of the address and is not sent: the client signs in by tokens. So neither this
/// emulator nor a tap needs a path for its sake. `QISKIT_FUNCTIONS_EXPERIMENTAL` skips the search for
/// instances, which knows only IBM's hosts.
pub(crate) fn of_qiskit(port: &str, key: &str) -> Vec<(&'static str, String)> {
    let url = format!("{port}/{}", Service::IbmQuantumComputeService.as_str());
    vec![
        ("QISKIT_IBM_CHANNEL", "ibm_quantum_platform".to_owned()),
        ("QISKIT_IBM_TOKEN", key.to_owned()),
        ("QISKIT_IBM_INSTANCE", INSTANCE.to_owned()),
        ("QISKIT_IBM_URL", format!("{url}/api/v1").replacen("://", "://experimental@", 1)),
        ("QISKIT_FUNCTIONS_EXPERIMENTAL", "1".to_owned()),
        ("IAM_URL", url),
    ]
}

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
