//! Devices: what is configured about them, and what the vendor's API says about them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::time_text;
use crate::queue::{Ahead, Lane, Pace};

/// Kind of a device; the words are the vendor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// A quantum computer.
    Qpu,
    /// A simulator.
    Simulator,
}

/// Status of a device; the words are the vendor's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Takes tasks and runs them.
    #[default]
    Online,
    /// Refuses tasks (`DeviceOfflineException`); what is queued waits.
    Offline,
    /// Refuses tasks for good (`DeviceRetiredException`).
    Retired,
    /// Takes tasks, runs none.
    Paused,
}

/// Why a device is not online.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusReason {
    /// `OUTSIDE_AVAILABILITY_WINDOW`, `MAINTENANCE` or `RESERVATION`.
    pub reason: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Until when, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_end_at: Option<Timestamp>,
}

/// Hours of a device, in UTC. They are told and nothing more: what stands still is the status's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// `Everyday`, `Weekdays`, `Weekend`, or the name of a day.
    pub execution_day: String,
    /// Such as `09:00:00`.
    pub window_start_hour: String,
    /// Such as `19:00:00`; before the start for a window that runs past midnight.
    pub window_end_hour: String,
}

fn always() -> Vec<Window> {
    vec![Window {
        execution_day: "Everyday".to_owned(),
        window_start_hour: "00:00".to_owned(),
        window_end_hour: "23:59:59".to_owned(),
    }]
}

/// A device as it is configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// `arn:aws:braket:<region or nothing>::device/…`.
    pub arn: String,
    /// The vendor's display name, such as `Garnet`.
    pub name: String,
    /// Such as `IQM`.
    pub provider: String,
    /// Kind.
    pub kind: Kind,
    /// Regions that serve the device.
    pub regions: Vec<String>,
    /// Qubits.
    pub qubits: u32,
    /// Least and most shots of a task.
    pub shots: (u64, u64),
    /// US dollars for each unit.
    pub price: f64,
    /// `shot` or `minute`.
    pub unit: String,
    /// Place of the machine.
    pub location: String,
    /// Name of the capabilities schema after `braket.device_schema.`, and its version.
    pub schema: (String, String),
    /// How fast its line moves.
    #[serde(default)]
    pub pace: Pace,
    /// Foreign places before a new task.
    #[serde(default)]
    pub ahead: Ahead,
    /// Recorded waits, in milliseconds, taken in turn: a task that is the first of ours in the
    /// line gets the pace with which it starts after that time, if nothing else comes between.
    /// Empty: the pace as it is.
    #[serde(default)]
    pub waits_ms: Vec<u64>,
    /// Status.
    #[serde(default)]
    pub status: Status,
    /// Why it is not online.
    #[serde(default)]
    pub status_reason: Option<StatusReason>,
    /// Hours in which it runs tasks.
    #[serde(default = "always")]
    pub windows: Vec<Window>,
}

impl Device {
    /// The part of the ARN that people use: `sv1`, `Garnet`, `Cepheus-1-108Q`.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.arn.rsplit('/').next().unwrap_or(&self.arn)
    }

    /// Whether a region serves it.
    #[must_use]
    pub fn in_region(&self, region: &str) -> bool {
        self.regions.iter().any(|served| served == region)
    }

    /// The answer of `GetDevice`. `waiting` gives the places of a lane, `openqasm` says whether
    /// the caller's schemas are new enough for `OpenQASM` actions.
    #[must_use]
    pub fn details(&self, waiting: impl Fn(Lane) -> u64, openqasm: bool, now: Timestamp) -> Value {
        let mut answer = self.summary();
        let queue = |lane: Lane| {
            json!({
                "queue": "QUANTUM_TASKS_QUEUE",
                "queueSize": size_text(waiting(lane), 4_000),
                "queuePriority": lane.as_str(),
            })
        };
        answer["deviceCapabilities"] = Value::from(self.capabilities(openqasm).to_string());
        answer["deviceQueueInfo"] = json!([
            queue(Lane::Normal),
            queue(Lane::Priority),
            { "queue": "JOBS_QUEUE", "queueSize": "0" },
        ]);
        if let Some(reason) = &self.status_reason {
            let mut told = json!({ "reason": reason.reason, "updatedAt": time_text(now) });
            for (name, at) in
                [("startedAt", reason.started_at), ("estimatedEndAt", reason.estimated_end_at)]
            {
                if let Some(at) = at {
                    told[name] = Value::from(time_text(at));
                }
            }
            answer["deviceStatusReason"] = told;
        }
        answer
    }

    /// The entry of `SearchDevices`.
    #[must_use]
    pub fn summary(&self) -> Value {
        json!({
            "deviceArn": self.arn,
            "deviceName": self.name,
            "providerName": self.provider,
            "deviceType": self.kind,
            "deviceStatus": self.status,
        })
    }

    /// What a program may ask to be computed of its shots.
    fn result_types(&self, observables: &[&str]) -> Value {
        let kind = |name: &str, observables: Value| {
            json!({ "name": name, "observables": observables, "minShots": 1,
                    "maxShots": self.shots.1 })
        };
        let mut kinds: Vec<_> =
            ["Sample", "Expectation", "Variance"].map(|name| kind(name, json!(observables))).into();
        kinds.push(kind("Probability", Value::Null));
        Value::Array(kinds)
    }

    /// The capabilities document, as far as the vendor's SDK needs it to parse.
    fn capabilities(&self, openqasm: bool) -> Value {
        let header = |name: &str, version: &str| json!({ "name": format!("braket.device_schema.{name}"), "version": version });
        let mut service = json!({
            "braketSchemaHeader": header("device_service_properties", "1"),
            "executionWindows": self.windows,
            "shotsRange": [self.shots.0, self.shots.1],
            "deviceCost": { "price": self.price, "unit": self.unit },
            "deviceLocation": self.location,
        });
        let (paradigm, result_types) = match self.kind {
            Kind::Simulator => {
                service["getTaskPollIntervalMillis"] = Value::from(200);
                let simulator = "simulators.gate_model_simulator_paradigm_properties";
                (
                    json!({
                        "braketSchemaHeader": header(simulator, "1"),
                        "qubitCount": self.qubits,
                    }),
                    self.result_types(&["x", "y", "z", "h", "i", "hermitian"]),
                )
            }
            Kind::Qpu => {
                // A ring: the least connected layout that the schema can describe.
                let graph: serde_json::Map<_, _> = (1..=self.qubits)
                    .map(|qubit| {
                        let next = qubit % self.qubits.max(1) + 1;
                        (qubit.to_string(), json!([next.to_string()]))
                    })
                    .collect();
                (
                    json!({
                        "braketSchemaHeader": header("gate_model_qpu_paradigm_properties", "1"),
                        "connectivity": { "fullyConnected": false, "connectivityGraph": graph },
                        "qubitCount": self.qubits,
                        "nativeGateSet": ["cz", "prx"],
                    }),
                    self.result_types(&["x", "y", "z", "h", "i"]),
                )
            }
        };
        let mut action = json!({});
        if openqasm {
            action["braket.ir.openqasm.program"] = json!({
                "actionType": "braket.ir.openqasm.program",
                "version": ["1"],
                "supportedOperations": GATES,
                "supportedResultTypes": result_types,
            });
        }
        json!({
            "braketSchemaHeader": header(&self.schema.0, &self.schema.1),
            "service": service,
            "action": action,
            "paradigm": paradigm,
            "deviceParameters": {},
        })
    }
}

const GATES: [&str; 24] = [
    "ccnot",
    "cnot",
    "cphaseshift",
    "cswap",
    "cy",
    "cz",
    "h",
    "i",
    "iswap",
    "phaseshift",
    "prx",
    "rx",
    "ry",
    "rz",
    "s",
    "si",
    "swap",
    "t",
    "ti",
    "v",
    "vi",
    "x",
    "y",
    "z",
];

/// A number of places as the vendor writes it; above a bound it says only `>bound`.
#[must_use]
pub(crate) fn size_text(places: u64, bound: u64) -> String {
    if places > bound { format!(">{bound}") } else { places.to_string() }
}

/// Whether a `User-Agent` names schemas that know `OpenQASM` actions (1.8.0 or newer).
#[must_use]
pub fn knows_openqasm(user_agent: &str) -> bool {
    let Some(version) =
        user_agent.split_whitespace().find_map(|product| product.strip_prefix("BraketSchemas/"))
    else {
        return false;
    };
    let mut numbers = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (1, 8)
}

/// The devices of a default configuration, in five regions' worth of places.
#[must_use]
pub fn catalogue() -> Vec<Device> {
    let simulator_regions = ["us-east-1", "us-west-1", "us-west-2", "eu-west-2"];
    let simulator = |name: &str, short: &str, qubits| Device {
        arn: format!("arn:aws:braket:::device/quantum-simulator/amazon/{short}"),
        name: name.to_owned(),
        provider: "Amazon Braket".to_owned(),
        kind: Kind::Simulator,
        regions: simulator_regions.map(str::to_owned).to_vec(),
        qubits,
        shots: (0, 100_000),
        price: 0.075,
        unit: "minute".to_owned(),
        location: "N/A".to_owned(),
        schema: ("simulators.gate_model_simulator_device_capabilities".to_owned(), "1".to_owned()),
        pace: Pace { step_ms: 100, running_ms: 500, capacity: 50, ..Pace::default() },
        ahead: Ahead::default(),
        waits_ms: Vec::new(),
        status: Status::Online,
        status_reason: None,
        windows: always(),
    };
    let qpu = |path: &str, provider: &str, region: &str, qubits, price, location: &str| Device {
        arn: format!("arn:aws:braket:{region}::device/qpu/{path}"),
        name: path.rsplit('/').next().unwrap_or(path).replace('-', " "),
        provider: provider.to_owned(),
        kind: Kind::Qpu,
        regions: vec![region.to_owned()],
        qubits,
        shots: (1, 20_000),
        price,
        unit: "shot".to_owned(),
        location: location.to_owned(),
        schema: (format!("{0}.{0}_device_capabilities", provider.to_lowercase()), "1".to_owned()),
        pace: Pace::default(),
        ahead: Ahead { normal: 4, priority: 0 },
        waits_ms: Vec::new(),
        status: Status::Online,
        status_reason: None,
        windows: always(),
    };
    let garnet = qpu("iqm/Garnet", "IQM", "eu-north-1", 20, 0.00145, "Espoo, Finland");
    let emerald = qpu("iqm/Emerald", "IQM", "eu-north-1", 54, 0.0016, "Espoo, Finland");
    let cepheus =
        qpu("rigetti/Cepheus-1-108Q", "Rigetti", "us-west-1", 108, 0.000_425, "California, USA");
    let forte = qpu("ionq/Forte-1", "IonQ", "us-east-1", 36, 0.08, "Maryland, USA");
    vec![
        simulator("SV1", "sv1", 34),
        simulator("DM1", "dm1", 17),
        garnet,
        emerald,
        cepheus,
        Device { shots: (1, 5_000), ..forte },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openqasm_needs_schemas_of_1_8() {
        let known = [
            "Boto3/1.44.8 md/x BraketSdk/1.127.5 BraketSchemas/1.32.1.post0 NotebookInstance/None",
            "BraketSchemas/1.8.0",
            "BraketSchemas/2.0",
            "BraketSchemas/1.7.9",
            "BraketSchemas/x",
            "Boto3/1.44.8",
        ]
        .map(knows_openqasm);
        assert_eq!(known, [true, true, true, false, false, false]);
    }

    #[test]
    fn sizes_are_capped_as_text() {
        assert_eq!([4_000, 4_001].map(|size| size_text(size, 4_000)), ["4000", ">4000"]);
    }

    #[test]
    fn every_qpu_lives_in_the_region_of_its_arn() {
        for device in catalogue() {
            let region = device.arn.split(':').nth(3).unwrap();
            assert_eq!(region.is_empty(), device.kind == Kind::Simulator, "{}", device.arn);
            assert!(region.is_empty() || device.regions == [region], "{}", device.arn);
        }
    }
}
