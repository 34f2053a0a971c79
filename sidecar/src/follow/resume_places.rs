//! Handing on at vendors that know no tokens.

use jiff::SignedDuration;
use sluice_shared::gang::{MAX_INTENTS, PodEnd};
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
    world.see(Seen::SubmissionRefused {
        message: "no".into(),
        token: Some("own-1".into()),
        void: true,
    });
    assert!(world.state.ledger.intents.is_empty());
}

#[test]
fn an_answer_that_is_still_on_its_way_is_waited_for_by_the_later_run() {
    let mut world = World::new();
    world.ask_at(place(GARNET), "d", "own-1");
    world.restart();
    world.tell();
    let ticket = world.ask_at(place(GARNET), "d", "own-2");
    assert_eq!(world.verdict(ticket), None, "one that goes on would be paid for as well");
    taken(&mut world, GARNET, "own-1", "a");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known("a".into())));
}

#[test]
fn a_request_that_a_client_repeats_after_a_lost_answer_is_told_of() {
    let mut world = World::new();
    world.ask_at(place(GARNET), "d", "own-1");
    let (token, error) = (Some("own-1".to_owned()), "it broke off".to_owned());
    world.see(Seen::SubmissionUnknown { token, place: place(GARNET), error });
    // Its connection is closed; the client opens another one.
    world.ties.since = Some(world.at);
    let ticket = world.ask_at(place(GARNET), "d", "own-2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send), "at once: it is lost for every run");
    let told = |text: &str| world.said.iter().filter(|line| line.contains(text)).count();
    assert_eq!((told("the task may exist"), told("submitted to iqm-server/garnet before")), (1, 1));
    let tokens: Vec<_> = world.state.ledger.intents.iter().map(|i| &i.client_token).collect();
    assert_eq!(tokens, ["own-2"]);
}

#[test]
fn a_task_that_the_vendor_does_not_have_for_the_program_is_handed_on_to_nobody() {
    for unknown in [false, true] {
        let mut world = World::new();
        world.ask_at(place(GARNET), "d", "own-1");
        taken(&mut world, GARNET, "own-1", "a");
        world.restart();
        let ticket = world.ask_at(place(GARNET), "d", "own-2");
        world.at += SignedDuration::from_secs(3);
        world.tell();
        assert_eq!(world.verdict(ticket), Some(Verdict::Known("a".into())));
        let token = Some("own-2".to_owned());
        world.see(Seen::Returned { token, id: "a".into(), unknown });
        assert_eq!(world.state.tasks[0].client_token.as_deref(), Some("own-1"), "it is given back");
        let ticket = world.ask_at(place(GARNET), "d", "own-2");
        let again = if unknown { Verdict::Send } else { Verdict::Known("a".into()) };
        assert_eq!(world.verdict(ticket), Some(again), "unknown: {unknown}");
    }
}

#[test]
fn a_question_that_is_withdrawn_after_the_keeper_told_gives_its_task_back() {
    let mut world = World::new();
    world.ask_at(place(GARNET), "d", "own-1");
    taken(&mut world, GARNET, "own-1", "a");
    world.replace(PodEnd::Disrupted);
    world.restart();
    world.at += SignedDuration::from_secs(2);
    let gone = world.ask_at(place(GARNET), "d", "own-2");
    assert_eq!(world.verdict(gone), Some(Verdict::Known("a".into())));
    // The container had been started again: what it got bears the name of the new run by now.
    world.tell();
    world.see(Seen::Withdrawn { ticket: gone });
    let ticket = world.ask_at(place(GARNET), "d", "own-3");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known("a".into())));
}

#[test]
fn an_intent_that_has_to_make_room_is_told_of_and_does_not_come_back() {
    let mut world = World::new();
    for n in 0..=MAX_INTENTS {
        world.ask_at(place(GARNET), &format!("d{n}"), &format!("own-{n}"));
    }
    let told = world.said.iter().filter(|line| line.contains("not remembered any more"));
    assert_eq!((world.state.ledger.intents.len(), told.count()), (MAX_INTENTS, 1));
    world.look();
    assert_eq!(world.stored.intents.len(), MAX_INTENTS);
    assert!(world.stored.intents.iter().all(|intent| intent.client_token != "own-0"));
}
