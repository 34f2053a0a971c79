//! The matching as a game against a vendor that knows each token once: a program that crashes,
//! workers that crash, and pods that are replaced, in any order.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use sluice_shared::gang::{PodEnd, PodRef, PreviousPod, VendorStatus};
use sluice_shared::policy::{Follow, ReleasePolicy};
use sluice_shared::role::Role;
use sluice_shared::task::TaskState;

use super::super::decide::decide;
use super::super::state::{GangSeen, Rules, Seen, State, Step};
use super::super::timing::Now;
use super::{Ask, Verdict, incarnation};
use crate::vendor::Reading;

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
        incarnation: pod.to_owned(),
        gang: "ns/g".into(),
        announce_url: "http://127.0.0.1:1".into(),
    }
}

/// Vendor, API server and keeper in one, and the worker under test.
struct World {
    at: Timestamp,
    state: State,
    stored: VendorStatus,
    producer: PodRef,
    /// Since when the program's connection is open.
    since: Timestamp,
    tickets: u64,
    tokens: usize,
    /// Token at the vendor, its task.
    tasks: BTreeMap<String, String>,
    states: BTreeMap<String, TaskState>,
}

impl World {
    fn new() -> Self {
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let producer = PodRef { pod: "p".into(), uid: "pod-0".into(), ..PodRef::default() };
        let mut world = Self {
            at,
            state: State::new(mk_rules("pod-0"), at),
            stored: VendorStatus::default(),
            producer,
            since: at,
            tickets: 0,
            tokens: 0,
            tasks: BTreeMap::new(),
            states: BTreeMap::new(),
        };
        world.look();
        world
    }

    fn see(&mut self, seen: Seen) {
        let mut queue = vec![seen];
        while let Some(seen) = queue.pop() {
            self.at += SignedDuration::from_millis(1);
            let now = Now { at: self.at, luck: 0.5 };
            let (state, steps) = decide(self.state.clone(), seen, now);
            self.state = state;
            for step in steps {
                match step {
                    Step::Write(status) => {
                        self.stored = *status;
                        queue.push(self.gang());
                    }
                    Step::Read { id } => {
                        let state = self.states[&id].clone();
                        let reading = Reading {
                            id: id.clone(),
                            device: Some("d".into()),
                            state,
                            position: None,
                            priority: false,
                            reason: None,
                            submitted_at: None,
                        };
                        queue.push(Seen::Read(id, self.at, Ok(reading)));
                    }
                    Step::ReadDevice { .. } | Step::Say(_) => {}
                }
            }
        }
    }

    fn gang(&self) -> Seen {
        Seen::Gang(Some(GangSeen {
            uid: "g".into(),
            vendor: Some(self.stored.clone()),
            producer: Some(self.producer.clone()),
            ..GangSeen::default()
        }))
    }

    fn look(&mut self) {
        let gang = self.gang();
        self.see(gang);
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{}", self.tokens)
    }

    /// The worker dies; another one begins.
    fn crash_worker(&mut self) {
        let pod = self.state.rules.incarnation.clone();
        self.at += SignedDuration::from_millis(50);
        self.state = State::new(mk_rules(&pod), self.at);
        self.since = self.at;
        self.look();
    }

    /// The container is started again. The keeper tells of it before or after the program asks.
    fn restart(&mut self) {
        self.at += SignedDuration::from_secs(1);
        self.producer.restarts += 1;
        self.since = self.at;
    }

    /// Another pod.
    fn replace(&mut self, end: PodEnd) {
        self.at += SignedDuration::from_secs(1);
        let previous = Some(PreviousPod { uid: self.producer.uid.clone(), end });
        let uid = format!("{}x", self.producer.uid);
        self.state = State::new(mk_rules(&uid), self.at);
        self.producer = PodRef { pod: "p".into(), uid, restarts: 0, previous };
        self.since = self.at;
        self.look();
    }

    fn ask(&mut self, digest: &str, token: &str) -> u64 {
        self.tickets += 1;
        self.see(Seen::Asked(Ask {
            ticket: self.tickets,
            digest: digest.into(),
            region: "eu-north-1".into(),
            client_token: Some(token.into()),
            connected_since: Some(self.since),
            at: self.at,
        }));
        self.tickets
    }

    fn verdict(&self, ticket: u64) -> Option<Verdict> {
        let (verdict, is_recorded) = self.state.ledger.answer(ticket)?;
        is_recorded.then(|| verdict.clone())
    }

    /// The vendor takes a submission under a token, or knows it.
    fn accept(&mut self, token: &str) -> String {
        let next = arn(self.tasks.len());
        let id = self.tasks.entry(token.to_owned()).or_insert(next).clone();
        self.states.entry(id.clone()).or_insert(TaskState::Queued);
        id
    }

    fn submitted(&mut self, digest: &str, token: &str, id: &str) {
        self.see(Seen::Submitted {
            id: id.to_owned(),
            device: Some("d".into()),
            digest: Some(digest.to_owned()),
            client_token: Some(token.to_owned()),
        });
    }

    /// The way of one submission through the tap, cut off at a point: 0 before the intent is
    /// forwarded, 1 before the acceptance is recorded, 2 nowhere.
    fn submit(&mut self, digest: &str, token: &str, cut: u8) -> Option<String> {
        let ticket = self.ask(digest, token);
        if self.verdict(ticket).is_none() {
            // The keeper's word comes, or does not matter any more.
            self.look();
            self.at += SignedDuration::from_secs(11);
            self.see(Seen::Time);
        }
        let verdict = self.verdict(ticket).expect("answered and recorded");
        if cut == 0 {
            return None;
        }
        let id = match verdict {
            Verdict::Send => self.accept(token),
            Verdict::SendWith(earlier) => self.accept(&earlier),
            Verdict::Known(id) => id,
        };
        if cut == 1 {
            return None;
        }
        self.submitted(digest, token, &id);
        Some(id)
    }
}

#[test]
fn a_restarted_program_gets_its_task_even_if_the_keeper_tells_late() {
    let mut world = World::new();
    let first = world.submit("d", "t1", 2).unwrap();
    world.restart();
    // Asked before the keeper has told of the restart: it waits.
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), None);
    world.look();
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(first)));
}

#[test]
fn equal_submissions_of_one_run_are_separate_and_do_not_wait() {
    let mut world = World::new();
    let first = world.submit("d", "t1", 2).unwrap();
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
    let second = world.accept("t2");
    world.submitted("d", "t2", &second);
    assert_ne!(first, second);
    // The client's own repeat is no new submission.
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(second)));
}

#[test]
fn what_ended_decides_whether_a_result_is_handed_on() {
    let rows = [
        (TaskState::Queued, PodEnd::Failed, true),
        (TaskState::Queued, PodEnd::Disrupted, true),
        (TaskState::Running, PodEnd::Failed, true),
        (TaskState::Completed, PodEnd::Disrupted, true),
        (TaskState::Completed, PodEnd::Failed, false),
        (TaskState::Failed, PodEnd::Disrupted, false),
        (TaskState::Cancelled, PodEnd::Disrupted, false),
        (TaskState::Cancelling, PodEnd::Disrupted, false),
        (TaskState::Unknown("PONDERING".into()), PodEnd::Failed, true),
    ];
    for (task, end, handed_on) in rows {
        let mut world = World::new();
        let first = world.submit("d", "t1", 2).unwrap();
        // Nobody has looked since: the new worker does, before it hands anything on.
        world.states.insert(first.clone(), task.clone());
        world.replace(end);
        let second = world.submit("d", "t2", 2).unwrap();
        assert_eq!(second == first, handed_on, "{task} {end:?}");
    }
}

#[test]
fn another_region_is_another_task() {
    let mut world = World::new();
    world.submit("d", "t1", 2).unwrap();
    world.replace(PodEnd::Disrupted);
    world.tickets += 1;
    let ask = Ask {
        ticket: world.tickets,
        digest: "d".into(),
        region: "us-east-1".into(),
        client_token: Some("t2".into()),
        connected_since: None,
        at: world.at,
    };
    world.see(Seen::Asked(ask));
    assert_eq!(world.verdict(world.tickets), Some(Verdict::Send));
}

#[test]
fn an_intent_that_was_refused_is_not_sent_again() {
    let mut world = World::new();
    world.submit("d", "t1", 0);
    world.see(Seen::SubmissionRefused { message: "no".into(), void: Some("t1".into()) });
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
}

#[test]
fn the_name_of_a_run_follows_the_keeper_of_the_own_pod_only() {
    let mut producer = PodRef { uid: "u".into(), restarts: 2, ..PodRef::default() };
    assert_eq!(incarnation("u", Some(&producer)), "u/2");
    producer.uid = "other".into();
    assert_eq!(incarnation("u", Some(&producer)), "u/0");
}

/// What happens between two runs.
#[derive(Debug, Clone)]
enum Break {
    Worker,
    Restart,
    Replace(PodEnd),
}

fn breaks() -> impl Strategy<Value = Break> {
    prop_oneof![
        Just(Break::Worker),
        Just(Break::Restart),
        Just(Break::Replace(PodEnd::Failed)),
        Just(Break::Replace(PodEnd::Disrupted)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A program that submits the same list again and again, cut off anywhere, has as many tasks
    /// in the end as the list is long; equal entries of one run are never merged.
    #[test]
    fn a_repeating_program_pays_for_each_entry_once(
        list in prop::collection::vec(0..2_u8, 1..5),
        runs in prop::collection::vec((breaks(), 0..5_usize, 0..3_u8), 0..6),
    ) {
        let mut world = World::new();
        // Tokens of the run under way: a worker's crash alone does not change them, because the
        // program's client repeats the request.
        let mut tokens: Vec<String> = list.iter().map(|_| world.token()).collect();
        let mut begin = 0;
        for (end, stop, cut) in runs {
            let stop = stop.min(list.len() - 1);
            for index in begin..=stop.max(begin) {
                let cut = if index == stop { cut } else { 2 };
                let (digest, token) = (list[index].to_string(), tokens[index].clone());
                world.submit(&digest, &token, cut);
            }
            begin = 0;
            match end {
                Break::Worker => {
                    world.crash_worker();
                    begin = stop;
                    continue;
                }
                Break::Restart => world.restart(),
                Break::Replace(end) => world.replace(end),
            }
            tokens = list.iter().map(|_| world.token()).collect();
        }
        let mut ids = BTreeSet::new();
        for index in begin..list.len() {
            let (digest, token) = (list[index].to_string(), tokens[index].clone());
            ids.insert(world.submit(&digest, &token, 2).unwrap());
        }
        prop_assert_eq!(ids.len(), list.len() - begin, "equal entries are separate");
        prop_assert_eq!(world.tasks.len(), list.len(), "nothing is paid for twice");
    }
}
