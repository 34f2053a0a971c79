//! What the user asks for, read from annotations.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use sluice_shared::names;
use sluice_shared::policy::{Follow, Mismatch, ReleasePolicy};
use sluice_shared::price::Usd;
use sluice_shared::stamp::{Discovery, Mode};

use crate::reason::Reason;
use crate::warning::Warning;

/// Annotations as Kubernetes has them.
pub type Annotations = BTreeMap<String, String>;

/// Most tasks that a release can wait for: a gang lists no more.
const MAX_TASKS: u32 = 100;

/// Keys under our own prefix that a user may set.
const OWN_KEYS: [&str; 9] = [
    names::RELEASE,
    names::TASKS,
    names::FOLLOW,
    names::DISCOVERY,
    names::CANCEL_ON_DELETE,
    names::RESUME,
    names::MAX_COST,
    names::MISMATCH,
    names::POLICY,
];

/// Keys that Sluice writes and nobody else.
const WRITTEN: [&str; 5] = [
    names::STAMP,
    names::QUANTUM_JOB_ID,
    names::QUANTUM_JOB_IDS,
    names::QPU_REQUEST,
    names::NOT_TAPPED,
];

/// Prefixes of everything that Fluence and Sluice read.
const PREFIXES: [&str; 2] = ["fluence.flux-framework.org/", "sluice.flux-framework.org/"];

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ask {
    /// How the pods work together.
    pub coordination: Option<Mode>,
    /// The sidecar without a gang.
    pub observe: bool,
    /// When the gates open.
    pub release: Option<ReleasePolicy>,
    /// How many tasks must be ready.
    pub tasks: Option<u32>,
    /// Which tasks count.
    pub follow: Option<Follow>,
    /// How the task is found.
    pub discovery: Discovery,
    /// Whether the live tasks are cancelled when the Job is deleted.
    pub cancel_on_delete: Option<bool>,
    /// Whether a later run of the program gets no tasks of an earlier one.
    pub no_resume: bool,
    /// The backend.
    pub backend: Option<String>,
    /// What happens with a task on another QPU than the backend.
    pub mismatch: Mismatch,
    /// Most that the tasks may cost.
    pub max_cost: Option<Usd>,
    /// How many pods there should be.
    pub group_size: Option<u32>,
}

impl Ask {
    /// Reads annotations.
    ///
    /// # Errors
    /// The first annotation that says something that does not exist.
    pub fn read(annotations: &Annotations) -> Result<(Self, Vec<Warning>), Reason> {
        let choice =
            |key: &&String| *key == names::POLICY || key.starts_with(names::REQUIRE_PREFIX);
        if let Some(key) = annotations.keys().find(choice) {
            return Err(Reason::NoChoice(key.clone()));
        }
        one_of(annotations, names::CANCEL_ON_DELETE, &["true", "false"])?;
        one_of(annotations, names::RESUME, &["on", "off"])?;
        one_of(annotations, names::OBSERVE, &["true", "false"])?;
        let ask = Self {
            coordination: word(annotations, names::COORDINATION)?,
            observe: annotations.get(names::OBSERVE).is_some_and(|v| v == "true"),
            release: word(annotations, names::RELEASE)?,
            tasks: number(annotations, names::TASKS, 1, MAX_TASKS)?,
            follow: word(annotations, names::FOLLOW)?,
            discovery: word(annotations, names::DISCOVERY)?.unwrap_or_default(),
            cancel_on_delete: annotations.get(names::CANCEL_ON_DELETE).map(|v| v == "true"),
            no_resume: annotations.get(names::RESUME).is_some_and(|v| v == "off"),
            backend: annotations.get(names::BACKEND).filter(|b| !b.is_empty()).cloned(),
            mismatch: word(annotations, names::MISMATCH)?.unwrap_or_default(),
            max_cost: word(annotations, names::MAX_COST)?,
            group_size: number(annotations, names::GROUP_SIZE, 1, 100_000)?,
        };
        let unknown = annotations
            .keys()
            .filter(|k| {
                k.starts_with(PREFIXES[1])
                    && !OWN_KEYS.contains(&k.as_str())
                    && !WRITTEN.contains(&k.as_str())
            })
            .map(|k| Warning::UnknownAnnotation(k.clone()));
        Ok((ask, unknown.collect()))
    }

    /// Which tasks count, when the user said nothing: those on the backend, if one is named.
    #[must_use]
    pub fn follow(&self) -> Follow {
        self.follow.unwrap_or(if self.backend.is_some() { Follow::Device } else { Follow::Any })
    }
}

/// The annotations of Job and template together, ours only, without what Sluice itself writes.
///
/// # Errors
/// When they contradict each other.
pub fn merged(job: &Annotations, template: &Annotations) -> Result<Annotations, Reason> {
    let ours = |key: &str| PREFIXES.iter().any(|p| key.starts_with(p)) && !WRITTEN.contains(&key);
    let mut all: Annotations =
        template.iter().filter(|(k, _)| ours(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
    for (key, value) in job.iter().filter(|(k, _)| ours(k)) {
        match all.get(key) {
            Some(other) if other != value => {
                return Err(Reason::Conflict {
                    key: key.clone(),
                    job: value.clone(),
                    template: other.clone(),
                });
            }
            _ => all.insert(key.clone(), value.clone()),
        };
    }
    Ok(all)
}

/// The annotation that makes an object without a qpu ours, or wrongly looks like it.
///
/// Fluence's group size, backend and attributes alone do not: plain Jobs may carry them.
#[must_use]
pub fn claim(annotations: &Annotations) -> Option<&str> {
    annotations
        .keys()
        .map(String::as_str)
        .find(|k| [names::COORDINATION, names::OBSERVE].contains(k) || OWN_KEYS.contains(k))
}

fn word<T>(annotations: &Annotations, key: &str) -> Result<Option<T>, Reason>
where
    T: FromStr,
    T::Err: Display,
{
    annotations
        .get(key)
        .map(|v| {
            v.parse().map_err(|e: T::Err| Reason::Unknown {
                key: key.to_owned(),
                message: e.to_string(),
            })
        })
        .transpose()
}

fn number(annotations: &Annotations, key: &str, min: u32, max: u32) -> Result<Option<u32>, Reason> {
    let Some(value) = annotations.get(key) else { return Ok(None) };
    match value.trim().parse() {
        Ok(n) if (min..=max).contains(&n) => Ok(Some(n)),
        _ => Err(Reason::NotANumber { key: key.to_owned(), value: value.clone(), min, max }),
    }
}

fn one_of(annotations: &Annotations, key: &str, allowed: &[&str]) -> Result<(), Reason> {
    match annotations.get(key) {
        Some(value) if !allowed.contains(&value.as_str()) => Err(Reason::Unknown {
            key: key.to_owned(),
            message: format!("{value:?} is unknown; allowed are {}", allowed.join(", ")),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn every_bad_word_is_named_with_what_is_allowed() {
        let rows = [
            (names::COORDINATION, "together", "shared, independent"),
            (names::RELEASE, "soon", "front, running, completed, position<=K"),
            (names::RELEASE, "position<=0", "position<=K (K: a whole number from 1"),
            (names::RELEASE, "position<5", "position<=K (K: a whole number from 1"),
            (names::FOLLOW, "all", "device, qpu, any"),
            (names::DISCOVERY, "guess", "auto, tap, announce"),
            (names::OBSERVE, "yes", "true, false"),
            (names::CANCEL_ON_DELETE, "maybe", "true, false"),
            (names::RESUME, "later", "on, off"),
            (names::TASKS, "many", "whole number from 1 to 100"),
            (names::TASKS, "0", "whole number from 1 to 100"),
            (names::MAX_COST, "$5", "US dollars with at most 6 decimals"),
            (names::MISMATCH, "no", "warn, refuse"),
            (names::GROUP_SIZE, "-3", "whole number"),
            (names::POLICY, "min-cost", "cannot choose a backend yet"),
            ("fluence.flux-framework.org/require-qubits", "20", "cannot choose a backend yet"),
        ];
        for (key, value, expected) in rows {
            let message = Ask::read(&mk(&[(key, value)])).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_misspelt_key_is_worth_a_word() {
        let (_, warnings) =
            Ask::read(&mk(&[("sluice.flux-framework.org/relaese", "front")])).unwrap();
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn contradictions_are_refused_and_agreement_is_not() {
        let job = mk(&[(names::RELEASE, "front"), ("mine", "a")]);
        assert!(merged(&job, &mk(&[(names::RELEASE, "running")])).is_err());
        let all = merged(&job, &mk(&[(names::RELEASE, "front"), (names::STAMP, "x")])).unwrap();
        assert_eq!(all, mk(&[(names::RELEASE, "front")]));
    }
}
