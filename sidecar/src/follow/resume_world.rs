//! A world for the tests of the matching: a vendor that knows each token once, an API server, a
//! keeper that may tell late, and the worker under test.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_shared::gang::{Intent, PodEnd, PodRef, PreviousPod, VendorStatus};
use sluice_shared::policy::{Follow, Mismatch, ReleasePolicy};
use sluice_shared::resource::Place;
use sluice_shared::role::Role;
use sluice_shared::task::TaskState;
use sluice_tap::{Stretch, Ties};

use super::super::decide::decide;
use super::super::state::{GangSeen, Rules, Seen, State, Step};
use super::super::timing::Now;
use super::{Ask, Verdict};
use crate::follow::decide::play::mk_failure;
use crate::follow::passing::Submitted;
use crate::vendor::{FailureKind, Reading};

fn arn(n: usize) -> String {
    format!("arn:aws:braket:eu-north-1:123456789012:quantum-task/{n:08}")
}

fn mk_rules(pod: &str) -> Rules {
    Rules {
        role: Role::Single,
        policy: ReleasePolicy::Front,
        needed: 1,
        follow: Follow::Any,
        backend: None,
        max_cost: None,
        mismatch: Mismatch::default(),
        hints: Vec::new(),
        incarnation: pod.to_owned(),
        gang: "ns/g".into(),
        announce_url: "http://127.0.0.1:1".into(),
    }
}

/// Vendor, API server and keeper in one, and the worker under test.
pub(super) struct World {
    pub(super) at: Timestamp,
    pub(super) state: State,
    /// `status.vendor` at the API server.
    pub(super) stored: VendorStatus,
    /// The producer as it is, and as the keeper has told.
    pub(super) producer: PodRef,
    told: PodRef,
    /// What the tap knows of the program.
    pub(super) ties: Ties,
    /// Changes of the gang do not reach the worker.
    pub(super) lag: bool,
    tickets: u64,
    /// Token at the vendor, its task.
    pub(super) tasks: BTreeMap<String, String>,
    pub(super) states: BTreeMap<String, TaskState>,
    /// Intents that left the worker's list, in order.
    pub(super) left: Vec<Left>,
    /// What was said.
    pub(super) said: Vec<String>,
}

/// An intent that left the list.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) token: String,
    /// Whether people were told in the same moment that a task may exist at its place.
    pub(super) is_told: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let producer = PodRef { pod: "p".into(), uid: "pod-0".into(), ..PodRef::default() };
        let mut world = Self {
            at,
            state: State::new(mk_rules("pod-0"), at),
            stored: VendorStatus::default(),
            told: producer.clone(),
            producer,
            ties: Ties { since: Some(at), ..Ties::default() },
            lag: false,
            tickets: 0,
            tasks: BTreeMap::new(),
            states: BTreeMap::new(),
            left: Vec::new(),
            said: Vec::new(),
        };
        world.look();
        world
    }

    pub(super) fn see(&mut self, seen: Seen) {
        let mut queue = vec![seen];
        while let Some(seen) = queue.pop() {
            self.at += SignedDuration::from_millis(1);
            let now = Now { at: self.at, luck: 0.5, stretch: Stretch::default() };
            let (state, steps) = decide(self.state.clone(), seen, now);
            let before = std::mem::replace(&mut self.state, state).ledger.intents;
            self.note(&before, &steps);
            for step in steps {
                match step {
                    Step::Write(status) => {
                        self.stored = *status;
                        if !self.lag {
                            queue.push(self.gang());
                        }
                    }
                    Step::Read { id, resource } => {
                        let known = self.states.get(&id);
                        let reading = known.map(|state| Reading {
                            device: Some("d".into()),
                            shots: Some(20),
                            resource,
                            ..Reading::new(id.clone(), state.clone())
                        });
                        let outcome = reading.ok_or_else(|| mk_failure(FailureKind::NotFound));
                        queue.push(Seen::Read(id, self.at, outcome));
                    }
                    Step::ReadDevice { .. } | Step::Say(_) => {}
                }
            }
        }
    }

    /// Takes down what was said, and which intents are not there any more.
    fn note(&mut self, before: &[Intent], steps: &[Step]) {
        let lines: Vec<&String> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Say(line) => Some(&line.text),
                _ => None,
            })
            .collect();
        let kept: BTreeSet<&String> =
            self.state.ledger.intents.iter().map(|i| &i.client_token).collect();
        for intent in before.iter().filter(|i| !kept.contains(&i.client_token)) {
            let is_told = lines
                .iter()
                .any(|line| line.contains(&intent.region) && line.contains("may exist"));
            self.left.push(Left { token: intent.client_token.clone(), is_told });
        }
        self.said.extend(lines.into_iter().cloned());
    }

    fn gang(&self) -> Seen {
        Seen::Gang(Some(GangSeen {
            uid: "g".into(),
            vendor: Some(self.stored.clone()),
            producer: Some(self.told.clone()),
            ..GangSeen::default()
        }))
    }

    pub(super) fn look(&mut self) {
        let gang = self.gang();
        self.see(gang);
    }

    /// The keeper tells, and the worker hears it.
    pub(super) fn tell(&mut self) {
        self.told = self.producer.clone();
        self.look();
    }

    /// The worker dies; another one begins.
    pub(super) fn crash_worker(&mut self) {
        let pod = self.state.rules.incarnation.clone();
        self.at += SignedDuration::from_millis(50);
        self.state = State::new(mk_rules(&pod), self.at);
        self.ties = Ties { since: Some(self.at), ..Ties::default() };
        self.look();
    }

    /// The container is started again.
    pub(super) fn restart(&mut self) {
        self.at += SignedDuration::from_secs(1);
        self.producer.restarts += 1;
        let second = Timestamp::from_second(self.at.as_second()).unwrap();
        self.producer.started_at = Some(Time(second));
        self.ties = Ties { since: Some(self.at), ..Ties::default() };
    }

    /// Another pod; the keeper has to tell of it before its sidecar may write.
    pub(super) fn replace(&mut self, end: PodEnd) {
        self.at += SignedDuration::from_secs(1);
        let previous = if self.stored.asked_for_by(&self.producer.uid) {
            Some(PreviousPod { uid: self.producer.uid.clone(), end })
        } else {
            self.producer.previous.clone()
        };
        let uid = format!("{}x", self.producer.uid);
        self.state = State::new(mk_rules(&uid), self.at);
        self.producer = PodRef { pod: "p".into(), uid, previous, ..PodRef::default() };
        self.ties = Ties { since: Some(self.at), ..Ties::default() };
        self.tell();
    }

    pub(super) fn ask(&mut self, digest: &str, token: &str) -> u64 {
        self.ask_in("eu-north-1", digest, token)
    }

    pub(super) fn ask_in(&mut self, region: &str, digest: &str, token: &str) -> u64 {
        self.ask_at(Place::Region(region.into()), digest, token)
    }

    pub(super) fn ask_at(&mut self, place: Place, digest: &str, token: &str) -> u64 {
        self.tickets += 1;
        self.see(Seen::Asked(Ask {
            ticket: self.tickets,
            digest: digest.into(),
            place,
            client_token: Some(token.into()),
            ties: self.ties.clone(),
            at: self.at,
        }));
        self.tickets
    }

    /// The verdict, once it takes effect.
    pub(super) fn verdict(&self, ticket: u64) -> Option<Verdict> {
        let (verdict, is_recorded) = self.state.ledger.answer(ticket)?;
        is_recorded.then(|| verdict.clone())
    }

    /// The vendor takes a submission under a token, or knows it.
    pub(super) fn accept(&mut self, token: &str) -> String {
        let next = arn(self.tasks.len());
        let id = self.tasks.entry(token.to_owned()).or_insert(next).clone();
        self.states.entry(id.clone()).or_insert(TaskState::Queued);
        id
    }

    pub(super) fn submitted(&mut self, digest: &str, token: &str, id: &str) {
        self.see(Seen::Submitted(Submitted {
            resource: None,
            id: id.to_owned(),
            device: Some("d".into()),
            shots: Some(20),
            digest: Some(digest.to_owned()),
            client_token: Some(token.to_owned()),
        }));
    }

    /// A whole submission that does not have to wait.
    pub(super) fn submit(&mut self, digest: &str, token: &str) -> String {
        let ticket = self.ask(digest, token);
        let (id, sent) = match self.verdict(ticket).expect("answered at once") {
            Verdict::Send => (self.accept(token), token.to_owned()),
            Verdict::SendWith(earlier) => (self.accept(&earlier), earlier),
            Verdict::Known(id) => (id, token.to_owned()),
        };
        self.submitted(digest, &sent, &id);
        id
    }
}
