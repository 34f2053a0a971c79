//! 1,000 gangs of one account in one region, played through in virtual time against the quotas
//! that the vendor emulator enforces: real decisions, real intervals, real token buckets.
//!
//! No request is sent and no time passes: events are taken from a heap. What the programs do
//! between two questions of their tap is left out, since the tap answers it from memory.

mod account;
mod gang;
mod log;

use std::time::Duration;

use account::Account;
use sluice_shared::policy::ReleasePolicy;

const GET_TASK: &str = "GetQuantumTask";
const GET_DEVICE: &str = "GetDevice";
const CREATE: &str = "CreateQuantumTask";
const MINUTE: Duration = Duration::from_mins(1);

/// Seconds that a task runs, by line; the last line does not move.
const LINES: [Option<u64>; 6] = [Some(5), Some(8), Some(12), Some(16), Some(25), None];

/// All programs start in the same second. Three of four gangs have 7 consumers that start when the
/// result exists; one of four has 3 that start at the front and poll until it does.
fn thousand(luck: u64) -> Account {
    let mut account = Account::new(&LINES, luck);
    for index in 0..1000 {
        let (policy, consumers) = match index % 4 {
            0 => (ReleasePolicy::Front, 3),
            _ => (ReleasePolicy::Completed, 7),
        };
        // One program of five submits and then sleeps: its sidecar asks by itself.
        let polls = index % 5 != 0;
        account.start(policy, consumers, polls);
    }
    account
}

#[test]
fn a_thousand_producers_stay_inside_the_quota_and_are_in_time() {
    let mut account = thousand(1);
    account.run(60 * MINUTE);
    let (tasks, devices) = (account.asked(GET_TASK), account.asked(GET_DEVICE));
    println!("{}", account.summary());
    // No program ended for its submission: the vendor takes 20 a second.
    assert_eq!(account.gave_up, 0);
    assert!(account.asked(CREATE).refused < 6_000, "{}", account.asked(CREATE).refused);
    // The vendor refused no question, from the first second on.
    assert_eq!((tasks.refused, devices.refused), (0, 0));
    // By themselves producers use less than half of what the account has.
    assert!(tasks.producers_rate(5 * MINUTE, 60 * MINUTE) < 50.0);
    assert!(devices.producers_rate(5 * MINUTE, 60 * MINUTE) < 4.0);
    // And they are in time.
    let late = account.late_since(Duration::ZERO);
    assert!(account.released() > 500, "{}", account.released());
    assert!(late.most <= Duration::from_secs(4), "{late:?}");
    assert!(late.of_twenty_nineteen <= Duration::from_secs(2), "{late:?}");
}

#[test]
fn sidecars_yield_to_consumers_that_take_most_of_the_quota_and_come_back() {
    let mut account = thousand(2);
    account.run(10 * MINUTE);
    assert_eq!(account.asked(GET_TASK).refused, 0);
    // 40 more programs of the account poll 2.3 times a second: 92 of the 100 requests.
    let crowd = account.crowd(40, 10 * MINUTE);
    account.run(20 * MINUTE);
    println!("{}", account.summary());
    let end = account.died(crowd);
    assert_eq!(end, 0, "consumers that ended with ThrottlingException");
    let before = account.asked(GET_TASK).producers_rate(5 * MINUTE, 10 * MINUTE);
    let during = account.asked(GET_TASK).producers_rate(15 * MINUTE, 20 * MINUTE);
    assert!(during < before / 2.0, "{during} a second, {before} before");
    account.run(40 * MINUTE);
    println!("{}", account.summary());
    let refused = account.asked(GET_TASK).refused_between(30 * MINUTE, 40 * MINUTE);
    assert_eq!(refused, 0, "there is room again");
    assert!(account.late_since(30 * MINUTE).of_twenty_nineteen <= Duration::from_secs(3));
}
