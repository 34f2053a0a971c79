//! The one place where all state is held, and what a request does to it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::braket::api::{self, Caller};
use crate::braket::world::World;
use crate::config::Config;
use crate::error::{ApiError, Service};
use crate::fault::{Action, Faults, Target};
use crate::identity::{Principal, Principals};
use crate::journal::{Entry, Journal};
use crate::quota::Quotas;
use crate::rest::Vendors;
use crate::s3::{self, Store};
use crate::sessions::{self, ContainerRole};
use crate::signature::{Authorization, Refusal, Signed, header, sha256_hex, verify};
use crate::simulator::Simulator;
use crate::sts;

/// Path of the container credentials service, on the vendor port like the rest.
pub(crate) const CONTAINER_CREDENTIALS: &str = "/container-credentials";

/// Everything that requests and control calls change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) vendors: Vendors,
    pub(crate) principals: Principals,
    pub(crate) quotas: Quotas,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) store: Store,
    pub(crate) latency: Duration,
    pub(crate) container: ContainerRole,
}

/// State, worker and wake-up call.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    pub(crate) config: Config,
    pub(crate) simulator: Simulator,
    /// Computes what only Qiskit can read; none unless it was asked for.
    pub(crate) qiskit: Option<Simulator>,
    /// Called whenever the next due time may have changed.
    pub(crate) changed: Notify,
    /// Called whenever a result has come.
    pub(crate) computed: Notify,
    /// Called whenever a job of a vendor of QRMI may have moved; long polls wait for it.
    pub(crate) moved: Notify,
}

/// A request, whole.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn target(&self) -> String {
        if self.query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }
}

/// An answer before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    pub(crate) error: Option<String>,
}

impl Reply {
    pub(crate) fn error(error: &ApiError, service: Service) -> Self {
        let id = Uuid::new_v4().to_string();
        let (content_type, body) = error.body(service, &id);
        let mut headers = vec![("content-type", content_type.to_owned()), ("x-amzn-requestid", id)];
        if service == Service::Braket {
            headers.push(("x-amzn-errortype", error.code.clone()));
        }
        let error_code = Some(error.code.clone());
        Self { status: error.status, headers, body: Bytes::from(body), error: error_code }
    }

    fn ok(status: u16, content_type: &str, body: String) -> Self {
        let headers = vec![
            ("content-type", content_type.to_owned()),
            ("x-amzn-requestid", Uuid::new_v4().to_string()),
        ];
        Self { status, headers, body: Bytes::from(body), error: None }
    }
}

/// A request that has been read: what it is, who sent it, and the fault that strikes it.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) service: Service,
    pub(crate) fault: Option<Action>,
    pub(crate) latency: Duration,
    pub(crate) entry: Entry,
    pub(crate) operation: Operation,
    pub(crate) caller: Result<Principal, Refusal>,
    pub(crate) region: String,
}

#[derive(Debug)]
pub(crate) enum Operation {
    Braket(api::Operation),
    S3(s3::Operation),
    Sts(String),
    ContainerCredentials,
    /// Of a vendor of QRMI, by name.
    Rest(&'static str),
    Unknown,
}

impl Operation {
    fn name(&self) -> &str {
        match self {
            Self::Braket(operation) => operation.name(),
            Self::S3(operation) => operation.name(),
            Self::Sts(action) => action,
            Self::ContainerCredentials => "ContainerCredentials",
            Self::Rest(name) => name,
            Self::Unknown => "Unknown",
        }
    }
}

impl Hub {
    pub(crate) fn new(config: Config, simulator: Simulator, qiskit: Option<Simulator>) -> Self {
        let state = State {
            world: World::new(config.devices.clone()),
            vendors: Vendors::new(&config.qrmi, Timestamp::now()),
            principals: Principals::new(config.principals.clone()),
            quotas: Quotas::new(config.quota_scale),
            faults: Faults::default(),
            journal: Journal::new(config.journal),
            store: Store::default(),
            latency: Duration::ZERO,
            container: config.container.clone(),
        };
        Self {
            state: Mutex::new(state),
            config,
            simulator,
            qiskit,
            changed: Notify::new(),
            computed: Notify::new(),
            moved: Notify::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is changed by whole operations; a panic elsewhere leaves it usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets tasks, objects, faults, used quotas, temporary principals and the journal.
    pub(crate) fn reset(&self) {
        let mut state = self.lock();
        state.world.reset();
        state.vendors = Vendors::new(&self.config.qrmi, Timestamp::now());
        state.principals = Principals::new(self.config.principals.clone());
        state.quotas = Quotas::new(self.config.quota_scale);
        state.faults.clear();
        state.journal.clear();
        state.store = Store::default();
        state.latency = Duration::ZERO;
        state.container = self.config.container.clone();
    }

    /// Finds out what a request is, and takes the fault that strikes it off the table.
    pub(crate) fn read(&self, call: &Call, now: Timestamp) -> Read {
        let authorization = header(&call.headers, "authorization").map(Authorization::parse);
        let text = String::from_utf8_lossy(&call.body);
        let parsed = authorization.clone().flatten();
        let rest = if parsed.is_none() { self.read_rest(call, now) } else { None };
        if let Some(read) = rest {
            return read;
        }
        let (service, region) = match &parsed {
            Some(parts) => (Service::of(&parts.service), parts.region.clone()),
            // Requests of STS alone may come without a signature.
            None if sts::action(&text).is_some() => (Some(Service::Sts), "us-east-1".to_owned()),
            None => (Some(Service::Braket), String::new()),
        };
        let operation = match service {
            Some(Service::Braket) => {
                api::Operation::of(call.method.as_str(), &call.path, &call.query)
                    .map(Operation::Braket)
            }
            Some(Service::S3) => {
                s3::Operation::of(call.method.as_str(), &call.path, &call.query).map(Operation::S3)
            }
            Some(Service::Sts) => sts::action(&text).map(Operation::Sts),
            _ => None,
        }
        .unwrap_or(Operation::Unknown);
        let service = service.unwrap_or(Service::Braket);
        let for_container = call.method == Method::GET && call.path == CONTAINER_CREDENTIALS;
        let operation = if for_container { Operation::ContainerCredentials } else { operation };

        let mut state = self.lock();
        let caller = match (authorization, &parsed) {
            (None, _) => Err(Refusal::Missing),
            (Some(_), None) => {
                let text = "Authorization header cannot be read as AWS4-HMAC-SHA256.";
                Err(Refusal::Malformed(text.to_owned()))
            }
            (Some(_), Some(parts)) => {
                let target = call.target();
                let signed = Signed {
                    method: call.method.as_str(),
                    target: &target,
                    headers: &call.headers,
                    body: &call.body,
                };
                verify(signed, parts, &state.principals, now).cloned()
            }
        };
        let known = caller.as_ref().ok();
        let entry = entry(call, service, &operation, parsed.as_ref(), known, now);
        let fault = state.faults.strike(Target {
            operation: operation.name(),
            account: known.map(|principal| principal.account.as_str()),
            access_key_id: entry.access_key_id.as_deref(),
        });
        Read { service, fault, latency: state.latency, entry, operation, caller, region }
    }

    /// Does the work of a request.
    pub(crate) fn perform(&self, call: &Call, read: &mut Read, now: Timestamp) -> Reply {
        let done = match &read.operation {
            Operation::Sts(action) if action == sts::WITH_WEB_IDENTITY => {
                let principals = &mut self.lock().principals;
                assume(principals, action, call, now)
            }
            Operation::ContainerCredentials => Ok(self.for_container(call, now)),
            _ => match &read.caller {
                Err(refusal) => Err(refusal.error(read.service)),
                Ok(principal) => self.perform_as(call, read, principal, now),
            },
        };
        let reply = done.unwrap_or_else(|error| Reply::error(&error, read.service));
        if read.entry.operation == "CreateQuantumTask" && reply.status == 201 {
            read.entry.task_arn = serde_json::from_slice::<serde_json::Value>(&reply.body)
                .ok()
                .and_then(|body| Some(body.get("quantumTaskArn")?.as_str()?.to_owned()));
        }
        reply
    }

    fn for_container(&self, call: &Call, now: Timestamp) -> Reply {
        let state = &mut *self.lock();
        let token = header(&call.headers, "authorization");
        let made = sessions::for_container(&mut state.principals, &state.container, token, now);
        if let Some(body) = made {
            return Reply::ok(200, "application/json", body);
        }
        let body = r#"{"code": "AccessDenied", "message": "the token is not the role's"}"#;
        let mut reply = Reply::ok(403, "application/json", body.to_owned());
        reply.error = Some("AccessDenied".to_owned());
        reply
    }

    fn perform_as(
        &self,
        call: &Call,
        read: &Read,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<Reply, ApiError> {
        let state = &mut *self.lock();
        match &read.operation {
            Operation::Braket(operation) => {
                let name = operation.name();
                if !state.quotas.take(&principal.account, &read.region, name, now) {
                    return Err(ApiError::new("ThrottlingException", "Rate exceeded"));
                }
                api::permit(principal, &format!("braket:{name}"), operation.arn().unwrap_or("*"))?;
                if name == "CreateQuantumTask" {
                    self.check_bucket(&state.store, principal, &call.body)?;
                }
                let caller = Caller {
                    principal,
                    region: &read.region,
                    user_agent: header(&call.headers, "user-agent").unwrap_or_default(),
                };
                let answer = api::perform(&mut state.world, operation, caller, &call.body, now)?;
                Ok(Reply::ok(answer.status, "application/json", answer.body.to_string()))
            }
            Operation::S3(operation) => {
                if !principal.may(&format!("s3:{}", operation.name())) {
                    return Err(ApiError::new("AccessDenied", "Access Denied"));
                }
                let chunked = header(&call.headers, "content-encoding")
                    .is_some_and(|encoding| encoding.contains("aws-chunked"));
                let body = if chunked {
                    let whole = s3::unchunk(&call.body).ok_or_else(|| {
                        ApiError::new("IncompleteBody", "The aws-chunked body is not well formed.")
                    })?;
                    Bytes::from(whole)
                } else {
                    call.body.clone()
                };
                let (account, region) = (&principal.account, &read.region);
                let answer = state.store.perform(operation, account, region, &body, now)?;
                let mut headers = answer.headers;
                headers.push(("x-amz-request-id", Uuid::new_v4().simple().to_string()));
                Ok(Reply { status: answer.status, headers, body: answer.body, error: None })
            }
            Operation::Sts(action) if action == "AssumeRole" => {
                assume(&mut state.principals, action, call, now)
            }
            Operation::Sts(action) if action == "GetCallerIdentity" => {
                let id = Uuid::new_v4().to_string();
                Ok(Reply::ok(200, "text/xml", sts::caller_identity(principal, &id)))
            }
            Operation::Sts(action) => Err(ApiError::new(
                "InvalidAction",
                format!("Could not find operation {action} for version 2011-06-15"),
            )),
            Operation::ContainerCredentials | Operation::Rest(_) | Operation::Unknown => {
                Err(ApiError::new(
                    "UnknownOperationException",
                    format!("{} {} is not an operation that is served", call.method, call.path),
                ))
            }
        }
    }

    /// The vendor checks at submission that the caller may write where the result will go.
    fn check_bucket(
        &self,
        store: &Store,
        principal: &Principal,
        body: &[u8],
    ) -> Result<(), ApiError> {
        let request: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(bucket) = request["outputS3Bucket"].as_str() else { return Ok(()) };
        match store.owner(bucket) {
            Some(owner) if owner == principal.account => Ok(()),
            None if self.config.any_bucket => Ok(()),
            _ => Err(ApiError::validation(format!(
                "Caller doesn't have access to {bucket} or it doesn't exist."
            ))),
        }
    }
}

fn assume(
    principals: &mut Principals,
    action: &str,
    call: &Call,
    now: Timestamp,
) -> Result<Reply, ApiError> {
    let form = String::from_utf8_lossy(&call.body);
    let id = Uuid::new_v4().to_string();
    let body = sts::assume_role(principals, action, &form, &id, now)?;
    Ok(Reply::ok(200, "text/xml", body))
}

fn entry(
    call: &Call,
    service: Service,
    operation: &Operation,
    authorization: Option<&Authorization>,
    principal: Option<&Principal>,
    now: Timestamp,
) -> Entry {
    let body: Option<serde_json::Value> = serde_json::from_slice(&call.body).ok();
    let task_arn = match operation {
        Operation::Braket(operation) => {
            operation.arn().filter(|arn| arn.contains(":quantum-task/")).map(str::to_owned)
        }
        _ => None,
    };
    Entry {
        at: now,
        service: service.as_str().to_owned(),
        operation: operation.name().to_owned(),
        access_key_id: authorization.map(|parts| parts.access_key_id.clone()),
        principal: principal.map(Principal::arn),
        account: principal.map(|principal| principal.account.clone()),
        region: authorization.map(|parts| parts.region.clone()),
        user_agent: header(&call.headers, "user-agent").unwrap_or_default().to_owned(),
        method: call.method.to_string(),
        path: call.target(),
        body_digest: sha256_hex(&call.body),
        body_bytes: call.body.len(),
        client_token: body.and_then(|body| Some(body.get("clientToken")?.as_str()?.to_owned())),
        task_arn,
        ..Entry::default()
    }
}
