//! The matching as a game against the vendors that know no tokens, each with the abilities that
//! it declares: requests and answers that get lost, vendors that break, programs that end
//! anywhere, workers that crash anywhere, tasks that the vendor forgets, in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sluice_dialect::{Resume, abilities};
use sluice_shared::gang::PodEnd;
use sluice_shared::resource::{Resource, TABLE};
use sluice_shared::task::TaskState;

use super::program::{Flight, Game, Made, Stage};

#[derive(Debug, Clone)]
enum Move {
    /// The program, or the request number so and so, goes on; the second number chooses what the
    /// vendor and the network do.
    Go(usize, usize),
    /// The same of a request whose program has ended.
    Orphan(usize, usize),
    Pass(u16),
    Tell,
    Lag(bool),
    /// Another worker begins; the number chooses what had arrived, and turns the lists of the gang.
    Worker(usize),
    Restart,
    Replace(PodEnd, usize),
    End(usize, TaskState),
    Forget(usize),
}

fn moves() -> impl Strategy<Value = Move> {
    let seconds = prop_oneof![9 => 1..6_u16, 1 => Just(3600)];
    prop_oneof![
        26 => (0..8_usize, 0..64_usize).prop_map(|(n, how)| Move::Go(n, how)),
        5 => (0..8_usize, 0..64_usize).prop_map(|(n, how)| Move::Orphan(n, how)),
        3 => seconds.prop_map(Move::Pass),
        2 => Just(Move::Tell),
        1 => any::<bool>().prop_map(Move::Lag),
        2 => (0..64_usize).prop_map(Move::Worker),
        2 => Just(Move::Restart),
        1 => (0..64_usize).prop_map(|how| Move::Replace(PodEnd::Failed, how)),
        1 => (0..64_usize).prop_map(|how| Move::Replace(PodEnd::Disrupted, how)),
        1 => (0..8_usize, ending()).prop_map(|(n, state)| Move::End(n, state)),
        1 => (0..8_usize).prop_map(Move::Forget),
    ]
}

fn ending() -> impl Strategy<Value = TaskState> {
    prop_oneof![Just(TaskState::Completed), Just(TaskState::Failed), Just(TaskState::Running)]
}

/// Three resources: two of one service, one of another.
fn resources() -> impl Strategy<Value = [Resource; 3]> {
    (0..TABLE.len(), 0..TABLE.len()).prop_map(|(service, other)| {
        let of = |service: usize, name: &str| Resource {
            service: TABLE[service].service,
            name: name.to_owned(),
        };
        [of(service, "a"), of(service, "b"), of(other, "c")]
    })
}

impl Game {
    fn play(&mut self, step: Move) {
        match step {
            Move::Go(n, how) => self.go(n, how),
            Move::Orphan(n, how) if !self.orphans.is_empty() => {
                let flight = self.orphans.remove(n % self.orphans.len());
                let advanced = self.advance(flight, how, true);
                self.orphans.extend(advanced);
            }
            Move::Orphan(..) => {}
            Move::Pass(seconds) => self.pass(seconds),
            Move::Tell => self.tell(),
            Move::Lag(lag) => {
                self.world.lag = lag;
                if !lag {
                    self.world.look();
                }
            }
            Move::Worker(how) => {
                let flights = std::mem::take(&mut self.flights);
                self.cut_off(flights.clone(), how);
                self.turn_lists(how);
                let said = self.world.said.len();
                self.world.crash_worker();
                self.what_was_on_its_way_is_told(said);
                // The program's client repeats what it had under way.
                let again = |flight| Flight { stage: Stage::Ready, ..flight };
                self.flights = flights.into_iter().map(again).collect();
            }
            Move::Restart => {
                self.end_program();
                self.world.restart();
                self.untold.get_or_insert(self.world.at);
                self.pass(2);
            }
            Move::Replace(end, how) => {
                self.end_program();
                self.cut_off(Vec::new(), how);
                self.turn_lists(how);
                self.world.lag = false;
                let said = self.world.said.len();
                self.world.replace(end);
                self.untold = None;
                self.what_was_on_its_way_is_told(said);
            }
            Move::End(n, state) => {
                let known = self.world.states.values_mut().nth(n);
                if let Some(known) = known.filter(|s| !s.is_final()) {
                    self.spoiled |= state.is_final();
                    *known = state;
                }
            }
            Move::Forget(n) => {
                if let Some(id) = self.made.keys().nth(n).cloned() {
                    self.spoiled = true;
                    self.forgotten.insert(id);
                }
            }
        }
        self.check();
    }

    /// The connections to the vendor end with the worker: what is on its way arrives or not, and
    /// nobody sees an answer.
    fn cut_off(&mut self, mut flights: Vec<Flight>, how: usize) {
        flights.append(&mut self.orphans);
        for (n, flight) in flights.into_iter().enumerate() {
            self.silent.insert(flight.token.clone());
            if matches!(flight.stage, Stage::OnItsWay) && (how >> n).is_multiple_of(2) {
                self.make(&flight);
            }
        }
    }

    /// The lists of a gang may be told in any order.
    fn turn_lists(&mut self, how: usize) {
        let stored = &mut self.world.stored;
        if !stored.tasks.is_empty() {
            let by = how % stored.tasks.len();
            stored.tasks.rotate_left(by);
        }
        if !stored.intents.is_empty() {
            let by = how % stored.intents.len();
            stored.intents.rotate_left(by);
        }
    }

    /// The new worker tells of each submission whose answer went to the one before.
    fn what_was_on_its_way_is_told(&self, since: usize) {
        let said = &self.world.said[since..];
        for intent in &self.world.stored.intents {
            let tells = |line: &String| line.contains(&intent.region) && line.contains("task");
            assert!(said.iter().any(tells), "untold: {intent:?}");
        }
    }

    /// What holds at every moment.
    fn check(&mut self) {
        let told = self.world.left.drain(..).filter(|left| left.is_told).map(|left| left.token);
        self.told.extend(told);
        assert!(self.told.is_subset(&self.silent), "it was answered, or will be: {:?}", self.told);
        let state = &self.world.state;
        let mut tokens = BTreeSet::new();
        for task in &state.tasks {
            let token = task.client_token.as_ref();
            assert!(token.is_none_or(|t| tokens.insert(t)), "two tasks of one submission");
        }
        for (id, made) in &self.made {
            let is_intended = state.ledger.intents.iter().any(|i| i.client_token == made.token);
            let known = is_intended || self.told.contains(&made.token) || state.task(id).is_some();
            let recorded = abilities(Some(&made.at)).resume != Resume::No;
            assert!(known || !recorded, "abandoned: {id} {made:?}");
        }
    }

    /// Everything works from now on.
    fn finish(&mut self) {
        self.calm = true;
        self.tell();
        for _ in 0..60 * self.list.len() {
            if self.got.len() == self.list.len() && self.orphans.is_empty() {
                return;
            }
            for flight in std::mem::take(&mut self.orphans) {
                let advanced = self.advance(flight, 0, true);
                self.orphans.extend(advanced);
            }
            for n in [0, 1] {
                self.go(n, 1);
            }
            self.pass(1);
            self.check();
        }
        panic!("the program never ends: {:#?}", self.world.stored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 1000,
        ..ProptestConfig::default()
    })]

    /// What the vendor has made is followed, or people were told that it may exist, at any moment.
    /// Beside what they were told of, there is one task for each entry of the program's list, and
    /// each of its submissions has one.
    #[test]
    fn nothing_is_abandoned_and_only_what_was_told_of_is_paid_for_twice(
        resources in resources(),
        list in prop::collection::vec((0..2_u8, 0..3_usize), 1..5),
        width in 1..4_usize,
        keeps in any::<bool>(),
        moves in prop::collection::vec(moves(), 0..60),
    ) {
        let list = list.into_iter().map(|(digest, at)| (digest, resources[at].clone())).collect();
        let mut game = Game::new(list, width, keeps);
        for step in moves {
            game.play(step);
        }
        game.finish();
        let own: BTreeSet<_> = game.got.iter().collect();
        prop_assert_eq!(own.len(), game.list.len(), "equal entries are separate");
        let extra = |(id, made): &(&String, &Made)| {
            let handed_on = abilities(Some(&made.at)).resume != Resume::No;
            handed_on && !own.contains(id) && !game.told.contains(&made.token)
        };
        let left_over: BTreeSet<_> =
            game.world.said.iter().filter(|line| line.contains("is left over")).collect();
        if !game.spoiled {
            let extra: Vec<_> = game.made.iter().filter(extra).collect();
            // Which of two is left over is decided by the runs that come after.
            prop_assert!(extra.len() <= left_over.len(), "paid for twice: {extra:?}");
        }
    }
}
