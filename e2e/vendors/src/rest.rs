//! What the vendors of QRMI have in common: JSON over HTTP, accounts with keys, machines with a
//! line each, and jobs.
//!
//! They share the vendor port. The first part of the path names the vendor ([`Service::as_str`]),
//! so `http://<vendor port>/iqm` is the base URL of IQM Server. A request that is signed for AWS
//! is never one of theirs. IQM Server is at the port's origin too: its own client takes no path.

pub mod access;
pub mod compute;
pub(crate) mod environment;
pub(crate) mod front;
pub mod machine;
pub mod machines;
pub mod steer;

use std::collections::BTreeMap;
use std::fmt::Debug;

use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::braket::api::values;
use crate::error::{ApiError, Service};
use crate::felis::Felis;
use crate::ibm;
use crate::iqm::Iqm;
use crate::pasqal::Pasqal;
use crate::quota::Quotas;
use crate::s3::Store;
use crate::signature::header;
use access::{Access, Account};
use machine::Machine;
use machines::{Machines, Work};

/// What the vendors of QRMI are told at the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Who may call; one list for all vendors.
    pub accounts: Vec<Account>,
    /// The machines of all vendors.
    pub machines: Vec<Machine>,
    /// How long an access token lasts, seconds.
    pub token_seconds: i64,
    /// The longest that a long poll is held open, milliseconds.
    pub long_poll_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accounts: access::accounts(),
            machines: machine::catalogue(),
            token_seconds: 3_600,
            long_poll_ms: 30_000,
        }
    }
}

/// A request below the path of a vendor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// What follows the vendor's part, from its slash on.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// When it came: long polls count from there.
    pub(crate) arrived: Timestamp,
}

impl<'a> Request<'a> {
    /// The parts of the path.
    pub(crate) fn parts(&self) -> Vec<&'a str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }

    /// The first value of a query parameter.
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        values(self.query, name).into_iter().next()
    }

    /// The token of `Authorization: Bearer`.
    pub(crate) fn bearer(&self) -> Option<&'a str> {
        header(self.headers, "authorization")?.strip_prefix("Bearer ")
    }

    /// The body as JSON; null where it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.body).unwrap_or_default()
    }
}

/// An answer that is not an error.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    /// The job that the request made or named.
    pub(crate) job: Option<String>,
}

impl Answer {
    /// JSON with a status.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    /// Any text.
    pub(crate) fn text(status: u16, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, headers: Vec::new(), body: Bytes::from(body), job: None }
    }

    /// The same with the job that it is about.
    pub(crate) fn about(mut self, job: &str) -> Self {
        self.job = Some(job.to_owned());
        self
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Performed {
    /// It is answered.
    Answer(Answer),
    /// A long poll: to be asked again when something moved, at the latest at this time.
    Wait(Timestamp),
}

impl From<Answer> for Performed {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// What the vendors share with each other and with the services of AWS.
#[derive(Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) access: &'a mut Access,
    pub(crate) quotas: &'a mut Quotas,
    pub(crate) store: &'a mut Store,
}

/// One vendor: its operations on its machines.
pub(crate) trait Vendor: Debug + Send {
    /// Name of the operation, for journal and faults: `<service>:<Operation>`.
    fn operation(&self, request: &Request<'_>) -> &'static str;

    /// The account that sends the request, where its token or key is accepted.
    fn account(&self, request: &Request<'_>, access: &Access, now: Timestamp) -> Option<String>;

    /// Does the work of a request.
    fn perform(
        &mut self,
        request: &Request<'_>,
        shared: &mut Shared<'_>,
        now: Timestamp,
    ) -> Result<Performed, ApiError>;

    /// Its machines and jobs.
    fn machines(&self) -> &Machines;

    /// The same, to change.
    fn machines_mut(&mut self) -> &mut Machines;

    /// Lets time pass.
    fn advance(&mut self, now: Timestamp) -> Vec<Work> {
        self.machines_mut().advance(now)
    }

    /// When something will happen next by itself.
    fn next_due(&self) -> Option<Timestamp> {
        self.machines().next_due()
    }

    /// What else has to happen when jobs have ended.
    fn settle(&mut self, _ended: Vec<String>, _store: &mut Store, _now: Timestamp) {}
}

/// All vendors of QRMI.
#[derive(Debug)]
pub(crate) struct Vendors {
    pub(crate) access: Access,
    by_service: BTreeMap<Service, Box<dyn Vendor>>,
}

impl Vendors {
    /// Vendors without jobs.
    pub(crate) fn new(config: &Config, now: Timestamp) -> Self {
        let machines = |service| Machines::new(service, &config.machines, now);
        let vendors: [(Service, Box<dyn Vendor>); 5] = [
            (Service::Iqm, Box::new(Iqm::new(machines(Service::Iqm), config.long_poll_ms))),
            (
                Service::IbmQuantumSystem,
                Box::new(ibm::System::new(machines(Service::IbmQuantumSystem))),
            ),
            (Service::Pasqal, Box::new(Pasqal::new(machines(Service::Pasqal)))),
            (Service::Felis, Box::new(Felis::new(machines(Service::Felis)))),
            (
                Service::IbmQuantumComputeService,
                Box::new(ibm::Service::new(machines(Service::IbmQuantumComputeService))),
            ),
        ];
        Self {
            access: Access::new(config.accounts.clone(), config.token_seconds),
            by_service: vendors.into_iter().collect(),
        }
    }

    /// The vendor that a path belongs to, and the rest of the path.
    pub(crate) fn of_path<'a>(&self, path: &'a str) -> Option<(Service, &'a str)> {
        if path.starts_with("/api/v1/") {
            return Some((Service::Iqm, path));
        }
        let rest = path.strip_prefix('/')?;
        let name = rest.split('/').next()?;
        let service = self.by_service.keys().find(|service| service.as_str() == name)?;
        Some((*service, &rest[name.len()..]))
    }

    /// One vendor, with what is not its own.
    pub(crate) fn of(&mut self, service: Service) -> Option<(&mut dyn Vendor, &mut Access)> {
        let vendor = self.by_service.get_mut(&service)?;
        Some((vendor.as_mut(), &mut self.access))
    }

    /// All vendors.
    pub(crate) fn each(&self) -> impl Iterator<Item = &dyn Vendor> {
        self.by_service.values().map(AsRef::as_ref)
    }

    /// All vendors, to change.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Vendor>> {
        self.by_service.values_mut()
    }

    /// Lets time pass: the work of the jobs that started. Results go to the store.
    pub(crate) fn advance(&mut self, store: &mut Store, now: Timestamp) -> Vec<Work> {
        let mut work = Vec::new();
        for vendor in self.each_mut() {
            work.extend(vendor.advance(now));
            let ended = vendor.machines_mut().take_ended();
            vendor.settle(ended, store, now);
        }
        work
    }

    /// When something will happen next by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.each().filter_map(Vendor::next_due).min()
    }
}
