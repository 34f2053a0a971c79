use std::collections::BTreeMap;

use super::*;
use crate::braket::device::catalogue;
use crate::braket::task::Pretence;
use crate::queue::Mode;

const GARNET: &str = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_796_000_000_000 + ms).unwrap()
}

fn task(id: &str, now: Timestamp) -> Task {
    Task {
        id: id.into(),
        arn: format!("arn:aws:braket:eu-north-1:1:quantum-task/{id}"),
        account: "1".into(),
        region: "eu-north-1".into(),
        device: GARNET.into(),
        shots: 1,
        bucket: "b".into(),
        directory: "d".into(),
        action: "{}".into(),
        action_type: "t".into(),
        device_parameters: "{}".into(),
        tags: BTreeMap::new(),
        associations: Vec::new(),
        experimental: None,
        job: None,
        lane: Lane::Normal,
        created: now,
        ended: None,
        phase: Phase::Waiting { queued_at: now },
        pretence: Pretence::default(),
    }
}

fn world(change: impl Fn(&mut Device)) -> World {
    let mut devices = catalogue();
    devices.iter_mut().filter(|device| device.arn == GARNET).for_each(change);
    World::new(devices)
}

fn submit(world: &mut World, id: &str, now: Timestamp) {
    world.submit(task(id, now), id, Value::Null, now);
}

fn status(world: &World, id: &str, now: Timestamp) -> String {
    world.task(id).unwrap().status(now).to_owned()
}

#[test]
fn recorded_waits_come_true_in_turn() {
    let mut world = world(|garnet| {
        garnet.waits_ms = vec![10_000, 400];
        garnet.ahead.normal = 3;
    });
    let mut start = 0;
    for (id, wait) in [("a", 10_000), ("b", 400), ("c", 10_000)] {
        submit(&mut world, id, at(start));
        assert_eq!(world.advance(at(start + wait - 1)), []);
        assert_eq!(status(&world, id, at(start + wait - 1)), "QUEUED");
        let jobs = world.advance(at(start + wait));
        assert_eq!(jobs.len(), 1, "{id}");
        world.computed(id, Ok(()), at(start + wait));
        start += wait + 5_000;
        world.advance(at(start));
        assert_eq!(status(&world, id, at(start)), "COMPLETED");
    }
}

#[test]
fn a_cancelled_run_gets_no_outcome() {
    let mut world = world(|garnet| garnet.ahead.normal = 0);
    submit(&mut world, "a", at(0));
    assert_eq!(world.advance(at(2_000)).len(), 1);
    assert_eq!(world.cancel("a", at(2_100)), Ok("CANCELLING"));
    world.computed("a", Ok(()), at(2_200));
    world.advance(at(9_000));
    assert_eq!(status(&world, "a", at(9_000)), "CANCELLED");
    assert_eq!(world.task("a").unwrap().ended, Some(at(2_300)));
    assert_eq!(world.cancel("a", at(9_000)), Ok("CANCELLED"));
    assert_eq!(world.next_due(), None);
}

#[test]
fn forced_states_start_end_and_refuse() {
    let mut world = world(|garnet| garnet.pace.mode = Mode::Manual);
    submit(&mut world, "a", at(0));
    let force = |world: &mut World, state: &str| {
        let change = StateChange { state: Some(state.into()), ..StateChange::default() };
        world.change_state("a", change, at(1)).map(|jobs| jobs.len())
    };
    assert_eq!(force(&mut world, "COMPLETED"), Ok(1), "its program has to be computed");
    world.advance(at(2));
    assert_eq!(status(&world, "a", at(2)), "RUNNING");
    world.computed("a", Ok(()), at(3));
    world.advance(at(3));
    assert_eq!(status(&world, "a", at(3)), "COMPLETED");
    assert!(matches!(force(&mut world, "RUNNING"), Err(ControlError::Impossible { .. })));
    let change = StateChange::default();
    assert_eq!(world.change_state("b", change, at(4)), Err(ControlError::NoTask("b".into())));
}

#[test]
fn a_reset_forgets_tasks_and_changes() {
    let mut world = world(|_| {});
    let change = DeviceChange { status: Some(Status::Offline), ..DeviceChange::default() };
    world.change_device("garnet", change, at(0)).unwrap();
    submit(&mut world, "a", at(0));
    world.reset();
    assert_eq!(world.tasks().count(), 0);
    assert_eq!(world.device(GARNET, "eu-north-1").unwrap().status, Status::Online);
    assert_eq!(world.known_token("1", "eu-north-1", "a"), None);
}
