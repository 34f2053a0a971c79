use proptest::prelude::*;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_796_000_000_000 + ms).unwrap()
}

fn pace() -> Pace {
    Pace { step_ms: 100, running_ms: 50, ..Pace::default() }
}

fn line(normal: u64, priority: u64) -> Queue {
    Queue::new(pace(), Ahead { normal, priority })
}

fn started(id: &str, ms: i64) -> Happened {
    Happened::Started { id: id.into(), at: at(ms) }
}

fn ended(id: &str, ms: i64) -> Happened {
    Happened::Ended { id: id.into(), at: at(ms) }
}

#[test]
fn a_task_falls_one_place_a_step_and_then_runs() {
    let mut queue = line(2, 0);
    queue.submit("a", Lane::Normal, at(0));
    let seen: Vec<_> = [0, 99, 100, 199, 200, 299]
        .into_iter()
        .map(|ms| {
            assert_eq!(queue.advance(at(ms)), []);
            queue.position("a")
        })
        .collect();
    assert_eq!(seen, [Some(3), Some(3), Some(2), Some(2), Some(1), Some(1)]);
    assert_eq!(queue.advance(at(300)), [started("a", 300)]);
    assert_eq!(queue.position("a"), None);
    assert_eq!(queue.advance(at(10_000)), [], "no result, so it runs on");
    queue.ready("a", at(10_000));
    assert_eq!(queue.advance(at(10_000)), [ended("a", 10_000)]);
    assert_eq!(queue.next_due(), None);
}

#[test]
fn an_early_result_waits_for_the_running_time() {
    let mut queue = line(0, 0);
    queue.submit("a", Lane::Normal, at(0));
    queue.advance(at(100));
    queue.ready("a", at(110));
    assert_eq!(queue.next_due(), Some(at(150)));
    assert_eq!(queue.advance(at(149)), []);
    assert_eq!(queue.advance(at(400)), [ended("a", 150)]);
}

#[test]
fn priority_goes_first_and_the_normal_position_does_not_tell() {
    let mut queue = line(0, 3);
    queue.submit("n", Lane::Normal, at(0));
    queue.submit("p", Lane::Priority, at(0));
    assert_eq!((queue.position("n"), queue.position("p")), (Some(1), Some(4)));
    assert_eq!(queue.advance(at(400)), [started("p", 400)]);
    assert_eq!(queue.position("n"), Some(1));
    queue.ready("p", at(400));
    assert_eq!(queue.advance(at(500)), [ended("p", 450), started("n", 500)]);
}

#[test]
fn a_full_device_stops_the_line() {
    let mut queue = line(0, 0);
    queue.submit("a", Lane::Normal, at(0));
    queue.submit("b", Lane::Normal, at(0));
    assert_eq!(queue.advance(at(1_000)), [started("a", 100)]);
    assert_eq!(queue.position("b"), Some(1));
    queue.ready("a", at(1_000));
    assert_eq!(queue.advance(at(1_000)), [ended("a", 1_000), started("b", 1_000)]);
}

#[test]
fn many_places_in_one_move_jump_over_position_one() {
    let mut queue = Queue::new(Pace { places: 3, ..pace() }, Ahead { normal: 2, priority: 0 });
    queue.submit("a", Lane::Normal, at(0));
    assert_eq!(queue.position("a"), Some(3));
    assert_eq!(queue.advance(at(100)), [started("a", 100)]);
}

#[test]
fn a_held_line_keeps_its_positions_and_starts_afresh() {
    let mut queue = line(1, 0);
    queue.submit("a", Lane::Normal, at(0));
    queue.hold(true, at(50));
    assert_eq!((queue.advance(at(5_000)), queue.position("a")), (vec![], Some(2)));
    queue.hold(false, at(5_000));
    queue.advance(at(5_099));
    assert_eq!(queue.position("a"), Some(2));
    queue.advance(at(5_100));
    assert_eq!(queue.position("a"), Some(1));
}

#[test]
fn by_hand_nothing_moves_alone() {
    let mut queue =
        Queue::new(Pace { mode: Mode::Manual, ..pace() }, Ahead { normal: 1, priority: 0 });
    queue.submit("a", Lane::Normal, at(0));
    queue.submit("b", Lane::Normal, at(0));
    assert_eq!((queue.advance(at(1_000_000)), queue.next_due()), (vec![], None));
    assert_eq!((queue.step(at(1)), queue.position("a")), (vec![], Some(1)));
    assert_eq!(queue.step(at(2)), [started("a", 2)]);
    assert_eq!(queue.step(at(3)), [], "no result yet and no room");
    queue.ready("a", at(3));
    assert_eq!(queue.step(at(4)), [ended("a", 4), started("b", 4)]);
}

#[test]
fn a_removed_task_frees_its_place() {
    let mut queue = line(0, 0);
    queue.submit("a", Lane::Normal, at(0));
    queue.submit("b", Lane::Normal, at(0));
    assert!(queue.remove("a"));
    assert!(!queue.remove("a"));
    assert_eq!(queue.position("b"), Some(1));
}

#[derive(Debug, Clone)]
enum Act {
    Submit(bool),
    Foreign(bool, u64),
    Pass(u64),
    Ready,
    Remove(usize),
    Hold(bool),
    Step,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => any::<bool>().prop_map(Act::Submit),
        1 => (any::<bool>(), 1_u64..9).prop_map(|(lane, places)| Act::Foreign(lane, places)),
        6 => (0_u64..700).prop_map(Act::Pass),
        3 => Just(Act::Ready),
        1 => any::<usize>().prop_map(Act::Remove),
        1 => any::<bool>().prop_map(Act::Hold),
        2 => Just(Act::Step),
    ];
    proptest::collection::vec(act, 1..80)
}

fn lane(priority: bool) -> Lane {
    if priority { Lane::Priority } else { Lane::Normal }
}

proptest! {
    #[test]
    fn no_task_is_lost_doubled_or_pushed_back(
        acts in acts(),
        capacity in 1_u32..4,
        places in 1_u32..4,
        manual in any::<bool>(),
        ahead in 0_u64..6,
    ) {
        let mode = if manual { Mode::Manual } else { Mode::Auto };
        let mut queue = Queue::new(
            Pace { mode, places, capacity, ..pace() },
            Ahead { normal: ahead, priority: ahead / 2 },
        );
        let mut now = at(0);
        let mut open: Vec<(TaskId, Option<u64>)> = Vec::new();
        for (number, act) in acts.into_iter().enumerate() {
            let mut happened = Vec::new();
            match act {
                Act::Submit(priority) => {
                    let id = format!("t{number}");
                    queue.submit(&id, lane(priority), now);
                    let least = if priority { ahead / 2 } else { ahead };
                    prop_assert!(queue.position(&id) > Some(least));
                    open.push((id, Some(u64::MAX)));
                }
                Act::Foreign(priority, places) => queue.add_foreign(lane(priority), places, now),
                Act::Pass(ms) => {
                    now += millis(ms);
                    happened = queue.advance(now);
                }
                Act::Ready => {
                    let running: Vec<_> = queue.running().map(str::to_owned).collect();
                    for id in &running {
                        queue.ready(id, now);
                    }
                }
                Act::Remove(index) if !open.is_empty() => {
                    let (id, _) = open.swap_remove(index % open.len());
                    prop_assert!(queue.remove(&id));
                }
                Act::Remove(_) => {}
                Act::Hold(held) => queue.hold(held, now),
                Act::Step => happened = queue.step(now),
            }
            for event in happened {
                match event {
                    Happened::Started { id, at } => {
                        prop_assert!(at <= now);
                        let task = open.iter_mut().find(|(task, _)| *task == id).unwrap();
                        prop_assert!(task.1.take().is_some(), "{id} started twice");
                    }
                    Happened::Ended { id, at } => {
                        prop_assert!(at <= now);
                        let index = open.iter().position(|(task, _)| *task == id).unwrap();
                        prop_assert_eq!(open.swap_remove(index).1, None, "{} ended unstarted", id);
                    }
                }
            }
            prop_assert!(queue.running().count() <= capacity as usize);
            for (id, last) in &mut open {
                match last {
                    Some(last) => {
                        let position = queue.position(id);
                        prop_assert!(position.is_some_and(|position| position <= *last));
                        *last = position.unwrap();
                    }
                    None => prop_assert!(queue.running().any(|task| task == id)),
                }
            }
        }
    }

    #[test]
    fn time_in_slices_is_time_at_once(
        ahead in 0_u64..9,
        tasks in 1_usize..6,
        slices in proptest::collection::vec(0_u64..300, 1..20),
    ) {
        let fresh = || {
            let mut queue =
                Queue::new(Pace { capacity: 9, ..pace() }, Ahead { normal: ahead, priority: 0 });
            (0..tasks).for_each(|task| queue.submit(&task.to_string(), Lane::Normal, at(0)));
            queue
        };
        let (mut sliced, mut whole) = (fresh(), fresh());
        let mut now = at(0);
        let mut happened = Vec::new();
        for slice in slices {
            now += millis(slice);
            happened.extend(sliced.advance(now));
        }
        prop_assert_eq!(happened, whole.advance(now));
        for task in 0..tasks {
            prop_assert_eq!(sliced.position(&task.to_string()), whole.position(&task.to_string()));
        }
    }
}
