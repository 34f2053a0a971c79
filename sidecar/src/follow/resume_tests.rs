//! The matching, case by case; the games with all of them together are in `resume_laws.rs`.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_shared::gang::{PodEnd, PodRef, PreviousPod};
use sluice_shared::task::TaskState;

use super::super::state::Seen;
use super::world::World;
use super::{Verdict, incarnation};

#[test]
fn a_restarted_program_gets_its_task_even_if_the_keeper_tells_late() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    world.restart();
    // Asked before the keeper has told of the restart: it waits.
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), None);
    world.tell();
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(first)));
}

#[test]
fn equal_submissions_of_one_run_are_separate_and_do_not_wait() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    let second = world.submit("d", "t2");
    assert_ne!(first, second);
    // The client's own repeat is no new submission.
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(second)));
}

#[test]
fn what_proves_the_run_and_what_does_not() {
    // the program's connection, what it named since, whether it waits
    let second = |n: i64| SignedDuration::from_secs(n);
    let rows = [
        ("connected since before the first", Some(-60), false, false),
        ("a fresh connection", Some(29), false, true),
        ("a fresh connection that asked about the first", Some(29), true, false),
        ("connected again since long", Some(15), false, false),
        ("nobody is connected", None, false, true),
    ];
    for (what, since, named, waits) in rows {
        let mut world = World::new();
        let first = world.submit("d", "t1");
        let then = world.at;
        world.at += second(30);
        world.ties.since = since.map(|n| then + second(n));
        if named {
            world.ties.named.insert(first);
        }
        let ticket = world.ask("d", "t2");
        assert_eq!(world.verdict(ticket).is_none(), waits, "{what}");
        if waits {
            // A restart before it connected would have been told by now.
            world.at += second(10);
            world.see(Seen::Time);
            assert_eq!(world.verdict(ticket), Some(Verdict::Send), "{what}");
        }
    }
}

#[test]
fn submissions_that_arrive_while_one_waits_share_its_wait() {
    let mut world = World::new();
    world.submit("d", "t1");
    world.at += SignedDuration::from_secs(1);
    world.ties.since = Some(world.at);
    let tickets: Vec<u64> = (2..8)
        .map(|n| {
            world.at += SignedDuration::from_secs(1);
            // All of them over connections that were open together with the first one's.
            world.ask("d", &format!("t{n}"))
        })
        .collect();
    assert!(tickets.iter().all(|t| world.verdict(*t).is_none()));
    world.at = world.ties.since.unwrap() + SignedDuration::from_secs(10);
    world.see(Seen::Time);
    assert!(tickets.iter().all(|t| world.verdict(*t) == Some(Verdict::Send)));
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
        let first = world.submit("d", "t1");
        // Nobody has looked since: the new worker does, before it hands anything on.
        world.states.insert(first.clone(), task.clone());
        world.replace(end);
        let second = world.submit("d", "t2");
        assert_eq!(second == first, handed_on, "{task} {end:?}");
    }
}

#[test]
fn another_region_is_another_task() {
    let mut world = World::new();
    world.submit("d", "t1");
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask_in("us-east-1", "d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
}

#[test]
fn an_intent_that_was_refused_is_not_sent_again() {
    let mut world = World::new();
    world.ask("d", "t1");
    world.see(Seen::SubmissionRefused {
        message: "no".into(),
        token: Some("t1".into()),
        void: true,
    });
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
}

#[test]
fn a_refusal_after_a_request_that_may_have_arrived_voids_nothing() {
    let refused =
        || Seen::SubmissionRefused { message: "no".into(), token: Some("t1".into()), void: true };
    let mut world = World::new();
    world.ask("d", "t1");
    // That worker's request may have arrived; the client repeats it.
    world.crash_worker();
    world.ask("d", "t1");
    world.see(refused());
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::SendWith("t1".into())));
    world.see(refused());
    world.replace(PodEnd::Disrupted);
    let ticket = world.ask("d", "t3");
    assert_eq!(world.verdict(ticket), Some(Verdict::SendWith("t1".into())));
}

#[test]
fn a_question_whose_program_has_gone_takes_nothing_with_it() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    world.ties.since = None;
    // It waits, because nothing proves its run; then its program ends.
    let gone = world.ask("d", "t2");
    assert_eq!(world.verdict(gone), None);
    world.see(Seen::Withdrawn { ticket: gone });
    world.restart();
    world.tell();
    assert_eq!(world.submit("d", "t3"), first, "it was not spent on the one that is gone");
    // The same after the answer, before it took effect.
    world.restart();
    world.tell();
    world.lag = true;
    let gone = world.ask("d", "t4");
    assert_eq!(world.verdict(gone), None);
    world.see(Seen::Withdrawn { ticket: gone });
    assert_eq!(world.state.tasks[0].client_token.as_deref(), Some("t3"));
    let gone = world.ask("e", "t5");
    assert_eq!(world.state.ledger.intents.len(), 1);
    world.see(Seen::Withdrawn { ticket: gone });
    assert_eq!(world.state.ledger.intents, []);
}

#[test]
fn a_question_that_was_repeated_meanwhile_keeps_its_intent() {
    let mut world = World::new();
    let gone = world.ask("d", "t1");
    let again = world.ask("d", "t1");
    assert_eq!(world.verdict(again), Some(Verdict::Send));
    world.see(Seen::Withdrawn { ticket: gone });
    assert_eq!(world.state.ledger.intents.len(), 1);
}

#[test]
fn the_keepers_word_between_answer_and_record_changes_the_answer() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    world.restart();
    world.lag = true;
    let ticket = world.ask("d", "t2");
    world.at += SignedDuration::from_secs(11);
    world.see(Seen::Time);
    assert_eq!(world.state.ledger.answer(ticket), Some((&Verdict::Send, false)));
    // What is read back tells of the intent and of the restart at once.
    world.lag = false;
    world.tell();
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(first)));
    assert_eq!(world.state.ledger.intents, []);
}

#[test]
fn a_submission_that_went_on_unrecorded_is_written_down_later() {
    let mut world = World::new();
    world.state.gang = None;
    let ticket = world.ask("d", "t1");
    assert_eq!(world.state.ledger.answer(ticket), None);
    world.see(Seen::WentOn { ticket });
    world.tell();
    assert_eq!(world.stored.intents.len(), 1);
    assert_eq!(world.state.ledger.waiting(), 0);
}

#[test]
fn an_earlier_runs_answer_that_comes_late_is_the_later_runs() {
    let mut world = World::new();
    let ticket = world.ask("d", "t1");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
    // Under way at the vendor; the program is started again.
    world.restart();
    world.tell();
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::SendWith("t1".into())));
    let id = world.accept("t1");
    world.submitted("d", "t1", &id);
    assert_eq!(world.verdict(ticket), Some(Verdict::SendWith("t1".into())));
    world.submitted("d", "t1", &id);
    world.crash_worker();
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), Some(Verdict::Known(id)));
    assert!(world.stored.tasks[0].resumed);
}

#[test]
fn what_was_asked_for_before_the_keeper_told_gets_its_run_later() {
    let mut world = World::new();
    world.restart();
    let before = world.producer.started_at.clone().unwrap().0;
    world.at = before + SignedDuration::from_millis(2500);
    // Nothing like it lives, so it does not wait for the keeper.
    let first = world.submit("d", "t1");
    assert_eq!(world.state.tasks[0].incarnation.as_deref(), Some("pod-0/0"));
    // Another worker, without the program's connections.
    world.crash_worker();
    world.tell();
    world.ties.since = None;
    let ticket = world.ask("d", "t2");
    assert_eq!(world.verdict(ticket), None, "of the same run: nothing is handed on");
    assert_eq!(world.state.task(&first).unwrap().incarnation.as_deref(), Some("pod-0/1"));
    world.at += SignedDuration::from_secs(11);
    world.see(Seen::Time);
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
}

#[test]
fn a_result_survives_a_pod_that_was_lost_before_it_asked() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    world.states.insert(first.clone(), TaskState::Completed);
    world.replace(PodEnd::Disrupted);
    let previous = world.producer.previous.clone();
    world.replace(PodEnd::Disrupted);
    // The keeper does not remember a pod that asked for nothing.
    world.producer.previous = previous;
    world.tell();
    assert_eq!(world.submit("d", "t2"), first);
}

#[test]
fn the_name_of_a_run_follows_the_keeper_of_the_own_pod_only() {
    let mut producer = PodRef { uid: "u".into(), restarts: 2, ..PodRef::default() };
    producer.started_at = Some(Time(Timestamp::UNIX_EPOCH));
    producer.previous = Some(PreviousPod { uid: "v".into(), end: PodEnd::Failed });
    assert_eq!(incarnation("u", Some(&producer)), "u/2");
    producer.uid = "other".into();
    assert_eq!(incarnation("u", Some(&producer)), "u/0");
}

#[test]
fn another_place_of_the_job_is_given_nothing() {
    let mut world = World::new();
    let first = world.submit("d", "t1");
    world.ask("e", "t2");
    world.replace(PodEnd::Disrupted);
    // As the keeper tells of the pod of another index, or after one that succeeded.
    world.producer.previous = None;
    world.tell();
    let ticket = world.ask("e", "t3");
    assert_eq!(world.verdict(ticket), Some(Verdict::Send));
    let second = world.submit("d", "t4");
    assert_ne!(second, first);
    // What comes after it continues that pod, not the one before.
    world.replace(PodEnd::Disrupted);
    assert!(world.producer.previous.is_some());
    assert_eq!(world.submit("d", "t5"), second);
    assert_ne!(world.submit("d", "t6"), first);
}

#[test]
fn what_the_connected_program_asked_for_stays_its_own_when_the_keeper_tells() {
    let mut world = World::new();
    world.restart();
    // In the second of the start, which the keeper's word cannot tell from the run before.
    let first = world.submit("d", "t1");
    world.tell();
    assert_eq!(world.state.tasks[0].incarnation.as_deref(), Some("pod-0/0"));
    assert_ne!(world.submit("d", "t2"), first);
    assert_eq!(world.state.task(&first).unwrap().incarnation.as_deref(), Some("pod-0/1"));
}

#[test]
fn a_program_that_chooses_its_tokens_itself_gets_each_task_once() {
    let mut world = World::new();
    let first = world.submit("d", "own-1");
    let second = world.submit("d", "own-2");
    world.restart();
    world.tell();
    assert_eq!(world.submit("d", "own-1"), first);
    assert_eq!(world.submit("d", "another"), second, "the first is this run's already");
}
