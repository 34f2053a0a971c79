//! Machines of the vendors of QRMI.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::Service;
use crate::queue::{Ahead, Pace, millis};

/// Whether a machine runs jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does.
    #[default]
    Online,
    /// Jobs are taken and wait.
    Paused,
    /// It does not, and takes no jobs.
    Offline,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Machine {
    /// Its vendor.
    pub service: Service,
    /// The vendor's name of it.
    pub name: String,
    /// Qubits.
    pub qubits: u32,
    /// Whether it runs jobs.
    #[serde(default)]
    pub status: Status,
    /// How fast its line moves, and how many jobs run at once.
    #[serde(default)]
    pub pace: Pace,
    /// Foreign places before a new job.
    #[serde(default)]
    pub ahead: Ahead,
    /// Whether only those who reserved it may use it; only IBM Quantum System knows this.
    #[serde(default)]
    pub reserved: bool,
    /// Foreign work in lanes; only IBM Quantum System has lanes, as many as `pace.capacity`.
    #[serde(default)]
    pub busy: Busy,
}

/// Lanes of a machine that foreign work takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Busy {
    /// How many.
    pub lanes: u32,
    /// For how long from the start of the emulator, or from the change, milliseconds. None: until
    /// a change.
    pub ms: Option<u64>,
    /// When that began; set by the emulator.
    #[serde(skip)]
    pub from: Option<Timestamp>,
}

impl Machine {
    /// A machine with the default pace.
    #[must_use]
    pub fn new(service: Service, name: &str, qubits: u32) -> Self {
        Self {
            service,
            name: name.to_owned(),
            qubits,
            status: Status::default(),
            pace: Pace::default(),
            ahead: Ahead { normal: 4, priority: 0 },
            reserved: false,
            busy: Busy::default(),
        }
    }

    /// Lanes that foreign work takes now.
    #[must_use]
    pub fn busy_at(&self, now: Timestamp) -> u32 {
        let end = self.busy.ms.and_then(|ms| Some(self.busy.from? + millis(ms)));
        if end.is_some_and(|end| end <= now) { 0 } else { self.busy.lanes }
    }

    /// `<service>/<name>`: the name in the control API, where vendors may use one name twice.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.service.as_str(), self.name)
    }
}

/// Machines of the default configuration.
#[must_use]
pub fn catalogue() -> Vec<Machine> {
    vec![
        Machine::new(Service::Iqm, "garnet", 20),
        Machine::new(Service::IbmQuantumSystem, "fake_lagos", 7),
        Machine::new(Service::IbmQuantumComputeService, "ibm_lagos", 7),
        Machine::new(Service::Pasqal, "FRESNEL", 100),
        Machine::new(Service::Pasqal, "EMU_FREE", 12),
        Machine::new(Service::Felis, "EMU:1Q:LESCANNE_2020", 1),
    ]
}

/// A change to a machine; absent fields stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MachineChange {
    /// New status.
    pub status: Option<Status>,
    /// New pace, whole.
    pub pace: Option<Pace>,
    /// Foreign places before later jobs.
    pub ahead: Option<Ahead>,
    /// Foreign places that the line has now, at its end.
    pub add_ahead: Option<u64>,
    /// Whether only others may use it.
    pub reserved: Option<bool>,
    /// Foreign work in lanes, from now.
    pub busy: Option<Busy>,
}
