//! What an emulator is told at its start.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;

use crate::braket::device::{Device, catalogue};
use crate::identity::Principal;
use crate::queue::{Ahead, Mode};
use crate::rest;
use crate::sessions::ContainerRole;

/// The whole configuration. In a file (JSON) every field may be left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Address of the vendor's services.
    pub listen: SocketAddr,
    /// Address of the control API.
    pub control: SocketAddr,
    /// Python interpreter with `amazon-braket-default-simulator`.
    pub python: PathBuf,
    /// Python interpreter with `qiskit-ibm-runtime`, for jobs of that client. None: they fail when
    /// they run, and say why.
    pub qiskit_python: Option<PathBuf>,
    /// Who may call.
    pub principals: Vec<Principal>,
    /// The devices.
    pub devices: Vec<Device>,
    /// Factor on every quota; 1 is the vendor's, 0 is none.
    pub quota_scale: f64,
    /// Requests that the journal keeps.
    pub journal: usize,
    /// Whether the journal keeps whole answers.
    pub record_answers: bool,
    /// The role of the container credentials service.
    pub container: ContainerRole,
    /// Whether an output bucket that nobody created is taken to exist.
    pub any_bucket: bool,
    /// The vendors of QRMI.
    pub qrmi: rest::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4570)),
            control: SocketAddr::from((Ipv4Addr::LOCALHOST, 4571)),
            python: PathBuf::from("python3"),
            qiskit_python: None,
            principals: principals(),
            devices: catalogue(),
            quota_scale: 1.0,
            journal: 20_000,
            record_answers: false,
            container: ContainerRole::default(),
            any_bucket: true,
            qrmi: rest::Config::default(),
        }
    }
}

impl Config {
    /// Free ports on loopback, short times, no foreign places, the vendor's quotas.
    #[must_use]
    pub fn for_testing() -> Self {
        let mut config = Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            control: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ..Self::default()
        };
        for device in &mut config.devices {
            device.pace.step_ms = 50;
            device.pace.running_ms = 50;
            device.pace.created_ms = 0;
            device.pace.cancelling_ms = 50;
            device.ahead = Ahead::default();
        }
        for machine in &mut config.qrmi.machines {
            machine.pace.step_ms = 50;
            machine.pace.running_ms = 50;
            machine.ahead = Ahead::default();
        }
        config
    }

    /// The same with an interpreter.
    #[must_use]
    pub fn with_python(mut self, python: impl Into<PathBuf>) -> Self {
        self.python = python.into();
        self
    }

    /// The same with an interpreter for jobs of IBM's own client.
    #[must_use]
    pub fn with_qiskit_python(mut self, python: impl Into<PathBuf>) -> Self {
        self.qiskit_python = Some(python.into());
        self
    }

    /// The same with lines that move only by hand, and foreign places before every task.
    #[must_use]
    pub fn by_hand(mut self, ahead: Ahead) -> Self {
        for device in &mut self.devices {
            device.pace.mode = Mode::Manual;
            device.ahead = ahead;
        }
        for machine in &mut self.qrmi.machines {
            machine.pace.mode = Mode::Manual;
            machine.ahead = ahead;
        }
        self
    }
}

/// Principals of the default configuration: documented examples, of no use anywhere else.
#[must_use]
pub fn principals() -> Vec<Principal> {
    let long_ago = Timestamp::UNIX_EPOCH;
    vec![
        Principal::user("AKIDEXAMPLE", "secret", "123456789012", "alice"),
        Principal::user("AKIDSIDECAR", "sidecar-secret", "123456789012", "sidecar"),
        Principal::user("AKIDOTHER", "other-secret", "210987654321", "bob"),
        Principal::user("AKIDNORIGHTS", "no-rights-secret", "123456789012", "carol").denied(&["*"]),
        Principal::user("AKIDNOTAGS", "no-tags-secret", "123456789012", "dave")
            .denied(&["braket:TagResource"]),
        Principal::user("ASIASESSION", "session-secret", "123456789012", "erin")
            .with_session("session-token", None),
        Principal::user("ASIAEXPIRED", "expired-secret", "123456789012", "frank")
            .with_session("expired-token", Some(long_ago)),
    ]
}
