//! The waiting line of one device: a pure state machine of (state, event, now).
//!
//! Two lanes, `Priority` before `Normal`. A lane holds our tasks and *foreign* places: work of
//! other customers, of which only the number is known. The line moves one step at a time; each
//! move takes the next places off the head. A task that comes off starts to run, while at most
//! [`Pace::capacity`] run at once. With [`Mode::Auto`] moves happen by time, with
//! [`Mode::Manual`] only when [`Queue::step`] is called.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Name of a task inside the emulator: the last part of its ARN.
pub type TaskId = String;

/// What makes the line move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Time does.
    Auto,
    /// Only an explicit step does.
    Manual,
}

/// How fast a line moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Pace {
    /// What makes the line move.
    pub mode: Mode,
    /// Time between two moves, in milliseconds. Zero: at once.
    pub step_ms: u64,
    /// How long a task runs at least, in milliseconds. It ends no earlier than its result exists.
    pub running_ms: u64,
    /// Places that one move takes off; more than 1 lets a task jump over position 1.
    pub places: u32,
    /// Tasks of ours that run at the same time.
    pub capacity: u32,
    /// How long a new task stays `CREATED` before it is `QUEUED`, in milliseconds.
    pub created_ms: u64,
    /// How long a cancelled task stays `CANCELLING`, in milliseconds.
    pub cancelling_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            step_ms: 2_000,
            running_ms: 1_000,
            places: 1,
            capacity: 1,
            created_ms: 50,
            cancelling_ms: 200,
        }
    }
}

/// One of the two lanes; the words are the vendor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Ordinary tasks.
    Normal,
    /// Tasks of hybrid jobs; served first.
    Priority,
}

impl Lane {
    /// The vendor's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Priority => "Priority",
        }
    }
}

/// Foreign places in front of a task that is submitted into an empty lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ahead {
    /// In the normal lane.
    pub normal: u64,
    /// In the priority lane.
    pub priority: u64,
}

impl Ahead {
    /// The places of one lane.
    #[must_use]
    pub fn of(self, lane: Lane) -> u64 {
        match lane {
            Lane::Normal => self.normal,
            Lane::Priority => self.priority,
        }
    }
}

/// What happened to a task of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// It left the line and runs.
    Started {
        /// Which task.
        id: TaskId,
        /// When.
        at: Timestamp,
    },
    /// It ran long enough and its result exists.
    Ended {
        /// Which task.
        id: TaskId,
        /// When.
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Foreign(u64),
    Task(TaskId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    id: TaskId,
    /// `None`: until a step ends it.
    ends_at: Option<Timestamp>,
    ready_at: Option<Timestamp>,
}

impl Run {
    fn end(&self) -> Option<Timestamp> {
        Some(self.ends_at?.max(self.ready_at?))
    }
}

/// The line of one device in one region.
#[derive(Debug, Clone)]
pub struct Queue {
    pace: Pace,
    ahead: Ahead,
    normal: VecDeque<Place>,
    priority: VecDeque<Place>,
    runs: Vec<Run>,
    next_move: Option<Timestamp>,
    held: bool,
}

impl Queue {
    /// An empty line.
    #[must_use]
    pub fn new(pace: Pace, ahead: Ahead) -> Self {
        Self {
            pace,
            ahead,
            normal: VecDeque::new(),
            priority: VecDeque::new(),
            runs: Vec::new(),
            next_move: None,
            held: false,
        }
    }

    /// Puts a task at the end of its lane, behind at least [`Ahead`] foreign places.
    pub fn submit(&mut self, id: &str, lane: Lane, now: Timestamp) {
        let missing = self.ahead.of(lane).saturating_sub(self.waiting(lane));
        self.add_foreign(lane, missing, now);
        self.lane_mut(lane).push_back(Place::Task(id.to_owned()));
        self.wind(now);
    }

    /// Adds foreign places at the end of a lane.
    pub fn add_foreign(&mut self, lane: Lane, places: u64, now: Timestamp) {
        if places > 0 {
            self.lane_mut(lane).push_back(Place::Foreign(places));
            self.wind(now);
        }
    }

    /// Takes every foreign place away, of one lane.
    pub fn clear_foreign(&mut self, lane: Lane) {
        self.lane_mut(lane).retain(|place| matches!(place, Place::Task(_)));
    }

    /// Takes a task out, wherever it is. `false`: it was in neither lane and did not run.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = (self.normal.len(), self.priority.len(), self.runs.len());
        for lane in [Lane::Normal, Lane::Priority] {
            self.lane_mut(lane).retain(|place| !matches!(place, Place::Task(task) if task == id));
        }
        self.runs.retain(|run| run.id != id);
        before != (self.normal.len(), self.priority.len(), self.runs.len())
    }

    /// Starts a task out of turn, whatever stands before it. `false`: it does not wait here.
    pub fn jump(&mut self, id: &str, now: Timestamp) -> bool {
        if self.runs.iter().any(|run| run.id == id) || !self.remove(id) {
            return false;
        }
        self.start(id.to_owned(), now);
        true
    }

    /// Says that the result of a running task exists.
    pub fn ready(&mut self, id: &str, now: Timestamp) {
        for run in self.runs.iter_mut().filter(|run| run.id == id) {
            run.ready_at.get_or_insert(now);
        }
    }

    /// Lets a running task end as soon as it is ready.
    pub fn finish(&mut self, id: &str, now: Timestamp) {
        for run in self.runs.iter_mut().filter(|run| run.id == id) {
            run.ends_at = Some(now);
        }
    }

    /// Holds the line (device paused or offline) or lets it go on. Running tasks go on anyway.
    pub fn hold(&mut self, held: bool, now: Timestamp) {
        if self.held && !held {
            self.next_move = None;
            self.wind(now);
        }
        self.held = held;
    }

    /// Changes the pace; the move that is under way keeps its time if it is the earlier one.
    pub fn set_pace(&mut self, pace: Pace, now: Timestamp) {
        self.pace = pace;
        let latest = now + millis(pace.step_ms);
        self.next_move = self.next_move.map(|at| at.min(latest));
    }

    /// Changes what later submissions find before them.
    pub fn set_ahead(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    /// Lets time pass: everything that is due until `now` happens, in order.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        loop {
            let end = self.first_end().filter(|(_, at)| *at <= now);
            let turn = self.due_move().filter(|at| *at <= now);
            match (end, turn) {
                (Some((index, at)), turn) if turn.is_none_or(|turn| at <= turn) => {
                    let run = self.runs.swap_remove(index);
                    // A full device takes the next task when it is free, not earlier.
                    self.next_move = self.next_move.map(|next| next.max(at));
                    happened.push(Happened::Ended { id: run.id, at });
                }
                (_, Some(at)) => happened.extend(self.make_move(at)),
                _ => return happened,
            }
        }
    }

    /// One explicit step: what runs ends, then the line moves once.
    pub fn step(&mut self, now: Timestamp) -> Vec<Happened> {
        for run in &mut self.runs {
            run.ends_at = Some(now);
        }
        let mut happened = Vec::new();
        while let Some((index, at)) = self.first_end().filter(|(_, at)| *at <= now) {
            let run = self.runs.swap_remove(index);
            happened.push(Happened::Ended { id: run.id, at });
        }
        if !self.held && self.waits() && self.has_room() {
            happened.extend(self.make_move(now));
        }
        happened
    }

    /// When something will happen next without any call, if ever.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        match (self.first_end().map(|(_, at)| at), self.due_move()) {
            (Some(end), Some(turn)) => Some(end.min(turn)),
            (end, turn) => end.or(turn),
        }
    }

    /// Position of a task in its lane, from 1; `None` when it does not wait here.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<u64> {
        [&self.normal, &self.priority].into_iter().find_map(|lane| {
            let mut before = 0;
            for place in lane {
                match place {
                    Place::Foreign(places) => before += places,
                    Place::Task(task) if task == id => return Some(before + 1),
                    Place::Task(_) => before += 1,
                }
            }
            None
        })
    }

    /// Places in one lane, foreign ones included.
    #[must_use]
    pub fn waiting(&self, lane: Lane) -> u64 {
        self.lane(lane)
            .iter()
            .map(|place| match place {
                Place::Foreign(places) => *places,
                Place::Task(_) => 1,
            })
            .sum()
    }

    /// Whether a task of ours waits.
    #[must_use]
    pub fn has_own(&self) -> bool {
        self.normal.iter().chain(&self.priority).any(|place| matches!(place, Place::Task(_)))
    }

    /// Ids of the tasks that run.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        self.runs.iter().map(|run| run.id.as_str())
    }

    /// Whether a task runs whose result does not exist yet.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.runs.iter().any(|run| run.ready_at.is_none())
    }

    fn lane(&self, lane: Lane) -> &VecDeque<Place> {
        match lane {
            Lane::Normal => &self.normal,
            Lane::Priority => &self.priority,
        }
    }

    fn lane_mut(&mut self, lane: Lane) -> &mut VecDeque<Place> {
        match lane {
            Lane::Normal => &mut self.normal,
            Lane::Priority => &mut self.priority,
        }
    }

    fn waits(&self) -> bool {
        !self.normal.is_empty() || !self.priority.is_empty()
    }

    fn has_room(&self) -> bool {
        self.runs.len() < self.pace.capacity.max(1) as usize
    }

    fn wind(&mut self, now: Timestamp) {
        if self.waits() {
            self.next_move.get_or_insert(now + millis(self.pace.step_ms));
        }
    }

    fn due_move(&self) -> Option<Timestamp> {
        let moves = self.pace.mode == Mode::Auto && !self.held && self.waits() && self.has_room();
        self.next_move.filter(|_| moves)
    }

    fn first_end(&self) -> Option<(usize, Timestamp)> {
        self.runs
            .iter()
            .enumerate()
            .filter_map(|(index, run)| Some((index, run.end()?)))
            .min_by_key(|(_, at)| *at)
    }

    fn make_move(&mut self, at: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        for _ in 0..self.pace.places.max(1) {
            if !self.has_room() {
                break;
            }
            let lane = if self.priority.is_empty() { Lane::Normal } else { Lane::Priority };
            match self.lane_mut(lane).pop_front() {
                Some(Place::Foreign(places)) if places > 1 => {
                    self.lane_mut(lane).push_front(Place::Foreign(places - 1));
                }
                Some(Place::Foreign(_)) => {}
                Some(Place::Task(id)) => {
                    self.start(id.clone(), at);
                    happened.push(Happened::Started { id, at });
                }
                None => break,
            }
        }
        self.next_move = self.waits().then(|| at + millis(self.pace.step_ms));
        happened
    }

    fn start(&mut self, id: TaskId, at: Timestamp) {
        let ends_at = (self.pace.mode == Mode::Auto).then(|| at + millis(self.pace.running_ms));
        self.runs.push(Run { id, ends_at, ready_at: None });
    }
}

/// Milliseconds as a duration.
#[must_use]
pub(crate) fn millis(value: u64) -> Duration {
    // A cap of a century keeps sums inside what a timestamp can hold.
    Duration::from_millis(value.min(3_155_760_000_000))
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
