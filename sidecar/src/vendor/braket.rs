//! Amazon Braket: the sidecar's own calls through `aws-sdk-braket`.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, retry::RetryConfig, timeout::TimeoutConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_braket::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_braket::types::QuantumTaskAdditionalAttributeName;
use aws_sdk_braket::{Client, Config};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::http::Response;
use sluice_dialect::quote;
use sluice_shared::resource::Resource;
use sluice_shared::task::TaskState;
use sluice_tap::Hosts;

use super::answer::{device_reading, reading};
use super::credentials::Renewed;
use super::device::Extras;
use super::kept::KeptBody;
use super::{Cancelled, DeviceReading, Failure, FailureKind, NotATask, Reading, Vendor};

/// Time for one call, with everything: connect, TLS, answer.
const CALL: Duration = Duration::from_secs(10);
/// Time to connect.
const CONNECT: Duration = Duration::from_secs(3);
/// Longest piece of a foreign text that is repeated in ours.
const QUOTE: usize = 300;

/// The Braket API as the sidecar itself asks it.
#[derive(Debug)]
pub struct Braket {
    credentials: Renewed,
    /// Another host than the regional one, as the user's program has it.
    endpoint: Option<String>,
    /// Which regional hosts, where there is no endpoint.
    hosts: Hosts,
    /// A client with roots of the user's, where the system's do not do.
    http: Option<SharedHttpClient>,
    /// A task is read in the region of its ARN; most programs use one.
    clients: Mutex<BTreeMap<String, Client>>,
}

impl Braket {
    /// Reads with `credentials`, from `endpoint` or else from the regional host.
    ///
    /// Nothing else of the environment is looked at: `AWS_ENDPOINT_URL…` may point at our own
    /// tap.
    #[must_use]
    pub fn new(credentials: Renewed, endpoint: Option<String>) -> Self {
        Self {
            credentials,
            endpoint,
            hosts: Hosts::default(),
            http: None,
            clients: Mutex::default(),
        }
    }

    /// The same at these hosts, through this client.
    #[must_use]
    pub fn through(self, hosts: Hosts, http: Option<SharedHttpClient>) -> Self {
        Self { hosts, http, ..self }
    }

    fn client(&self, region: &str) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.entry(region.to_owned()).or_insert_with(|| self.make(region)).clone()
    }

    fn make(&self, region: &str) -> Client {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_timeout(CALL)
            .operation_attempt_timeout(CALL)
            .build();
        let mut config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .credentials_provider(self.credentials.shared())
            // `Renewed` keeps credentials itself and drops them when the vendor refuses them.
            .identity_cache(aws_sdk_braket::config::IdentityCache::no_cache())
            .timeout_config(timeouts)
            // The follower decides when to ask again; two layers of retries would multiply.
            .retry_config(RetryConfig::disabled());
        config = match &self.endpoint {
            // The library takes no such setting beside an endpoint.
            Some(endpoint) => config.endpoint_url(endpoint),
            None => config.use_fips(self.hosts.fips).use_dual_stack(self.hosts.dual_stack),
        };
        config.set_http_client(self.http.clone());
        Client::from_conf(config.build())
    }

    async fn settle<E>(&self, error: &SdkError<E, Response>) -> Failure
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        let mut failure = failure_of(error);
        if matches!(failure.kind, FailureKind::Denied | FailureKind::Expired) {
            self.credentials.forget().await;
        }
        if failure.kind == FailureKind::Expired {
            let code = error.code().unwrap_or("expired");
            failure.message = format!("{code}; {}", self.credentials.source().await.advice());
        }
        failure
    }
}

impl Vendor for Braket {
    async fn task(&self, _resource: Option<&Resource>, id: &str) -> Result<Reading, Failure> {
        let region = region_of_task(id).ok_or_else(|| refused_id(id))?;
        let call = self
            .client(region)
            .get_quantum_task()
            .quantum_task_arn(id)
            .additional_attribute_names(QuantumTaskAdditionalAttributeName::QueueInfo)
            .send();
        match call.await {
            Ok(answer) => Ok(reading(id, &answer)),
            Err(error) => Err(self.settle(&error).await),
        }
    }

    async fn device(
        &self,
        _resource: Option<&Resource>,
        device: &str,
        task: &str,
    ) -> Result<DeviceReading, Failure> {
        let region = region_of_device(device)
            .or_else(|| region_of_task(task))
            .ok_or_else(|| refused_id(task))?;
        let kept = KeptBody::default();
        let call = self.client(region).get_device().device_arn(device);
        match call.customize().interceptor(kept.clone()).send().await {
            Ok(answer) => Ok(device_reading(&answer, Extras::of(&kept.take()))),
            Err(error) => Err(self.settle(&error).await),
        }
    }

    async fn cancel(&self, _resource: Option<&Resource>, id: &str) -> Result<Cancelled, Failure> {
        let region = region_of_task(id).ok_or_else(|| refused_id(id))?;
        match self.client(region).cancel_quantum_task().quantum_task_arn(id).send().await {
            Ok(answer) => {
                Ok(Cancelled::Ending(TaskState::from(answer.cancellation_status().as_str())))
            }
            // It has a result, failed, or was cancelled before.
            Err(error) if error.code() == Some("ConflictException") => Ok(Cancelled::Over),
            Err(error) => Err(self.settle(&error).await),
        }
    }

    fn place(&self, _resource: Option<&str>, id: &str) -> Result<Option<Resource>, NotATask> {
        match region_of_task(id) {
            Some(_) => Ok(None),
            None => Err(NotATask::NoArn { id: id.chars().take(QUOTE).collect() }),
        }
    }
}

fn refused_id(id: &str) -> Failure {
    Failure {
        kind: FailureKind::Refused,
        message: NotATask::NoArn { id: id.chars().take(QUOTE).collect() }.to_string(),
        retry_after: None,
    }
}

/// The region in the ARN of a quantum task; `None` when it is no such ARN.
#[must_use]
pub fn region_of_task(id: &str) -> Option<&str> {
    // The contract gives an id 256 characters.
    if id.len() > 256 || !id.bytes().all(|b| b.is_ascii_graphic()) {
        return None;
    }
    let (region, account, resource) = arn_parts(id)?;
    let uuid = resource.strip_prefix("quantum-task/")?;
    let account_ok = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
    (account_ok && !uuid.is_empty() && is_region(region)).then_some(region)
}

/// The region in the ARN of a device; simulators have none.
fn region_of_device(device: &str) -> Option<&str> {
    let (region, _, resource) = arn_parts(device)?;
    (resource.starts_with("device/") && is_region(region)).then_some(region)
}

/// A region becomes part of a host name, so nothing else may pass.
fn is_region(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn arn_parts(arn: &str) -> Option<(&str, &str, &str)> {
    let mut parts = arn.splitn(6, ':');
    let (scheme, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
    (scheme == "arn" && partition.starts_with("aws") && service == "braket").then_some((
        parts.next()?,
        parts.next()?,
        parts.next()?,
    ))
}

/// What a failed call means. PURE.
fn failure_of<E>(error: &SdkError<E, Response>) -> Failure
where
    E: Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    if let Some(credentials) = cause::<CredentialsError>(error) {
        let text = credentials.source().map_or_else(|| credentials.to_string(), root);
        return Failure {
            kind: FailureKind::NoCredentials,
            message: cut(&text),
            retry_after: None,
        };
    }
    let raw = error.raw_response();
    let status = raw.map(|r| r.status().as_u16());
    let code = error.code().unwrap_or_default();
    let message = match (error.message(), code) {
        (Some(message), "") => message.to_owned(),
        (Some(message), code) => format!("{code}: {message}"),
        (None, "") => match (status, error) {
            (_, SdkError::TimeoutError(_)) => format!("no answer within {} s", CALL.as_secs()),
            (Some(status), _) => format!("answer {status} without a readable message"),
            (None, _) => root(error),
        },
        (None, code) => code.to_owned(),
    };
    Failure {
        kind: kind_of(status, code),
        message: cut(&message),
        retry_after: raw
            .and_then(|r| r.headers().get("retry-after"))
            .and_then(|seconds| seconds.trim().parse().ok())
            .map(Duration::from_secs),
    }
}

/// What status and error code mean together. PURE.
fn kind_of(status: Option<u16>, code: &str) -> FailureKind {
    if code.contains("Throttl") || code.contains("TooManyRequests") {
        return FailureKind::Throttled;
    }
    if code.starts_with("ExpiredToken") {
        return FailureKind::Expired;
    }
    match status {
        None | Some(200..=299 | 408 | 500..) => FailureKind::Away,
        Some(401 | 403) => FailureKind::Denied,
        Some(404) => FailureKind::NotFound,
        Some(429) => FailureKind::Throttled,
        // Some services name a refused key with 400.
        Some(_)
            if ["UnrecognizedClient", "InvalidClientTokenId", "InvalidSignature"]
                .iter()
                .any(|c| code.starts_with(c)) =>
        {
            FailureKind::Denied
        }
        Some(_) => FailureKind::Refused,
    }
}

fn cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The innermost cause: outer layers of the SDK only say "dispatch failure".
fn root(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn cut(text: &str) -> String {
    quote(text, QUOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_of_tasks_and_devices() {
        let uuid = "834b21ed-0000-4000-8000-000000000000";
        let good = format!("arn:aws:braket:eu-north-1:123456789012:quantum-task/{uuid}");
        assert_eq!(region_of_task(&good), Some("eu-north-1"));
        let bad = [
            "834b21ed",
            "",
            "arn:aws:braket:eu-north-1:123456789012:job/x",
            "arn:aws:braket::123456789012:quantum-task/x",
            "arn:aws:braket:evil.example/:123456789012:quantum-task/x",
            "arn:aws:braket:eu-north-1:12:quantum-task/x",
            "arn:aws:braket:eu-north-1:123456789012:quantum-task/",
            "arn:aws:s3:eu-north-1:123456789012:quantum-task/x",
            "arn:aws:braket:eu-north-1:123456789012:quantum-task/x y",
        ];
        for id in bad {
            assert_eq!(region_of_task(id), None, "{id}");
        }
        assert_eq!(region_of_task(&format!("{good}{}", "0".repeat(256))), None);
        let garnet = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
        assert_eq!(region_of_device(garnet), Some("eu-north-1"));
        let sv1 = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
        assert_eq!(region_of_device(sv1), None);
    }

    #[test]
    fn what_status_and_code_mean() {
        use FailureKind::{Away, Denied, Expired, NotFound, Refused, Throttled};
        let rows = [
            (Some(404), "ResourceNotFoundException", NotFound),
            (Some(429), "ThrottlingException", Throttled),
            (Some(400), "ThrottlingException", Throttled),
            (Some(403), "ExpiredTokenException", Expired),
            (Some(400), "ExpiredTokenException", Expired),
            (Some(403), "UnrecognizedClientException", Denied),
            (Some(403), "AccessDeniedException", Denied),
            (Some(401), "", Denied),
            (Some(500), "InternalServiceException", Away),
            (Some(503), "", Away),
            (Some(408), "", Away),
            // An answer that is no JSON.
            (Some(200), "", Away),
            (None, "", Away),
            (Some(400), "ValidationException", Refused),
            (Some(410), "", Refused),
        ];
        for (status, code, kind) in rows {
            assert_eq!(kind_of(status, code), kind, "{status:?} {code}");
        }
    }
}
