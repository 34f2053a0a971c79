//! The matching as a game against a vendor that knows each token once: programs that end anywhere,
//! workers that crash anywhere, pods that are replaced, a keeper that tells late, an API server
//! that answers late, in any order.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use sluice_shared::gang::PodEnd;
use sluice_shared::task::TaskState;
use sluice_tap::Ties;

use super::super::state::Seen;
use super::Verdict;
use super::world::World;

/// How far a submission is.
#[derive(Debug, Clone)]
enum Stage {
    /// The program's client is about to send it, for the first time or again.
    Ready,
    Asked(u64),
    /// On its way to the vendor under this token.
    Sent(String),
    /// The vendor has answered, and the worker does not know yet.
    Taken {
        id: String,
        sent: String,
    },
}

#[derive(Debug, Clone)]
struct Flight {
    digest: String,
    token: String,
    stage: Stage,
}

/// A program that submits a list, a few at a time, and repeats it whenever it is started again.
#[expect(clippy::struct_excessive_bools, reason = "each is one property of a program")]
struct Game {
    world: World,
    list: Vec<u8>,
    width: usize,
    /// It keeps its connections; else each request has one of its own.
    keeps: bool,
    /// It asks about its tasks.
    polls: bool,
    next: usize,
    flights: Vec<Flight>,
    got: Vec<String>,
    /// Submissions under way whose program has ended.
    orphans: Vec<Flight>,
    tokens: usize,
    /// Since when the keeper should have told of a restart.
    untold: Option<Timestamp>,
    /// Whether anything has ever broken.
    broken: bool,
    ended_a_task: bool,
}

#[derive(Debug, Clone)]
enum Move {
    /// The program, or the request number so and so, goes on.
    Go(usize),
    /// The same of a request whose program has ended.
    Orphan(usize),
    Pass(u8),
    Tell,
    Lag(bool),
    Worker,
    Restart,
    Replace(PodEnd),
    /// The vendor ends a task.
    End(usize, TaskState),
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        24 => (0..8_usize).prop_map(Move::Go),
        4 => (0..8_usize).prop_map(Move::Orphan),
        3 => (1..6_u8).prop_map(Move::Pass),
        2 => Just(Move::Tell),
        2 => any::<bool>().prop_map(Move::Lag),
        2 => Just(Move::Worker),
        2 => Just(Move::Restart),
        1 => Just(Move::Replace(PodEnd::Failed)),
        1 => Just(Move::Replace(PodEnd::Disrupted)),
        1 => (0..8_usize, ending()).prop_map(|(n, state)| Move::End(n, state)),
    ]
}

fn ending() -> impl Strategy<Value = TaskState> {
    prop_oneof![Just(TaskState::Completed), Just(TaskState::Failed), Just(TaskState::Running)]
}

impl Game {
    fn new(list: Vec<u8>, width: usize, keeps: bool, polls: bool) -> Self {
        Self {
            world: World::new(),
            list,
            width,
            keeps,
            polls,
            next: 0,
            flights: Vec::new(),
            got: Vec::new(),
            orphans: Vec::new(),
            tokens: 0,
            untold: None,
            broken: false,
            ended_a_task: false,
        }
    }

    fn play(&mut self, step: Move) {
        match step {
            Move::Go(n) => self.go(n),
            Move::Orphan(n) if !self.orphans.is_empty() => {
                let flight = self.orphans.remove(n % self.orphans.len());
                let advanced = self.advance(flight, true);
                self.orphans.extend(advanced);
            }
            Move::Orphan(_) => {}
            Move::Pass(seconds) => self.pass(seconds),
            Move::Tell => self.tell(),
            Move::Lag(lag) => {
                self.world.lag = lag;
                if !lag {
                    self.world.look();
                }
            }
            Move::Worker => {
                self.broken = true;
                self.orphans.clear();
                self.world.crash_worker();
                // The program's client repeats what it had under way.
                for flight in &mut self.flights {
                    flight.stage = Stage::Ready;
                }
            }
            Move::Restart => {
                self.end_program();
                self.world.restart();
                self.untold.get_or_insert(self.world.at);
                // Python starts.
                self.pass(2);
            }
            Move::Replace(end) => {
                self.end_program();
                self.orphans.clear();
                self.world.lag = false;
                self.world.replace(end);
                self.untold = None;
            }
            Move::End(n, state) => {
                let known = self.world.states.values_mut().nth(n);
                if let Some(known) = known.filter(|s| !s.is_final()) {
                    self.ended_a_task |= state.is_final();
                    *known = state;
                }
            }
        }
    }

    fn end_program(&mut self) {
        self.broken = true;
        for flight in std::mem::take(&mut self.flights) {
            match flight.stage {
                Stage::Ready => {}
                Stage::Asked(ticket) => self.world.see(Seen::Withdrawn { ticket }),
                Stage::Sent(_) | Stage::Taken { .. } => self.orphans.push(flight),
            }
        }
        self.next = 0;
        self.got.clear();
    }

    fn tell(&mut self) {
        self.world.lag = false;
        self.world.tell();
        self.untold = None;
    }

    fn pass(&mut self, seconds: u8) {
        for _ in 0..seconds {
            self.world.at += SignedDuration::from_secs(1);
            let late = self.untold.is_some_and(|since| {
                self.world.at.duration_since(since) >= SignedDuration::from_secs(8)
            });
            if late {
                self.tell();
            }
            self.world.see(Seen::Time);
        }
    }

    fn go(&mut self, n: usize) {
        let room = self.flights.len() < self.width && self.next < self.list.len();
        if room && (self.flights.is_empty() || n.is_multiple_of(2)) {
            self.tokens += 1;
            if self.flights.is_empty() && !self.keeps {
                self.world.ties = Ties { since: Some(self.world.at), ..Ties::default() };
            }
            self.flights.push(Flight {
                digest: self.list[self.next].to_string(),
                token: format!("token-{}", self.tokens),
                stage: Stage::Ready,
            });
            self.next += 1;
        } else if !self.flights.is_empty() {
            let index = n % self.flights.len();
            let flight = self.flights.remove(index);
            if let Some(flight) = self.advance(flight, false) {
                self.flights.insert(index, flight);
            }
        }
    }

    /// One more stage of a submission; nothing when it is done.
    fn advance(&mut self, mut flight: Flight, is_orphan: bool) -> Option<Flight> {
        flight.stage = match flight.stage {
            Stage::Ready => {
                let ticket = self.world.ask(&flight.digest, &flight.token);
                let waits = self.world.verdict(ticket).is_none();
                assert!(
                    !waits || !self.keeps || self.broken || self.world.lag,
                    "a program that keeps its connections does not wait"
                );
                Stage::Asked(ticket)
            }
            Stage::Asked(ticket) => match self.world.verdict(ticket) {
                None => Stage::Asked(ticket),
                Some(Verdict::Send) => Stage::Sent(flight.token.clone()),
                Some(Verdict::SendWith(earlier)) => Stage::Sent(earlier),
                Some(Verdict::Known(id)) => Stage::Taken { id, sent: flight.token.clone() },
            },
            Stage::Sent(sent) => Stage::Taken { id: self.world.accept(&sent), sent },
            Stage::Taken { id, sent } => {
                self.world.submitted(&flight.digest, &sent, &id);
                if is_orphan {
                    return None;
                }
                if self.polls && self.keeps {
                    self.world.ties.named.insert(id.clone());
                }
                self.got.push(id);
                return None;
            }
        };
        Some(flight)
    }

    /// Everything works from now on.
    fn finish(&mut self) {
        self.tell();
        for _ in 0..40 * self.list.len() {
            if self.got.len() == self.list.len() {
                return;
            }
            self.go(0);
            self.go(1);
            self.pass(1);
        }
        panic!("the program never ends: {:#?}", self.world.stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 1500,
        ..ProptestConfig::default()
    })]

    /// A program that submits the same list again and again, cut off anywhere, has as many tasks
    /// in the end as the list is long; equal entries of one run are never merged.
    #[test]
    fn a_repeating_program_pays_for_each_entry_once(
        list in prop::collection::vec(0..2_u8, 1..5),
        width in 1..4_usize,
        keeps in any::<bool>(),
        polls in any::<bool>(),
        moves in prop::collection::vec(moves(), 0..60),
    ) {
        let mut game = Game::new(list, width, keeps, polls);
        for step in moves {
            game.play(step);
        }
        game.finish();
        let own: BTreeSet<_> = game.got.iter().collect();
        prop_assert_eq!(own.len(), game.list.len(), "equal entries are separate");
        if !game.ended_a_task {
            prop_assert_eq!(game.world.tasks.len(), game.list.len(), "nothing is paid for twice");
        }
    }
}
