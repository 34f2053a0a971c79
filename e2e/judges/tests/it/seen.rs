//! What was seen of a program's submissions: by itself, by the tap, by the proxies.

use sluice_judges::table::Outcome;
use sluice_vendors::Running;

use crate::bench::Told;
use crate::program::{Answer, Report};
use crate::proxy::Proxy;

/// One run of a program: what it printed, what the tap told, what the proxies were asked for.
pub(crate) struct Seen {
    pub(crate) report: Report,
    pub(crate) errors: String,
    pub(crate) told: Told,
    pub(crate) proxies: Vec<Proxy>,
}

impl Seen {
    /// How a turn went, by what was observed outside the program too.
    pub(crate) fn outcome(&self, turn: usize, vendor: &Running) -> Outcome {
        match &self.report.turns[turn] {
            Answer { task: Some(task), .. } if self.told.submitted.contains(task) => Outcome::Found,
            Answer { task: Some(task), .. } => {
                let is_job = || vendor.jobs().iter().any(|job| job.id == *task);
                assert!(vendor.task(task).is_some() || is_job(), "nobody knows {task}");
                Outcome::Endpoint
            }
            Answer { error, .. } => match self.proxies[turn].hosts().first() {
                // With one turn alone a submission is that turn's, though no id was printed.
                Some(host) if self.proxies.len() == 1 && !self.told.submitted.is_empty() => {
                    Outcome::FoundThen(host.clone())
                }
                // It asked the proxy for the tap.
                Some(host) if host.starts_with("127.0.0.1") => Outcome::Proxy,
                Some(host) => Outcome::Host(host.clone()),
                None => Outcome::Failed(error.clone().unwrap_or_default()),
            },
        }
    }

    /// The packages that were tried.
    pub(crate) fn versions(&self) -> String {
        let each = self.report.versions.iter().map(|(name, version)| format!("{name} {version}"));
        each.collect::<Vec<_>>().join(", ")
    }
}
