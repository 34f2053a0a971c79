//! The account: its quotas, its lines at the vendor, and everybody who asks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sluice_shared::policy::ReleasePolicy;
use sluice_vendors::quota::Quotas;
use tokio::time::Instant;

use super::gang::{Gang, Wish};
use super::log::{Asked, Late};
use super::{CREATE, GET_DEVICE, GET_TASK};

/// The Braket SDK polls 2.3 times a second.
const BETWEEN_POLLS: Duration = Duration::from_millis(430);
/// Three attempts of botocore, and the Braket SDK's own three on top of each.
const ATTEMPTS: u32 = 12;

/// Something that happens at its time; the number says to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Submit(usize),
    Poll(usize),
    Follow(usize),
    Consume(usize),
    End(usize),
}

/// A line at the vendor: tasks run one after the other.
#[derive(Debug, Default)]
struct Line {
    runs_for: Option<Duration>,
    waiting: VecDeque<usize>,
    running: Option<usize>,
}

/// A program that polls the vendor itself until its task, or its time, has ended.
#[derive(Debug)]
struct Consumer {
    task: Option<usize>,
    until: Duration,
    refused: u32,
    died: bool,
}

pub(super) struct Account {
    now: Duration,
    start: Timestamp,
    origin: Instant,
    quotas: Quotas,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    lines: Vec<Line>,
    gangs: Vec<Gang>,
    consumers: Vec<Consumer>,
    asked: BTreeMap<&'static str, Asked>,
    /// Programs whose submission was refused for good.
    pub(super) gave_up: usize,
    random: StdRng,
}

impl Account {
    pub(super) fn new(lines: &[Option<u64>], luck: u64) -> Self {
        let line = |seconds: &Option<u64>| Line {
            runs_for: seconds.map(Duration::from_secs),
            ..Line::default()
        };
        Self {
            now: Duration::ZERO,
            start: Timestamp::from_second(1_796_000_000).unwrap(),
            origin: Instant::now(),
            quotas: Quotas::new(1.0),
            events: BinaryHeap::new(),
            number: 0,
            lines: lines.iter().map(line).collect(),
            gangs: Vec::new(),
            consumers: Vec::new(),
            asked: [GET_TASK, GET_DEVICE, CREATE].map(|o| (o, Asked::default())).into(),
            gave_up: 0,
            random: StdRng::seed_from_u64(luck),
        }
    }

    /// A gang whose program submits now, as soon as the vendor takes it.
    pub(super) fn start(&mut self, policy: ReleasePolicy, consumers: usize, polls: bool) {
        let index = self.gangs.len();
        let line = index % self.lines.len();
        self.gangs.push(Gang::new(index, line, policy, consumers, polls, self.start));
        let spread = self.random.random_range(0..1000);
        self.at(Duration::from_millis(spread), Event::Submit(index));
    }

    /// Programs that poll tasks of other gangs until then; returns which they are.
    pub(super) fn crowd(&mut self, programs: usize, lasting: Duration) -> std::ops::Range<usize> {
        let first = self.consumers.len();
        for _ in 0..programs {
            self.consume(None, self.now + lasting);
        }
        first..self.consumers.len()
    }

    pub(super) fn run(&mut self, until: Duration) {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > until {
                self.events.push(Reverse((at, 0, event)));
                break;
            }
            self.now = at;
            match event {
                Event::Submit(gang) => self.submit(gang),
                Event::Poll(gang) => self.poll(gang),
                Event::Follow(gang) => self.follow(gang),
                Event::Consume(consumer) => self.ask_as_consumer(consumer),
                Event::End(line) => self.end(line),
            }
        }
        self.now = until;
    }

    fn after(&mut self, pause: Duration, event: Event) {
        self.at(self.now + pause, event);
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    /// Takes one request from the account's quota.
    fn take(&mut self, operation: &'static str, producer: bool) -> bool {
        let ok = self.quotas.take("123456789012", "eu-north-1", operation, self.start + self.now);
        self.asked.get_mut(operation).unwrap().note(self.now, producer, ok);
        ok
    }

    fn submit(&mut self, gang: usize) {
        if !self.take(CREATE, true) {
            let luck = self.random.random();
            // The tap holds the request; the program has three attempts, as botocore makes them.
            return match self.gangs[gang].submission_throttled(self.now, luck) {
                Some(pause) => self.after(pause, Event::Submit(gang)),
                None => self.gave_up += 1,
            };
        }
        let line = self.gangs[gang].line;
        self.lines[line].waiting.push_back(gang);
        self.gangs[gang].submitted(self.now);
        self.tell(gang, None);
        if self.gangs[gang].polls {
            self.after(Duration::from_millis(100), Event::Poll(gang));
        }
        self.move_on(line);
    }

    fn end(&mut self, line: usize) {
        if let Some(gang) = self.lines[line].running.take() {
            self.gangs[gang].ended(self.now);
        }
        self.move_on(line);
    }

    /// Starts the next task of a line, if none runs, and says whose task is at the front.
    fn move_on(&mut self, index: usize) {
        let line = &mut self.lines[index];
        let Some(runs_for) = line.runs_for else { return };
        if line.running.is_none()
            && let Some(gang) = line.waiting.pop_front()
        {
            line.running = Some(gang);
            self.gangs[gang].runs(self.now);
            self.after(runs_for, Event::End(index));
        }
        if let Some(first) = self.lines[index].waiting.front() {
            self.gangs[*first].at_front(self.now);
        }
    }

    /// State and place of a gang's task, as the vendor says it now.
    fn truth(&self, gang: usize) -> (&'static str, Option<usize>) {
        let line = &self.lines[self.gangs[gang].line];
        if line.running == Some(gang) {
            return ("RUNNING", None);
        }
        match line.waiting.iter().position(|waiting| *waiting == gang) {
            Some(ahead) => ("QUEUED", Some(ahead + 1)),
            None => ("COMPLETED", None),
        }
    }

    /// The program asks its tap.
    fn poll(&mut self, gang: usize) {
        let moment = self.origin + self.now;
        if self.gangs[gang].tap_answers(self.now) {
            return self.poll_again(gang);
        }
        if !self.take(GET_TASK, true) {
            self.gangs[gang].poll_throttled(self.now, moment);
            return self.poll_again(gang);
        }
        let (state, place) = self.truth(gang);
        let jitter = self.random.random();
        let reading = self.gangs[gang].polled((state, place), self.now, moment, jitter);
        self.tell(gang, Some(reading));
        if state != "COMPLETED" {
            self.poll_again(gang);
        }
    }

    /// The next poll that the tap does not answer from memory.
    fn poll_again(&mut self, gang: usize) {
        let late = BETWEEN_POLLS.mul_f64(self.random.random());
        let at = (self.now + BETWEEN_POLLS).max(self.gangs[gang].good_until + late);
        self.at(at, Event::Poll(gang));
    }

    fn follow(&mut self, gang: usize) {
        if self.gangs[gang].is_due(self.now) {
            self.tell(gang, None);
        }
    }

    /// Tells a follower what was polled, or that time has passed, and does what it wants.
    fn tell(&mut self, gang: usize, polled: Option<sluice_sidecar::vendor::Reading>) {
        let (at, moment) = (self.start + self.now, self.origin + self.now);
        let luck = self.random.random();
        let mut wishes = VecDeque::from(self.gangs[gang].tell(polled, at, moment, luck));
        while let Some(wish) = wishes.pop_front() {
            let luck = self.random.random();
            let more = match wish {
                Wish::Task => {
                    let truth = self.take(GET_TASK, true).then(|| self.truth(gang));
                    self.gangs[gang].read(truth, at, moment, luck)
                }
                Wish::Device => {
                    let ok = self.take(GET_DEVICE, true);
                    self.gangs[gang].device_read(ok, at, moment, luck)
                }
                Wish::Release => {
                    self.gangs[gang].ordered(self.now);
                    for _ in 0..self.gangs[gang].consumers {
                        self.consume(Some(gang), Duration::MAX);
                    }
                    Vec::new()
                }
            };
            wishes.extend(more);
        }
        if let Some(due) = self.gangs[gang].next_look(self.start, self.now) {
            self.at(due, Event::Follow(gang));
        }
    }

    fn consume(&mut self, task: Option<usize>, until: Duration) {
        self.consumers.push(Consumer { task, until, refused: 0, died: false });
        // Containers and imports take their time.
        let pause = Duration::from_millis(self.random.random_range(1_000..4_000));
        self.after(pause, Event::Consume(self.consumers.len() - 1));
    }

    fn ask_as_consumer(&mut self, index: usize) {
        let ok = self.take(GET_TASK, false);
        let done = match self.consumers[index].task {
            Some(gang) => self.truth(gang).0 == "COMPLETED",
            None => self.now >= self.consumers[index].until,
        };
        let consumer = &mut self.consumers[index];
        if ok && done {
            return;
        }
        consumer.refused = if ok { 0 } else { consumer.refused + 1 };
        consumer.died = consumer.refused >= ATTEMPTS;
        if consumer.died {
            return;
        }
        let pause = match consumer.refused {
            0 => BETWEEN_POLLS,
            n => Duration::from_secs(1 << (n - 1).min(4)).mul_f64(self.random.random()),
        };
        self.after(pause, Event::Consume(index));
    }

    pub(super) fn asked(&self, operation: &'static str) -> &Asked {
        &self.asked[operation]
    }

    pub(super) fn died(&self, which: std::ops::Range<usize>) -> usize {
        self.consumers[which].iter().filter(|consumer| consumer.died).count()
    }

    pub(super) fn released(&self) -> usize {
        self.gangs.iter().filter(|gang| gang.late(self.now).is_some()).count()
    }

    /// How late releases were that were due since then.
    pub(super) fn late_since(&self, since: Duration) -> Late {
        let due = |gang: &&Gang| gang.met_at.is_some_and(|met| met >= since);
        Late::of(self.gangs.iter().filter(due).filter_map(|gang| gang.late(self.now)).collect())
    }

    /// One line for each five minutes.
    pub(super) fn summary(&self) -> String {
        let mut text = format!("late {:?}\n", self.late_since(Duration::ZERO));
        for (operation, asked) in &self.asked {
            text.push_str(operation);
            text.push('\n');
            text.push_str(&asked.summary(self.now));
        }
        text
    }
}
