//! What a vendor can tell and do: declared, so that nobody has to guess from missing fields.

/// What a vendor can tell and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Whether it tells the place of a task in the queue.
    pub position: bool,
    /// Whether it tells how many tasks wait for a device.
    pub queue: bool,
    /// How a later run of the program gets the task of an earlier one.
    pub resume: Resume,
    /// What the state `RUNNING` proves.
    pub running: Running,
    /// Where tasks wait.
    pub waits: Waits,
    /// What may be done when the answer to a submission was lost.
    pub lost: Lost,
}

/// How a later run of the program gets the task of an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// By its record, and by repeating the request under the earlier run's token.
    ByToken,
    /// By its record alone: a submission of which no answer came cannot be taken up.
    ByRecord,
    /// Not at all: the program names the task itself, or needs more than its id.
    No,
}

/// What the state `RUNNING` proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// The QPU executes the task.
    Executes,
    /// The service works on it; the QPU may come later.
    Served,
}

/// Where tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// In the vendor's queue.
    Inside,
    /// Before the door: a submission is refused until its turn comes, and what is taken runs.
    AtTheDoor,
}

/// What may be done when the answer to a submission was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Send it again: the vendor makes one task of both.
    SendAgain,
    /// Send it again: the vendor makes one task of both, and says with this status that it has the
    /// first.
    SendAgainUnless {
        /// Status of the answer to the second.
        taken: u16,
    },
    /// Close the connection: the vendor would make a second task.
    HangUp,
}
