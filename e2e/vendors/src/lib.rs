//! An emulator of quantum vendors: Amazon Braket with as much of S3 and STS as its SDK needs, and
//! vendors that QRMI reaches: IQM Server, IBM Quantum System, IBM Quantum Compute Service, Pasqal
//! Cloud and Felis.
//!
//! ```text
//!  SDK, boto3, sidecar ──▶ vendor port ──▶ who, what, fault? ──▶ quota, rights ──▶ World, Store
//!                            (one port for braket, s3, sts;            │
//!                             the credential scope says which)         ├─ lines move by time or by step
//!  tests, people ───────▶ control port ── steps, states, faults ──────▶│
//!                                                                      └─ a task starts: its program is
//!                                                                         computed by the SDK's own
//!                                                                         simulator, results.json in S3
//! ```
//!
//! What it checks, as the vendor does: signatures (version 4, computed again), session tokens,
//! their end, the caller's clock, rights, quotas of each account and region, the region of
//! devices and tasks, the model's limits on every field. Every answer follows the vendor's model.
//!
//! `GET /container-credentials` on the vendor port is a container credentials service, as the agents
//! of EKS Pod Identity and ECS are one ([`ContainerRole`]): each caller gets keys of its own.
//!
//! # Choices where the vendor's behaviour is not published
//! * A `clientToken` counts for one account in one region. The same token with the same body
//!   (as JSON) gives the same ARN; with another body, `ValidationException`.
//! * `OFFLINE` and `RETIRED` devices refuse tasks (424, 410); a `PAUSED` one takes them and runs
//!   none. Whatever is queued keeps its place while the device is not `ONLINE`.
//! * Position 1 is the next task of its lane. The priority lane (tasks with a `jobToken`) goes
//!   first, so a normal task at position 1 may still wait.
//! * A running task can be cancelled; an ended one answers `ConflictException`.
//! * A program that is not JSON with a schema header is refused at submission; one that does
//!   not parse becomes `FAILED` when its turn comes.
//! * A task of another account is `AccessDeniedException`, one of another region
//!   `ResourceNotFoundException`.
//! * A submission to a device that is not in the region is a `ValidationException`: the model
//!   knows no `ResourceNotFoundException` there. `GetDevice` answers 404.
//! * An output bucket that nobody made is taken to exist ([`Config::any_bucket`]).
//!
//! # The vendors of QRMI
//! They share port, faults, journal and clock with Braket, below paths of their own:
//! `http://<vendor port>/iqm`, `…/ibm-quantum-system`, `…/ibm-quantum-compute-service` (its API
//! below `/api/v1`), `…/pasqal` and `…/felis`. [`rest::Config`] has
//! their accounts and machines; [`Running::qrmi_environment`] gives the variables for QRMI. Their
//! operations are called `iqm:SubmitJob` in faults, journal and counts, their machines
//! `iqm/garnet` in steps and changes. Circuits are computed by the same simulator;
//! sequences of pulses (Pasqal) and QIR (Felis) are not, their results are noise.
//! IBM's own client finds its service by [`Running::qiskit_environment`]; its circuits are in a form
//! that only Qiskit reads, and are computed if [`Config::qiskit_python`] names a Python that has it.
//!
//! # The control API
//!
//! | request | body | effect |
//! |---|---|---|
//! | `GET /healthz` | | state of the emulator and of its simulator |
//! | `GET /journal?after=N&operation=X` | | requests, oldest first ([`journal::Entry`]) |
//! | `GET /counts` | | requests by operation and status |
//! | `GET /tasks`, `GET /tasks/{id}` | | tasks ([`TaskView`]) |
//! | `POST /tasks/{id}/state` | [`StateChange`] | forces a state, or makes the API say something else |
//! | `GET /devices` | | devices as they are now |
//! | `PUT /devices/{name}` | [`DeviceChange`] | status with its reason, hours, pace, foreign places, failures |
//! | `GET /jobs` | | jobs at the vendors of QRMI ([`JobView`]) |
//! | `POST /jobs/{id}/state` | `{"state": "FAILED", "reason": "…"}` | ends a job; or `CANCELLED` |
//! | `GET /machines` | | machines of these vendors ([`Machine`]) |
//! | `PUT /machines/{service}/{name}` | [`MachineChange`] | status, pace, foreign places and lanes |
//! | `DELETE /tokens` | | ends every access token of these vendors |
//! | `DELETE /accounts/{name}` | | takes the key of one of their accounts away |
//! | `POST /step` | `{"device": "Garnet", "times": 1}` | moves lines by hand |
//! | `GET`, `POST`, `DELETE /faults` | [`fault::Fault`] | the table of faults |
//! | `PUT /latency` | `{"ms": 100}` | delays every answer |
//! | `POST /principals/{key}/expire` | | ends credentials |
//! | `POST /reset` | | back to the configuration |
//!
//! The same controls are methods of [`Steering`], which [`Running`] dereferences to.
//!
//! ```no_run
//! # async fn example() -> Result<(), sluice_vendors::StartError> {
//! use sluice_vendors::{Action, Config, Emulator, Fault, Stage};
//! let vendor = Emulator::start(Config::for_testing().with_python("python3")).await?;
//! vendor.add_fault(Fault::next(1, "CreateQuantumTask", Action::Close { when: Stage::After }));
//! println!("AWS_ENDPOINT_URL_BRAKET={}", vendor.braket_url());
//! # Ok(()) }
//! ```

pub mod args;
pub mod braket;
mod clock;
pub mod config;
mod control;
pub mod emulator;
pub mod error;
pub mod fault;
mod felis;
mod front;
mod hub;
mod ibm;
pub mod identity;
mod iqm;
pub mod journal;
mod pasqal;
pub mod queue;
pub mod quota;
pub mod rest;
pub mod s3;
pub mod sessions;
pub mod signature;
pub mod simulator;
pub mod sts;

pub use braket::change::{ControlError, DeviceChange, StateChange};
pub use braket::device::{Device, Status, StatusReason, Window};
pub use braket::task::Pretence;
pub use config::Config;
pub use emulator::{Emulator, Running, StartError, Steering, TaskView};
pub use error::Service;
pub use fault::{Action, Fault, Stage};
pub use identity::Principal;
pub use journal::Entry;
pub use queue::{Ahead, Lane, Mode, Pace};
pub use rest::machine::{Busy, Machine, MachineChange};
pub use rest::steer::{Forced, JobView};
pub use sessions::ContainerRole;
pub use simulator::Health;
