//! The pods of a gang by their parts, and how many of them there should be.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_shared::gang::{Consumers, PodEnd, PodRef, PreviousPod, VendorStatus};
use sluice_shared::role::Role;

use super::order::ProducerEnd;
use crate::facts::job::JobSeen;
use crate::facts::pod::{PodPhase, PodSeen};

/// The pods of one gang, counted.
#[derive(Debug)]
pub(crate) struct Crew<'a> {
    pub consumers: Vec<&'a PodSeen>,
    pub producers: Vec<&'a PodSeen>,
    /// How many consumers should exist now.
    pub expected: u32,
    /// How many of those do not exist.
    pub missing: u32,
    /// How many living consumers our gate holds.
    pub gated: u32,
    /// How many consumers our gate does not hold, the finished ones included.
    pub released: u32,
}

impl<'a> Crew<'a> {
    /// Counts the pods. Sizes come from the Job as it is now; without a Job the pods are all
    /// there is.
    pub(crate) fn of(job: Option<&JobSeen>, pods: &[&'a PodSeen], gate: &str) -> Self {
        let (consumers, producers): (Vec<&PodSeen>, Vec<&PodSeen>) =
            pods.iter().partition(|p| p.role == Role::Consumer);
        // A pod that has just succeeded fills its place until the Job counts it: the two are
        // told at different times.
        let counted = |p: &PodSeen| p.index.zip(job).is_some_and(|(i, j)| j.succeeded.contains(i));
        let living: BTreeSet<_> = consumers
            .iter()
            .filter(|p| p.lives() || (p.phase == PodPhase::Succeeded && !counted(p)))
            .map(|p| p.index.ok_or(p.place.uid.as_str()))
            .collect();
        let living = number(living.len());
        let expected = job.map_or(living, expected);
        let held = |p: &&&PodSeen| p.holds(gate);
        let gated = number(consumers.iter().filter(|p| p.lives()).filter(held).count());
        let released = number(consumers.iter().filter(|p| !p.holds(gate)).count());
        let missing = expected.saturating_sub(living);
        Self { consumers, producers, expected, missing, gated, released }
    }

    /// The counts for the status.
    pub(crate) const fn counts(&self) -> Consumers {
        Consumers { expected: self.expected, gated: self.gated, released: self.released }
    }

    /// All consumers that exist or should.
    pub(crate) const fn total(&self) -> u32 {
        self.released.saturating_add(self.gated).saturating_add(self.missing)
    }

    /// Whether every expected consumer exists and none is held by our gate.
    pub(crate) const fn all_open(&self) -> bool {
        self.gated == 0 && self.missing == 0
    }

    /// The pod whose sidecar speaks for the gang: the recorded one while it works, then the
    /// oldest that does. When none works the recorded one stays, for people to see.
    pub(crate) fn producer(
        &self,
        recorded: Option<&PodRef>,
        vendor: Option<&VendorStatus>,
    ) -> Option<PodRef> {
        let works = |p: &&&PodSeen| p.lives();
        let holder = recorded
            .and_then(|r| self.producers.iter().filter(works).find(|p| p.place.uid == r.uid));
        let oldest = || {
            self.producers
                .iter()
                .filter(works)
                .min_by(|a, b| (a.created, &a.place.uid).cmp(&(b.created, &b.place.uid)))
        };
        let chosen = holder.or_else(oldest);
        chosen
            .map(|p| PodRef {
                pod: p.place.name.clone(),
                uid: p.place.uid.clone(),
                restarts: p.restarts,
                started_at: p.restarted_at.map(Time),
                index: p.index,
                previous: self.previous(p, recorded, vendor),
            })
            .or_else(|| recorded.cloned())
    }

    /// The producer that `chosen` replaces, and how it ended: a task with a result is taken up
    /// again only by a program that did not fail by itself.
    fn previous(
        &self,
        chosen: &PodSeen,
        recorded: Option<&PodRef>,
        vendor: Option<&VendorStatus>,
    ) -> Option<PreviousPod> {
        let recorded = recorded?;
        if recorded.uid == chosen.place.uid {
            return recorded.previous.clone();
        }
        let before = self.producers.iter().find(|p| p.place.uid == recorded.uid);
        // Another place of the Job, with work of its own.
        let succeeded = before.is_some_and(|p| p.phase == PodPhase::Succeeded);
        if succeeded || recorded.index != chosen.index {
            return None;
        }
        // A pod that ended before it asked for anything left nothing to take up.
        if !vendor.is_some_and(|v| v.asked_for_by(&recorded.uid)) {
            return recorded.previous.clone();
        }
        let failed =
            before.is_some_and(|p| p.phase == PodPhase::Failed && !p.disrupted && !p.terminating);
        let end = if failed { PodEnd::Failed } else { PodEnd::Disrupted };
        Some(PreviousPod { uid: recorded.uid.clone(), end })
    }

    /// How far the producer of a shared gang is.
    pub(crate) fn producer_end(&self, job: Option<&JobSeen>) -> ProducerEnd {
        let pod_succeeded = self.producers.iter().any(|p| p.phase == PodPhase::Succeeded);
        if pod_succeeded || job.is_some_and(|j| j.succeeded.contains(0)) {
            ProducerEnd::Succeeded
        } else if job.is_some_and(|j| j.failed.contains(0) && j.lives()) {
            ProducerEnd::FailedForGood
        } else {
            ProducerEnd::Going
        }
    }
}

/// How many consumers of the Job should exist now: those that are neither finished nor failed,
/// as far as the Job's parallelism lets them exist beside the producer.
fn expected(job: &JobSeen) -> u32 {
    let shared = job.readable_stamp().is_some_and(|s| s.consumers() > 0);
    let Some(completions) = job.completions.filter(|_| shared && job.lives() && !job.suspended)
    else {
        return 0;
    };
    let done = job.succeeded.consumers().saturating_add(job.failed.consumers());
    let left = completions.saturating_sub(1).saturating_sub(done);
    let producer_left = !job.succeeded.contains(0) && !job.failed.contains(0);
    left.min(job.parallelism.saturating_sub(u32::from(producer_left)))
}

/// A count as the API has it.
pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sluice_shared::gang::Task;

    use super::*;
    use crate::decide::fixtures::{mk_consumer, mk_job, mk_producer};
    use crate::facts::indexes::Indexes;

    #[test]
    fn sizes_follow_the_live_job() {
        // completions, parallelism, succeeded, failed, suspended, expected
        let rows = [
            (8, 8, "", "", false, 7),
            (8, 8, "0", "", false, 7),
            (8, 8, "0-7", "", false, 0),
            (8, 8, "3,4", "5", false, 4),
            (8, 8, "", "0", false, 7),
            (5, 2, "", "", false, 1),
            (5, 4, "", "", false, 3),
            (5, 2, "0", "", false, 2),
            (5, 2, "0,1,2,3", "", false, 1),
            (8, 0, "", "", false, 0),
            (8, 8, "", "", true, 0),
            (4, 8, "", "", false, 3),
        ];
        for (completions, parallelism, succeeded, failed, suspended, want) in rows {
            let mut job = mk_job(8);
            job.completions = Some(completions);
            job.parallelism = parallelism;
            job.succeeded = Indexes::parse(succeeded);
            job.failed = Indexes::parse(failed);
            job.suspended = suspended;
            assert_eq!(
                expected(&job),
                want,
                "{completions}/{parallelism} succeeded {succeeded:?} failed {failed:?}"
            );
        }
    }

    #[test]
    fn two_pods_of_one_index_fill_one_place() {
        let job = mk_job(3);
        let (one, mut twin) = (mk_consumer(1), mk_consumer(1));
        twin.place.uid = "twin".into();
        let crew = Crew::of(Some(&job), &[&one, &twin], "g");
        assert_eq!((crew.expected, crew.missing), (2, 1));
    }

    #[test]
    fn a_pod_that_has_just_succeeded_is_not_missing() {
        let mut job = mk_job(3);
        let (one, mut two) = (mk_consumer(1), mk_consumer(2));
        two.phase = PodPhase::Succeeded;
        let crew = Crew::of(Some(&job), &[&one, &two], "g");
        assert_eq!((crew.expected, crew.missing), (2, 0));
        job.succeeded = Indexes::parse("2");
        let crew = Crew::of(Some(&job), &[&one, &two], "g");
        assert_eq!((crew.expected, crew.missing), (1, 0));
    }

    #[test]
    fn the_recorded_producer_stays_while_it_works() {
        let (first, mut second) = (mk_producer(), mk_producer());
        second.place.uid = "p-2".into();
        second.created = first.created.map(|t| t - jiff::SignedDuration::from_hours(1));
        let recorded = PodRef {
            pod: first.place.name.clone(),
            uid: first.place.uid.clone(),
            ..PodRef::default()
        };
        let uid = |pods: &[&PodSeen], recorded: Option<&PodRef>| {
            Crew::of(None, pods, "g").producer(recorded, None).map(|p| p.uid)
        };
        assert_eq!(uid(&[&first, &second], Some(&recorded)), Some("p-0".into()));
        assert_eq!(uid(&[&first, &second], None), Some("p-2".into()), "the oldest");
        let mut leaving = first.clone();
        leaving.terminating = true;
        assert_eq!(uid(&[&leaving, &second], Some(&recorded)), Some("p-2".into()));
        assert_eq!(uid(&[&leaving], Some(&recorded)), Some("p-0".into()), "nobody else works");
        let mut failed = first;
        failed.phase = PodPhase::Failed;
        assert_eq!(uid(&[&failed, &second], Some(&recorded)), Some("p-2".into()));
    }

    #[test]
    fn a_replaced_producer_is_remembered_with_its_end() {
        let (first, mut second) = (mk_producer(), mk_producer());
        second.place.uid = "p-2".into();
        second.restarts = 3;
        let recorded = PodRef {
            pod: first.place.name.clone(),
            uid: first.place.uid.clone(),
            index: Some(0),
            ..PodRef::default()
        };
        let vendor = mk_asked("p-0/0");
        // phase of the first, terminating, disrupted, still there, end
        let rows = [
            (PodPhase::Failed, false, false, true, PodEnd::Failed),
            (PodPhase::Failed, false, true, true, PodEnd::Disrupted),
            (PodPhase::Failed, true, false, true, PodEnd::Disrupted),
            (PodPhase::Running, true, false, true, PodEnd::Disrupted),
            (PodPhase::Failed, false, false, false, PodEnd::Disrupted),
        ];
        for (phase, terminating, disrupted, there, end) in rows {
            let first = PodSeen { phase, terminating, disrupted, ..first.clone() };
            let pods: &[&PodSeen] = if there { &[&first, &second] } else { &[&second] };
            let crew = Crew::of(None, pods, "g");
            let next = crew.producer(Some(&recorded), Some(&vendor)).unwrap();
            assert_eq!((next.uid.as_str(), next.restarts), ("p-2", 3));
            let previous = Some(PreviousPod { uid: "p-0".into(), end });
            assert_eq!(next.previous, previous, "{phase:?} {terminating} {disrupted} {there}");
            // It stays remembered after the pod has gone.
            let later = Crew::of(None, &[&second], "g").producer(Some(&next), None).unwrap();
            assert_eq!(later.previous, previous);
        }
        // Another place of the Job, or a place that is filled: nothing is continued.
        let ended = PodSeen { phase: PodPhase::Succeeded, ..first.clone() };
        let other = PodSeen { index: Some(1), ..second.clone() };
        for (chosen, before) in [(&second, &ended), (&other, &first)] {
            let before = PodSeen { terminating: true, ..before.clone() };
            let crew = Crew::of(None, &[&before, chosen], "g");
            let next = crew.producer(Some(&recorded), Some(&vendor)).unwrap();
            assert_eq!((next.uid.as_str(), next.previous), ("p-2", None));
        }
    }

    fn mk_asked(incarnation: &str) -> VendorStatus {
        let task = Task { incarnation: Some(incarnation.into()), ..Task::default() };
        VendorStatus { tasks: vec![task], ..VendorStatus::default() }
    }

    #[test]
    fn a_pod_that_asked_for_nothing_is_not_remembered() {
        let mut third = mk_producer();
        third.place.uid = "p-3".into();
        let first = PreviousPod { uid: "p-1".into(), end: PodEnd::Disrupted };
        let recorded = PodRef {
            uid: "p-2".into(),
            index: Some(0),
            previous: Some(first.clone()),
            ..PodRef::default()
        };
        let previous = |incarnation: &str| {
            let crew = Crew::of(None, &[&third], "g");
            crew.producer(Some(&recorded), Some(&mk_asked(incarnation))).unwrap().previous.unwrap()
        };
        assert_eq!(previous("p-1/0"), first);
        assert_eq!(previous("p-2/4").uid, "p-2");
    }
}
