//! Errors as the vendors answer them.

use serde_json::json;

/// Services that share the vendor port; the credential scope of a request names one, or the first
/// part of its path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Amazon Braket.
    Braket,
    /// Amazon S3.
    S3,
    /// AWS Security Token Service.
    Sts,
    /// IQM Server.
    Iqm,
    /// IBM Quantum System.
    IbmQuantumSystem,
    /// IBM Quantum Compute Service.
    IbmQuantumComputeService,
    /// Pasqal Cloud.
    Pasqal,
    /// Felis, the cloud of Alice & Bob.
    Felis,
}

impl Service {
    /// Reads the service of a credential scope.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "braket" => Some(Self::Braket),
            "s3" => Some(Self::S3),
            "sts" => Some(Self::Sts),
            _ => None,
        }
    }

    /// The name in a credential scope, or the first part of the path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Braket => "braket",
            Self::S3 => "s3",
            Self::Sts => "sts",
            Self::Iqm => "iqm",
            Self::IbmQuantumSystem => "ibm-quantum-system",
            Self::IbmQuantumComputeService => "ibm-quantum-compute-service",
            Self::Pasqal => "pasqal",
            Self::Felis => "felis",
        }
    }
}

/// An error answer, before it is written in the form of its service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({status}): {message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// The vendor's name of the error.
    pub code: String,
    /// For people.
    pub message: String,
}

impl ApiError {
    /// An error with the status that belongs to its code.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { status: status_of(code), code: code.to_owned(), message: message.into() }
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// `ValidationException`.
    #[must_use]
    pub fn validation(message: impl Into<String>) -> Self {
        Self::new("ValidationException", message)
    }

    /// `ResourceNotFoundException`.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new("ResourceNotFoundException", message)
    }

    /// The body in the form of a service, with its content type.
    #[must_use]
    pub fn body(&self, service: Service, request_id: &str) -> (&'static str, String) {
        let (code, message) = (escape(&self.code), escape(&self.message));
        match service {
            Service::Braket => ("application/json", json!({ "message": self.message }).to_string()),
            Service::IbmQuantumSystem | Service::IbmQuantumComputeService => {
                ("application/json", crate::ibm::error_body(self, request_id).to_string())
            }
            Service::Pasqal => (
                "application/json",
                json!({
                    "status": "fail", "code": self.code, "message": self.message,
                    "data": { "description": self.message },
                })
                .to_string(),
            ),
            Service::Felis => (
                "application/json",
                json!({ "error": { "code": self.code, "message": self.message } }).to_string(),
            ),
            Service::Iqm => (
                "application/json",
                json!({
                    "error_code": self.code, "message": self.message, "request_id": request_id,
                })
                .to_string(),
            ),
            Service::S3 => (
                "application/xml",
                format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
                     <Message>{message}</Message><RequestId>{request_id}</RequestId></Error>"
                ),
            ),
            Service::Sts => (
                "text/xml",
                format!(
                    "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
                     <Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>\
                     <RequestId>{request_id}</RequestId></ErrorResponse>"
                ),
            ),
        }
    }
}

/// HTTP status of an error code of any of the three services.
fn status_of(code: &str) -> u16 {
    match code {
        "ServiceQuotaExceededException" => 402,
        "AccessDeniedException"
        | "AccessDenied"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException"
        | "ExpiredTokenException"
        | "InvalidAccessKeyId"
        | "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "RequestTimeTooSkewed" => 403,
        "ResourceNotFoundException"
        | "UnknownOperationException"
        | "NoSuchKey"
        | "NoSuchBucket" => 404,
        "MethodNotAllowed" => 405,
        "ConflictException" | "BucketAlreadyExists" | "BucketAlreadyOwnedByYou" => 409,
        "DeviceRetiredException" => 410,
        "DeviceOfflineException" => 424,
        "ThrottlingException" | "TooManyRequestsException" => 429,
        "InternalServiceException" | "InternalError" => 500,
        "NotImplemented" => 501,
        "ServiceUnavailableException" | "SlowDown" => 503,
        _ => 400,
    }
}

/// Text inside XML.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
