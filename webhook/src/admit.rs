//! Admission: from a review to a verdict. Plain functions, no IO.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::core::admission::{AdmissionRequest, Operation};

use crate::config::Config;
use crate::reason::Reason;
use crate::served::Served;
use crate::warning::Warning;
use crate::{job, pod};

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict<T> {
    /// It is not ours, or nothing is to be done.
    Pass,
    /// It is admitted in this form.
    Change {
        /// The object as it should be.
        object: Box<T>,
        /// What the user should know.
        warnings: Vec<Warning>,
        /// What it became, for metrics: a role, or `job`.
        kind: &'static str,
    },
    /// It is refused.
    Deny(Reason),
}

/// A kind of object that is admitted.
pub trait Admit:
    Resource<DynamicType = ()> + Clone + serde::Serialize + serde::de::DeserializeOwned
{
    /// Decides about one object at its creation.
    fn verdict(&self, config: &Config, served: Served) -> Verdict<Self>;
}

impl Admit for Job {
    fn verdict(&self, config: &Config, _: Served) -> Verdict<Self> {
        match job::decide(self, config) {
            Ok(None) => Verdict::Pass,
            Ok(Some(decision)) => Verdict::Change {
                object: Box::new(job::stamped(self.clone(), &decision)),
                warnings: decision.warnings,
                kind: "job",
            },
            Err(reason) => Verdict::Deny(reason),
        }
    }
}

impl Admit for Pod {
    fn verdict(&self, config: &Config, served: Served) -> Verdict<Self> {
        match pod::shaped(self, config, served) {
            Ok(None) => Verdict::Pass,
            Ok(Some(shaped)) => Verdict::Change {
                object: Box::new(shaped.pod),
                warnings: shaped.warnings,
                kind: shaped.role.as_str(),
            },
            Err(reason) => Verdict::Deny(reason),
        }
    }
}

/// Decides about a review. Only creations of whole objects are ours: an update of a stored pod
/// would be refused by the API server, and a subresource is not the object.
#[must_use]
pub fn admit<T: Admit>(
    request: &AdmissionRequest<T>,
    config: &Config,
    served: Served,
) -> Verdict<T> {
    let whole = request.sub_resource.as_ref().is_none_or(String::is_empty);
    match &request.object {
        Some(object) if request.operation == Operation::Create && whole => {
            object.verdict(config, served)
        }
        _ => Verdict::Pass,
    }
}
