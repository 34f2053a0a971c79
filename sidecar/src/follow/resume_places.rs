//! Handing on at vendors that know no tokens.

use sluice_shared::gang::PodEnd;
use sluice_shared::resource::{Place, Resource};
use sluice_shared::task::TaskState;

use super::super::passing::Submitted;
use super::super::state::Seen;
use super::Verdict;
use super::world::World;

const GARNET: &str = "iqm-server/garnet";

fn place(text: &str) -> Place {
    Place::Resource(text.parse().unwrap())
}

/// The vendor has taken a submission; the token is that of its record alone.
fn taken(world: &mut World, at: &str, token: &str, id: &str) {
    world.states.insert(id.to_owned(), TaskState::Queued);
    let resource: Resource = at.parse().unwrap();
    world.see(Seen::Submitted(Submitted {
        id: id.to_owned(),
        device: Some(resource.name.clone()),
        shots: Some(20),
        digest: Some("d".into()),
        client_token: Some(token.to_owned()),
        resource: Some(resource),
    }));
}

#[test]
fn a_later_run_gets_the_task_of_an_equal_submission_and_nothing_is_sent() {
    let mut world = World::new();
    let ticket = world.ask_at(place(GARNET), "d", "own-1");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
    taken(&mut world, GARNET, "own-1", "a");
    assert!(world.state.ledger.intents.is_empty(), "it is a task now");
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask_at(place(GARNET), "d", "own-2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known("a".into())));
    // At another resource it would be another task.
    let ticket = world.ask_at(place("iqm-server/emerald"), "d", "own-3");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
}

#[test]
fn an_answer_that_an_earlier_run_lost_cannot_be_taken_up_and_is_told_of() {
    let mut world = World::new();
    world.ask_at(place(GARNET), "d", "own-1");
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask_at(place(GARNET), "d", "own-2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send), "never under a token of an earlier run");
    let intents = &world.state.ledger.intents;
    assert_eq!(intents.iter().map(|i| i.client_token.as_str()).collect::<Vec<_>>(), ["own-2"]);
}

#[test]
fn a_refused_submission_leaves_no_intent() {
    let mut world = World::new();
    world.ask_at(place(GARNET), "d", "own-1");
    world.see(Seen::SubmissionRefused { message: "no".into(), void: Some("own-1".into()) });
    assert!(world.state.ledger.intents.is_empty());
}
