//! What the follower knows, what it can be told, and what it can want. Values only.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use sluice_shared::gang::{Consumers, Folded, Order, OrderReason, Phase, PodRef, VendorStatus};
use sluice_shared::policy::{Follow, Mismatch, ReleasePolicy, TaskSeen};
use sluice_shared::price::Usd;
use sluice_shared::resource::{Place, Resource};
use sluice_shared::role::Role;
use sluice_shared::series::Sample;
use sluice_shared::task::TaskState;

use super::followed::Followed;
use super::passing::{Submitted, Waiting};
use super::resume::{Ask, Ledger};
use crate::ending::Fate;
use crate::vendor::{DeviceReading, Failure, Reading};

/// What was decided for this gang before the sidecar started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Only a producer orders; a single is followed and nothing is gated.
    pub role: Role,
    /// When the gates open.
    pub policy: ReleasePolicy,
    /// How many tasks must be ready.
    pub needed: u32,
    /// Which tasks count.
    pub follow: Follow,
    /// The chosen backend.
    pub backend: Option<String>,
    /// What happens with a task on another QPU than the backend.
    pub mismatch: Mismatch,
    /// Most that the tasks may cost by list prices.
    pub max_cost: Option<Usd>,
    /// Which run of the program submits now.
    pub incarnation: String,
    /// `namespace/name` of the gang, for messages.
    pub gang: String,
    /// The announcement address, for messages.
    pub announce_url: String,
    /// Why the program may not get along with the tap, for messages.
    pub hints: Vec<String>,
}

impl Rules {
    /// Whether a task on this device counts. A device that is not known yet counts only where
    /// every device does.
    #[must_use]
    pub fn counts(&self, device: Option<&str>) -> bool {
        match device {
            Some(device) => self.follow.counts(device, self.backend.as_deref()),
            None => self.follow == Follow::Any,
        }
    }
}

/// One thing that was seen.
#[derive(Debug, Clone)]
pub enum Seen {
    /// Time passed.
    Time,
    /// The program is about to submit and waits for the answer.
    Asked(Ask),
    /// The program has gone before the answer took effect: nothing was sent.
    Withdrawn {
        /// Names the question.
        ticket: u64,
    },
    /// The submission went on before the answer was written down.
    WentOn {
        /// Names the question.
        ticket: u64,
    },
    /// A submission went through the tap and the vendor took it.
    Submitted(Submitted),
    /// The vendor has no room for a submission yet; the task will have this id.
    Waits(Waiting),
    /// The program opened a session.
    SessionOpened(Session),
    /// The program ended the session of this id.
    SessionClosed(String),
    /// A submission was refused, by the vendor or by the tap.
    SubmissionRefused {
        /// By whom and why.
        message: String,
        /// The token under which it was sent.
        token: Option<String>,
        /// Whether it is certain that no task came of this request.
        void: bool,
    },
    /// The answer to a submission was lost for good.
    SubmissionUnknown {
        /// The token under which it was sent.
        token: Option<String>,
        /// Where it went.
        place: Place,
        /// What went wrong.
        error: String,
    },
    /// The program was not given the task of an earlier run that its submission was to get.
    Returned {
        /// The token of the submission.
        token: Option<String>,
        /// The vendor's id of the task.
        id: String,
        /// Whether the vendor does not have it for this program.
        unknown: bool,
    },
    /// The program asked for a task, and this was the vendor's answer at that time.
    Polled(Reading, Timestamp),
    /// The program, or a person, told of a task.
    Announced {
        /// The vendor's id.
        id: String,
        /// The resource, where it is not Braket.
        resource: Option<Resource>,
    },
    /// The program asks to open the gates for this task, under the policy `manual`.
    ReleaseAsked {
        /// The vendor's id.
        id: String,
    },
    /// Our own look at a task, asked for at that time.
    Read(String, Timestamp, Result<Reading, Failure>),
    /// Our own look at a device.
    DeviceRead(DeviceId, Result<DeviceReading, Failure>),
    /// The gang as it is now; `None` when there is none.
    Gang(Option<GangSeen>),
    /// Whether gangs can still be made, asked after the own one went.
    GangType(bool),
    /// Requests of the program do not get through the tap; `None` when they do again.
    TapProblem(Option<String>),
}

/// What the follower reads of its gang.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GangSeen {
    /// Uid of the object: another one means that it was made again.
    pub uid: String,
    /// What a sidecar wrote, this one or an earlier one.
    pub vendor: Option<VendorStatus>,
    /// Where the keeper says that the gang stands.
    pub phase: Option<Phase>,
    /// The consumers by number.
    pub consumers: Option<Consumers>,
    /// Who gave the order that the keeper executes.
    pub by: Option<OrderReason>,
    /// The pod whose sidecar may write.
    pub producer: Option<PodRef>,
}

impl GangSeen {
    /// Whether every expected consumer is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Some(Phase::Released)
            && self.consumers.is_some_and(|c| c.gated == 0 && c.released >= c.expected)
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Look at a task.
    Read {
        /// The task.
        id: String,
        /// The resource, where it is not Braket.
        resource: Option<Resource>,
    },
    /// Look at a device.
    ReadDevice {
        /// The device.
        device: DeviceId,
        /// A task that waits for it: names the region of a simulator.
        task: String,
    },
    /// Make the gang's `status.vendor` this.
    Write(Box<VendorStatus>),
    /// Tell people.
    Say(Line),
}

/// A session that the program opened: the vendor keeps a device for it, and charges for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The vendor's id.
    pub id: String,
    /// Where.
    pub place: String,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whether somebody should do something about it.
    pub warn: bool,
    /// The text.
    pub text: String,
}

pub(super) fn say(steps: &mut Vec<Step>, warn: bool, text: String) {
    steps.push(Step::Say(Line { warn, text }));
}

/// Which device: two resources may call theirs by one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// The resource, where it is not Braket.
    pub resource: Option<Resource>,
    /// The vendor's name of it.
    pub name: String,
}

impl From<&str> for DeviceId {
    /// A device of Braket.
    fn from(name: &str) -> Self {
        Self { resource: None, name: name.to_owned() }
    }
}

/// A device as it is followed.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// What it told last.
    pub reading: Option<DeviceReading>,
    /// When.
    pub read_at: Option<Timestamp>,
    /// The account may not read it, or the vendor does not list it.
    pub unreadable: bool,
    /// Whether our look is under way.
    pub asked_at: Option<Timestamp>,
    /// Looks that failed in a row.
    pub failures: u32,
    /// Not before this time.
    pub not_before: Option<Timestamp>,
    /// When to look at it for the first time, while no task comes near the front.
    pub first_look: Option<Timestamp>,
    /// From 0 to 1, spreads the next look.
    pub luck: f64,
    /// From 1, stretches the time to the next look.
    pub stretch: f64,
}

/// Everything that the follower knows.
#[derive(Debug, Clone)]
pub struct State {
    /// The rules.
    pub rules: Rules,
    /// When this worker started.
    pub started_at: Timestamp,
    /// The tasks in order of submission.
    pub tasks: Vec<Followed>,
    /// Their devices.
    pub devices: BTreeMap<DeviceId, Device>,
    /// Tasks that are not listed any more, as the policy judges them.
    pub gone: Vec<TaskSeen>,
    /// Their numbers, with those of earlier workers.
    pub folded: Folded,
    /// The order that stands.
    pub order: Option<Order>,
    /// Whether this worker gave it, so that the time it takes is known.
    pub ordered_here: bool,
    /// Uid of the gang that was read; nothing is written before.
    pub gang: Option<String>,
    /// What became of the gang, for the end.
    pub fate: Fate,
    /// The consumers, as the keeper counts them.
    pub consumers: Option<Consumers>,
    /// Whether the gates were seen open.
    pub open: bool,
    /// What the queue did.
    pub series: Vec<Sample>,
    /// Whether it holds more than was handed to the writer.
    pub series_news: bool,
    /// What was last handed to the writer, but for the series.
    pub written: VendorStatus,
    /// When.
    pub written_at: Timestamp,
    /// Submissions that were, or are about to be, forwarded, and the answers to them.
    pub ledger: Ledger,
    /// When those were last judged.
    pub ledger_at: Timestamp,
    /// Sessions that the program opened and has not ended.
    pub sessions: Vec<Session>,
    /// The tap's problem.
    pub tap_problem: Option<String>,
    /// The last refused submission.
    pub refused: Option<String>,
    /// The task for which the program itself asked to open the gates.
    pub asked_for: Option<String>,
    /// The task of the sidecar's order that the gang was last seen to hold: that order outlives
    /// this worker.
    pub recorded: Option<String>,
    /// What was said once.
    pub told: Told,
}

/// Things that are said once.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one line of the log")]
pub struct Told {
    /// The program has not submitted anything for long.
    pub silent: bool,
    /// There is no gang.
    pub no_gang: bool,
    /// The order is not executed.
    pub slow: bool,
    /// The front is judged by the position alone.
    pub position_alone: bool,
    /// A place in the queue decides, and the vendor tells none.
    pub no_position: bool,
    /// The vendor throttles the account, told last at this time.
    pub throttled: Option<Timestamp>,
}

/// The program is silent for this long: it may bypass the tap.
pub const SILENT: Duration = Duration::from_mins(10);
/// A missing gang, an order without effect, a write without success: worth a line after this.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl State {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rules: Rules, at: Timestamp) -> Self {
        Self {
            rules,
            started_at: at,
            tasks: Vec::new(),
            devices: BTreeMap::new(),
            gone: Vec::new(),
            folded: Folded::default(),
            order: None,
            ordered_here: false,
            gang: None,
            fate: Fate::Unseen,
            consumers: None,
            open: false,
            series: Vec::new(),
            series_news: false,
            written: VendorStatus::default(),
            written_at: at,
            ledger: Ledger::default(),
            ledger_at: at,
            sessions: Vec::new(),
            tap_problem: None,
            refused: None,
            asked_for: None,
            recorded: None,
            told: Told::default(),
        }
    }

    /// The task with this id.
    #[must_use]
    pub fn task(&self, id: &str) -> Option<&Followed> {
        self.tasks.iter().find(|t| t.reading.id == id)
    }

    /// The last place that satisfies the policy, while that is still to be decided.
    #[must_use]
    pub fn deciding(&self) -> u32 {
        if self.rules.role == Role::Producer && !self.order_stands() {
            self.rules.policy.place()
        } else {
            1
        }
    }

    /// What is known of the state of a task, the tasks that are not listed any more included.
    #[must_use]
    pub fn state_of(&self, id: &str) -> Option<&TaskState> {
        let gone = || self.gone.iter().find(|t| t.id == id).map(|t| &t.state);
        self.task(id).map(|t| &t.reading.state).or_else(gone)
    }

    /// The task of the order that stands and that the gang holds, so that it cannot be lost.
    #[must_use]
    pub fn order_kept(&self) -> Option<&str> {
        let order = self.order.as_ref().filter(|_| self.order_stands())?;
        self.recorded.as_deref().filter(|recorded| *recorded == order.task_id)
    }

    /// Whether the order stands: it was given, and its task has not ended without a result.
    #[must_use]
    pub fn order_stands(&self) -> bool {
        self.order.as_ref().is_some_and(|order| {
            self.state_of(&order.task_id).is_none_or(|state| !state.is_unsuccessful())
        })
    }
}
