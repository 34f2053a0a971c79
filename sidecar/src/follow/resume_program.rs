//! A program that submits to vendors without tokens, the tap that it goes through, and those
//! vendors, one step at a time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sluice_dialect::{Lost, Resume, Waits, abilities};
use sluice_shared::gang::Intent;
use sluice_shared::resource::{Place, Resource};
use sluice_shared::task::TaskState;
use sluice_tap::Ties;

use super::super::passing::{Submitted, Waiting};
use super::super::state::Seen;
use super::Verdict;
use super::world::World;

/// How far a submission is.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    /// The program's client is about to send it, for the first time or again.
    Ready,
    /// The tap asks again, because the vendor does not have the task that it was to get.
    Again,
    Asked(u64),
    /// It is to get this task of an earlier run; the tap asks the vendor for it.
    Offered(String),
    OnItsWay,
    Answered(String),
    Unanswered,
    /// `void`: it is certain that no task came of it.
    Refused {
        void: bool,
    },
    /// The vendor's queue is before its door.
    Waits,
}

#[derive(Debug, Clone)]
pub(super) struct Flight {
    pub(super) digest: String,
    pub(super) at: Resource,
    pub(super) token: String,
    pub(super) stage: Stage,
}

/// A task at the vendor.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) token: String,
    pub(super) digest: String,
    pub(super) at: Resource,
}

/// A program that submits a list, a few at a time, repeats what failed, and repeats all of it
/// whenever it is started again.
pub(super) struct Game {
    pub(super) world: World,
    pub(super) list: Vec<(u8, Resource)>,
    pub(super) width: usize,
    pub(super) keeps: bool,
    pub(super) next: usize,
    pub(super) flights: Vec<Flight>,
    pub(super) got: Vec<String>,
    /// Submissions under way whose program has ended.
    pub(super) orphans: Vec<Flight>,
    pub(super) tokens: usize,
    pub(super) untold: Option<Timestamp>,
    pub(super) made: BTreeMap<String, Made>,
    /// Tokens of submissions of which people were told that a task may exist.
    pub(super) told: BTreeSet<String>,
    /// Tokens of submissions to which no answer came that tells whether there is a task.
    pub(super) silent: BTreeSet<String>,
    /// Tasks that the vendor has no more for this program.
    pub(super) forgotten: BTreeSet<String>,
    /// Nothing breaks any more.
    pub(super) calm: bool,
    /// A task ended or was forgotten, so that another one is paid for.
    pub(super) spoiled: bool,
}

impl Game {
    pub(super) fn new(list: Vec<(u8, Resource)>, width: usize, keeps: bool) -> Self {
        Self {
            world: World::new(),
            list,
            width,
            keeps,
            next: 0,
            flights: Vec::new(),
            got: Vec::new(),
            orphans: Vec::new(),
            tokens: 0,
            untold: None,
            made: BTreeMap::new(),
            told: BTreeSet::new(),
            silent: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            calm: false,
            spoiled: false,
        }
    }

    pub(super) fn end_program(&mut self) {
        for flight in std::mem::take(&mut self.flights) {
            match flight.stage {
                Stage::Ready | Stage::Again | Stage::Waits => {}
                Stage::Asked(ticket) => self.world.see(Seen::Withdrawn { ticket }),
                Stage::Offered(id) => self.give_back(&flight.token, id, false),
                _ => self.orphans.push(flight),
            }
        }
        self.next = 0;
        self.got.clear();
    }

    fn give_back(&mut self, token: &str, id: String, unknown: bool) {
        self.world.see(Seen::Returned { token: Some(token.to_owned()), id, unknown });
    }

    pub(super) fn tell(&mut self) {
        self.world.lag = false;
        self.world.tell();
        self.untold = None;
    }

    pub(super) fn pass(&mut self, seconds: u16) {
        // Long times in few steps.
        let (steps, each) = if seconds > 60 { (6, i64::from(seconds / 6)) } else { (seconds, 1) };
        for _ in 0..steps {
            self.world.at += SignedDuration::from_secs(each);
            let late = self.untold.is_some_and(|since| {
                self.world.at.duration_since(since) >= SignedDuration::from_secs(8)
            });
            if late {
                self.tell();
            }
            self.world.see(Seen::Time);
        }
    }

    pub(super) fn go(&mut self, n: usize, how: usize) {
        let room = self.flights.len() < self.width && self.next < self.list.len();
        if room && (self.flights.is_empty() || n.is_multiple_of(2)) {
            if self.flights.is_empty() && !self.keeps {
                self.world.ties = Ties { since: Some(self.world.at), ..Ties::default() };
            }
            let (digest, at) = self.list[self.next].clone();
            let token = self.token();
            let stage = Stage::Ready;
            self.flights.push(Flight { digest: digest.to_string(), at, token, stage });
            self.next += 1;
        } else if !self.flights.is_empty() {
            let index = n % self.flights.len();
            let flight = self.flights.remove(index);
            if let Some(flight) = self.advance(flight, how, false) {
                self.flights.insert(index, flight);
            }
        }
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{}", self.tokens)
    }

    /// One more stage of a submission; nothing when it is done.
    pub(super) fn advance(
        &mut self,
        mut flight: Flight,
        how: usize,
        is_orphan: bool,
    ) -> Option<Flight> {
        let can = abilities(Some(&flight.at));
        flight.stage = match flight.stage.clone() {
            Stage::Ready if can.resume == Resume::No => Stage::OnItsWay,
            Stage::Ready => {
                // The tap names each record anew.
                flight.token = self.token();
                self.ask(&flight)
            }
            Stage::Again => self.ask(&flight),
            Stage::Asked(ticket) => match self.world.verdict(ticket) {
                None => Stage::Asked(ticket),
                Some(Verdict::Send) => {
                    let is_its = |i: &Intent| i.client_token == flight.token;
                    assert!(self.world.stored.intents.iter().any(is_its), "it is written down");
                    Stage::OnItsWay
                }
                Some(Verdict::SendWith(_)) => panic!("no token means anything at {}", flight.at),
                Some(Verdict::Known(id)) => Stage::Offered(id),
            },
            Stage::Offered(id) => {
                if self.forgotten.contains(&id) {
                    self.give_back(&flight.token, id, true);
                    Stage::Again
                } else if !self.calm && how.is_multiple_of(5) {
                    self.give_back(&flight.token, id, false);
                    Stage::Ready
                } else {
                    Stage::Answered(id)
                }
            }
            Stage::OnItsWay => self.arrive(&flight, how),
            Stage::Answered(id) => {
                self.submitted(&flight, &id);
                if !is_orphan {
                    let made = &self.made[&id];
                    assert_eq!((&made.digest, &made.at), (&flight.digest, &flight.at));
                    self.got.push(id);
                }
                return None;
            }
            Stage::Unanswered => {
                self.silent.insert(flight.token.clone());
                let (token, place) = (sent_as(&flight), Place::Resource(flight.at.clone()));
                let said = self.world.said.len();
                let error = "it broke off".to_owned();
                self.world.see(Seen::SubmissionUnknown { token, place, error });
                let tells = |line: &String| line.contains("may exist") && line.contains("was lost");
                assert!(self.world.said[said..].iter().any(tells), "{:?}", self.world.said);
                if self.flights.is_empty() {
                    // Its connection was the only one.
                    self.world.ties = Ties { since: Some(self.world.at), ..Ties::default() };
                }
                Stage::Ready
            }
            Stage::Refused { void } => {
                if !void {
                    self.silent.insert(flight.token.clone());
                }
                let (token, message) = (sent_as(&flight), "no".to_owned());
                self.world.see(Seen::SubmissionRefused { message, token, void });
                Stage::Ready
            }
            Stage::Waits => {
                self.world.see(Seen::Waits(Waiting {
                    id: flight.token.clone(),
                    device: Some(flight.at.name.clone()),
                    reason: "all lanes are busy".to_owned(),
                    resource: Some(flight.at.clone()),
                }));
                Stage::Ready
            }
        };
        // Nobody repeats what the program that has ended had sent.
        (!is_orphan || !matches!(flight.stage, Stage::Ready)).then_some(flight)
    }

    fn ask(&mut self, flight: &Flight) -> Stage {
        let place = Place::Resource(flight.at.clone());
        Stage::Asked(self.world.ask_at(place, &flight.digest, &flight.token))
    }

    /// What the vendor and the network do with a request.
    fn arrive(&mut self, flight: &Flight, how: usize) -> Stage {
        let can = abilities(Some(&flight.at));
        match if self.calm { 0 } else { how % 8 } {
            0..=3 => Stage::Answered(self.make(flight)),
            // The tap sends it again, and hears that the vendor has it.
            4 | 5 if can.lost != Lost::HangUp => Stage::Answered(self.make(flight)),
            4 => {
                self.make(flight);
                Stage::Unanswered
            }
            5 => Stage::Unanswered,
            6 if can.waits == Waits::AtTheDoor && !self.made.contains_key(&flight.token) => {
                Stage::Waits
            }
            6 => Stage::Refused { void: true },
            _ => {
                if how < 32 {
                    self.make(flight);
                }
                Stage::Refused { void: false }
            }
        }
    }

    /// The vendor makes a task. Where the client names it, there is one of that name.
    pub(super) fn make(&mut self, flight: &Flight) -> String {
        let at_the_door = abilities(Some(&flight.at)).waits == Waits::AtTheDoor;
        let (id, state) = if at_the_door {
            (flight.token.clone(), TaskState::Running)
        } else {
            (format!("task-{}", self.made.len()), TaskState::Queued)
        };
        let Flight { digest, at, token, .. } = flight.clone();
        self.made.entry(id.clone()).or_insert(Made { token, digest, at });
        self.world.states.entry(id.clone()).or_insert(state);
        id
    }

    fn submitted(&mut self, flight: &Flight, id: &str) {
        self.world.see(Seen::Submitted(Submitted {
            id: id.to_owned(),
            device: Some(flight.at.name.clone()),
            shots: Some(20),
            digest: Some(flight.digest.clone()),
            client_token: sent_as(flight),
            resource: Some(flight.at.clone()),
        }));
    }
}

/// The token that the tap tells beside a submission.
fn sent_as(flight: &Flight) -> Option<String> {
    let can = abilities(Some(&flight.at));
    let has_none = can.resume == Resume::No && can.lost == Lost::HangUp;
    (!has_none).then(|| flight.token.clone())
}
