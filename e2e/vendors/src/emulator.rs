//! Starting an emulator, and steering it from the same process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::braket::change::{ControlError, DeviceChange, StateChange};
use crate::braket::device::Device;
use crate::braket::task::{Phase, Task};
use crate::braket::world::World;
use crate::config::Config;
use crate::error::Service;
use crate::fault::Fault;
use crate::hub::Hub;
use crate::identity::Principal;
use crate::journal::Entry;
use crate::queue::Lane;
use crate::sessions::ContainerRole;
use crate::simulator::{self, Health, Simulator};
use crate::{clock, control, front, rest};

/// Why an emulator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken, or the address is not of this machine.
    #[error("cannot listen on {address}; choose another address or port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Source.
        source: std::io::Error,
    },
}

/// An emulator whose sockets are bound, and which does not answer yet.
#[derive(Debug)]
pub struct Emulator {
    config: Config,
    vendor: TcpListener,
    control: TcpListener,
}

impl Emulator {
    /// Binds both sockets.
    ///
    /// # Errors
    /// A port that is taken.
    pub async fn build(config: Config) -> Result<Self, StartError> {
        let vendor = bind(config.listen).await?;
        let control = bind(config.control).await?;
        Ok(Self { config, vendor, control })
    }

    /// Builds and runs in the background.
    ///
    /// # Errors
    /// A port that is taken.
    pub async fn start(config: Config) -> Result<Running, StartError> {
        Self::build(config).await?.run()
    }

    /// Begins to answer.
    ///
    /// # Errors
    /// A socket that went away.
    pub fn run(self) -> Result<Running, StartError> {
        let address = |listener: &TcpListener, wanted| {
            listener.local_addr().map_err(|source| StartError::Listen { address: wanted, source })
        };
        let vendor = address(&self.vendor, self.config.listen)?;
        let control = address(&self.control, self.config.control)?;
        let (token, tracker) = (CancellationToken::new(), TaskTracker::new());
        let worker = |script, python| Simulator::start(script, python, token.clone());
        let simulator = worker(simulator::BRAKET, self.config.python.clone());
        let qiskit =
            self.config.qiskit_python.clone().map(|python| worker(simulator::QISKIT, python));
        let hub = Arc::new(Hub::new(self.config, simulator, qiskit));
        let steering = Steering { hub: Arc::clone(&hub), tracker: tracker.clone() };
        tracker.spawn(clock::run(Arc::clone(&hub), tracker.clone(), token.clone()));
        tracker.spawn(front::serve(self.vendor, hub, token.clone(), tracker.clone()));
        tracker.spawn(control::serve(self.control, steering.clone(), token.clone()));
        Ok(Running { vendor, control, steering, token: token.clone(), _guard: token.drop_guard() })
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })
}

/// An emulator that answers. It stops when this value goes away.
#[derive(Debug)]
pub struct Running {
    vendor: SocketAddr,
    control: SocketAddr,
    steering: Steering,
    token: CancellationToken,
    _guard: DropGuard,
}

impl Running {
    /// Address of the vendor port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.vendor
    }

    /// Base URL of Braket, S3 and STS: one port serves all three.
    #[must_use]
    pub fn braket_url(&self) -> String {
        format!("http://{}", self.vendor)
    }

    /// Base URL of a vendor of QRMI.
    #[must_use]
    pub fn url_of(&self, service: Service) -> String {
        format!("{}/{}", self.braket_url(), service.as_str())
    }

    /// The environment with which QRMI finds a resource at one of its vendors, for an account.
    #[must_use]
    pub fn qrmi_environment(
        &self,
        service: Service,
        resource: &str,
        account: &str,
        key: &str,
    ) -> Vec<(String, String)> {
        rest::environment::of(&self.braket_url(), service, account, key)
            .into_iter()
            .map(|(name, value)| (format!("{resource}_QRMI_{name}"), value))
            .collect()
    }

    /// The environment with which IBM's own client, `qiskit-ibm-runtime`, finds the compute service.
    #[must_use]
    pub fn qiskit_environment(&self, key: &str) -> Vec<(&'static str, String)> {
        rest::environment::of_qiskit(&self.braket_url(), key)
    }

    /// URL of the container credentials service, for `AWS_CONTAINER_CREDENTIALS_FULL_URI`.
    #[must_use]
    pub fn container_credentials_url(&self) -> String {
        format!("{}{}", self.braket_url(), crate::hub::CONTAINER_CREDENTIALS)
    }

    /// Base URL of the control API.
    #[must_use]
    pub fn control_url(&self) -> String {
        format!("http://{}", self.control)
    }

    /// The environment with which AWS clients find this emulator as its first principal.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let url = self.braket_url();
        let mut environment: Vec<_> =
            ["AWS_ENDPOINT_URL_BRAKET", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS"]
                .map(|name| (name, url.clone()))
                .to_vec();
        environment.push(("AWS_DEFAULT_REGION", "us-east-1".to_owned()));
        environment.push(("AWS_EC2_METADATA_DISABLED", "true".to_owned()));
        if let Some(principal) = self.steering.hub.config.principals.first() {
            use secrecy::ExposeSecret;
            let secret = principal.secret_access_key.expose_secret();
            environment.push(("AWS_ACCESS_KEY_ID", principal.access_key_id.clone()));
            environment.push(("AWS_SECRET_ACCESS_KEY", secret.to_owned()));
        }
        environment
    }

    /// Closes the sockets and waits until everything has ended.
    pub async fn stop(self) {
        self.token.cancel();
        self.steering.tracker.close();
        self.steering.tracker.wait().await;
    }
}

/// All controls, also of [`Running`].
#[derive(Debug, Clone)]
pub struct Steering {
    pub(crate) hub: Arc<Hub>,
    pub(crate) tracker: TaskTracker,
}

impl std::ops::Deref for Running {
    type Target = Steering;

    fn deref(&self) -> &Steering {
        &self.steering
    }
}

/// A task as the control API shows it: the truth, whatever the vendor API is made to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Last part of the ARN.
    pub id: String,
    /// The ARN.
    pub arn: String,
    /// Owner.
    pub account: String,
    /// Region.
    pub region: String,
    /// Device ARN.
    pub device: String,
    /// The vendor's word.
    pub state: String,
    /// Place in its lane, while it waits.
    pub position: Option<u64>,
    /// `Normal` or `Priority`.
    pub lane: Lane,
    /// Shots.
    pub shots: u64,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Why it failed.
    pub failure: Option<String>,
}

impl TaskView {
    fn of(world: &World, task: &Task, now: Timestamp) -> Self {
        let failure = match &task.phase {
            Phase::Failed { reason } => Some(reason.clone()),
            _ => None,
        };
        let honest = Task { pretence: crate::braket::task::Pretence::default(), ..task.clone() };
        Self {
            id: task.id.clone(),
            arn: task.arn.clone(),
            account: task.account.clone(),
            region: task.region.clone(),
            device: task.device.clone(),
            state: honest.status(now).to_owned(),
            position: world.position(task),
            lane: task.lane,
            shots: task.shots,
            tags: task.tags.clone(),
            created: task.created,
            ended: task.ended,
            failure,
        }
    }
}

impl Steering {
    /// The journal, oldest first.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.hub.lock().journal.entries().cloned().collect()
    }

    /// Requests by `<operation> <status>`.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.hub.lock().journal.counts().clone()
    }

    /// Tasks, newest first.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskView> {
        clock::advance(&self.hub, &self.tracker);
        let now = Timestamp::now();
        let world = &self.hub.lock().world;
        world.tasks().map(|task| TaskView::of(world, task, now)).collect()
    }

    /// One task by id or ARN.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<TaskView> {
        clock::advance(&self.hub, &self.tracker);
        let now = Timestamp::now();
        let world = &self.hub.lock().world;
        world.task(name).map(|task| TaskView::of(world, task, now))
    }

    /// The devices.
    #[must_use]
    pub fn devices(&self) -> Vec<Device> {
        self.hub.lock().world.devices().to_vec()
    }

    /// Moves the line of one device, or of all, by some steps: what runs ends, then the line
    /// moves once. Waits for results that are being computed, so that a step has its full effect.
    ///
    /// # Errors
    /// No such device.
    pub async fn step(&self, device: Option<&str>, times: u32) -> Result<(), ControlError> {
        for _ in 0..times {
            self.settled().await;
            let is_machine = self.step_machines(device);
            if device.is_none() || !is_machine {
                let jobs = self.hub.lock().world.step(device, Timestamp::now())?;
                clock::compute(&self.hub, &self.tracker, jobs);
            }
        }
        self.hub.changed.notify_one();
        Ok(())
    }

    /// Waits until every running task has its result.
    pub async fn settled(&self) {
        loop {
            let computed = self.hub.computed.notified();
            {
                let state = self.hub.lock();
                let vendors = state.vendors.each().any(|vendor| vendor.machines().computes());
                if !vendors && !state.world.computes() {
                    return;
                }
            }
            // A result may come between the look and the wait; the bound covers that.
            let _ = tokio::time::timeout(Duration::from_millis(100), computed).await;
        }
    }

    /// Looks again and again until something holds. `false`: it did not within the limit.
    pub async fn until(&self, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = tokio::time::Instant::now() + limit;
        loop {
            if holds(self) {
                return true;
            }
            if tokio::time::Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Changes a device, named by ARN, by the last part of it, or by its display name.
    ///
    /// # Errors
    /// No such device.
    pub fn change_device(&self, name: &str, change: DeviceChange) -> Result<Device, ControlError> {
        let device = self.hub.lock().world.change_device(name, change, Timestamp::now())?;
        self.hub.changed.notify_one();
        Ok(device)
    }

    /// Forces a state onto a task, or makes the API say something else about it.
    ///
    /// # Errors
    /// No such task, or one that has ended.
    pub fn change_state(&self, task: &str, change: StateChange) -> Result<(), ControlError> {
        let jobs = self.hub.lock().world.change_state(task, change, Timestamp::now())?;
        clock::compute(&self.hub, &self.tracker, jobs);
        self.hub.changed.notify_one();
        Ok(())
    }

    /// Adds a row to the table of faults.
    pub fn add_fault(&self, fault: Fault) {
        self.hub.lock().faults.add(fault);
    }

    /// Rows of the table of faults that will still strike.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.hub.lock().faults.rows().to_vec()
    }

    /// Forgets all faults.
    pub fn clear_faults(&self) {
        self.hub.lock().faults.clear();
    }

    /// Delays every answer of the vendor port.
    pub fn set_latency(&self, latency: Duration) {
        self.hub.lock().latency = latency;
    }

    /// Adds or replaces a principal.
    pub fn add_principal(&self, principal: Principal) {
        self.hub.lock().principals.insert(principal);
    }

    /// Changes the role of the container credentials service.
    pub fn set_container(&self, role: ContainerRole) {
        self.hub.lock().container = role;
    }

    /// What the container of a hybrid job finds in `AMZN_BRAKET_JOB_TOKEN`.
    #[must_use]
    pub fn job_token(&self, arn: &str) -> Option<String> {
        let hub = self.hub.lock();
        hub.world.jobs().find(|job| job.arn == arn).map(|job| job.token.clone())
    }

    /// Makes a bucket of an account, as its owner would have done long ago.
    pub fn add_bucket(&self, account: &str, name: &str) {
        self.hub.lock().store.add_bucket(account, name);
    }

    /// Ends the credentials of a key now: from here on they are answered as expired.
    #[must_use]
    pub fn expire(&self, access_key_id: &str) -> bool {
        self.hub.lock().principals.expire(access_key_id, Timestamp::now())
    }

    /// Back to the configuration: no tasks, objects, faults or journal.
    pub fn reset(&self) {
        self.hub.reset();
        self.hub.changed.notify_one();
    }

    /// What the worker that computes programs is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.hub.simulator.health()
    }
}
