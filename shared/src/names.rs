//! Every name on the wire: labels, annotations, environment, gates, conditions, reasons.
//!
//! Names of the first block are kept from Fluence, because applications read them. The rest is
//! ours. A user can rely on all of them; a change here is a change of the contract.

/// API group of everything that is ours.
pub const GROUP: &str = "sluice.flux-framework.org";
/// Version of the custom resources.
pub const VERSION: &str = "v1alpha1";
/// The extended resource that makes a pod quantum.
pub const QPU_RESOURCE: &str = "fluxion.flux-framework.org/qpu";

// Kept from Fluence.

/// Label: the group a pod belongs to, in Jobs written for Fluence.
pub const FLUENCE_GROUP: &str = "fluence.flux-framework.org/group";
/// Annotation: `shared` or `independent`.
pub const COORDINATION: &str = "fluence.flux-framework.org/coordination";
/// Annotation: `true` asks for the sidecar without a gang.
pub const OBSERVE: &str = "fluence.flux-framework.org/observe";
/// Annotation: the number of pods in the group.
pub const GROUP_SIZE: &str = "fluence.flux-framework.org/group-size";
/// Annotation: the vendor's id of the task, written on consumers when they are released.
pub const QUANTUM_JOB_ID: &str = "fluence.flux-framework.org/quantum-job-id";
/// Annotation: the backend that was chosen.
pub const BACKEND: &str = "fluence.flux-framework.org/backend";
/// Prefix of annotations that carry an attribute of the chosen backend.
pub const ATTR_PREFIX: &str = "fluence.flux-framework.org/attr-";
/// Prefix of annotations that constrain the choice of a backend.
pub const REQUIRE_PREFIX: &str = "fluence.flux-framework.org/require-";
/// Environment: `producer` or `consumer`.
pub const ENV_ROLE: &str = "FLUENCE_COORDINATION_ROLE";
/// Environment of consumers: the vendor's id of the task.
pub const ENV_QUANTUM_JOB_ID: &str = "FLUENCE_QUANTUM_JOB_ID";
/// Environment: the backend that was chosen.
pub const ENV_BACKEND: &str = "FLUXION_BACKEND";
/// Prefix of environment that carries an attribute of the chosen backend.
pub const ENV_ATTR_PREFIX: &str = "FLUXION_";
/// Scheduler that understands the qpu request by itself.
pub const FLUENCE_SCHEDULER: &str = "fluence";

// Ours: annotations and labels.

/// Annotation: release policy (`front`, `running`, `completed`, `position<=K`, `manual`).
pub const RELEASE: &str = "sluice.flux-framework.org/release";
/// Annotation: how many tasks must be ready before the release (default 1).
pub const TASKS: &str = "sluice.flux-framework.org/tasks";
/// Annotation: which tasks count (`device`, `qpu`, `any`).
pub const FOLLOW: &str = "sluice.flux-framework.org/follow";
/// Annotation: how the task is found (`auto`, `tap`, `announce`).
pub const DISCOVERY: &str = "sluice.flux-framework.org/discovery";
/// Annotation: whether live tasks are cancelled when the Job is deleted (`true` or `false`).
pub const CANCEL_ON_DELETE: &str = "sluice.flux-framework.org/cancel-on-delete";
/// Annotation: take up tasks of an earlier run.
pub const RESUME: &str = "sluice.flux-framework.org/resume";
/// Annotation: most that the tasks of the Job may cost by list prices, in US dollars.
pub const MAX_COST: &str = "sluice.flux-framework.org/max-cost";
/// Annotation: what happens with a task on another QPU than the backend (`warn`, `refuse`).
pub const MISMATCH: &str = "sluice.flux-framework.org/mismatch";
/// Annotation: how a backend is chosen.
pub const POLICY: &str = "sluice.flux-framework.org/policy";
/// Label on pods that we shaped: `producer`, `consumer` or `single`.
pub const ROLE: &str = "sluice.flux-framework.org/role";
/// Annotation: what the Job webhook decided; see [`crate::stamp::Stamp`].
pub const STAMP: &str = "sluice.flux-framework.org/stamp";
/// Annotation: all task ids known at the release, comma-separated.
pub const QUANTUM_JOB_IDS: &str = "sluice.flux-framework.org/quantum-job-ids";
/// Annotation: the qpu request that was taken off a pod, `container=quantity` pairs.
pub const QPU_REQUEST: &str = "sluice.flux-framework.org/qpu-request";
/// Annotation: why a pod is not tapped; the sidecar logs it and asks for announcements.
pub const NOT_TAPPED: &str = "sluice.flux-framework.org/not-tapped";
/// Label on Jobs that we stamped; the keeper selects by it.
pub const JOB_LABEL: &str = "sluice.flux-framework.org/quantum";
/// Value of [`JOB_LABEL`].
pub const JOB_LABEL_VALUE: &str = "true";
/// Label on objects that the keeper makes.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_VALUE: &str = "sluice";
/// Our scheduling gate, unless the configuration names another.
pub const GATE: &str = "sluice.flux-framework.org/queue";

// Ours: environment.

/// Environment of consumers: all task ids known at the release, comma-separated.
pub const ENV_QUANTUM_JOB_IDS: &str = "SLUICE_QUANTUM_JOB_IDS";
/// Environment of producers and singles: the sidecar's address for announcements.
pub const ENV_URL: &str = "SLUICE_URL";
/// Environment of the sidecar: name of its gang; absent in bare pods, which derive it.
pub const ENV_GANG: &str = "SLUICE_GANG";
/// Environment of the sidecar: its pod's name.
pub const ENV_POD_NAME: &str = "SLUICE_POD_NAME";
/// Environment of the sidecar: its pod's uid.
pub const ENV_POD_UID: &str = "SLUICE_POD_UID";
/// Environment of the sidecar: its pod's namespace.
pub const ENV_NAMESPACE: &str = "SLUICE_NAMESPACE";
/// Environment of the sidecar: the stamp, by downward API.
pub const ENV_STAMP: &str = "SLUICE_STAMP";
/// Environment of the sidecar: `producer` or `single`.
pub const ENV_SIDECAR_ROLE: &str = "SLUICE_ROLE";
/// Environment of the sidecar: why the program is not tapped, if it is not.
pub const ENV_NOT_TAPPED: &str = "SLUICE_NOT_TAPPED";
/// Prefix under which the user's own value of a replaced endpoint variable is handed to the
/// sidecar: `SLUICE_UPSTREAM_BRAKET_ENDPOINT` and so on.
pub const ENV_UPSTREAM_PREFIX: &str = "SLUICE_UPSTREAM_";
/// Environment of the sidecar: the resources of QRMI that the program can reach, as a JSON list of
/// [`Resource`](crate::resource::Resource)s.
pub const ENV_RESOURCES: &str = "SLUICE_RESOURCES";
/// Environment that a user may set on the qpu container: what the sidecar logs, as directives.
pub const ENV_LOG: &str = "SLUICE_LOG";
/// Environment that a user may set on the qpu container: `text` or `json` lines of the sidecar.
pub const ENV_LOG_FORMAT: &str = "SLUICE_LOG_FORMAT";
/// Environment of the sidecar: name of the container whose program is followed.
pub const ENV_QPU_CONTAINER: &str = "SLUICE_QPU_CONTAINER";

// Endpoint variables of the Braket SDKs, strongest first.

/// Read by amazon-braket-sdk alone; beats all others.
pub const ENV_BRAKET_ENDPOINT: &str = "BRAKET_ENDPOINT";
/// Read by every current AWS SDK for the Braket service.
pub const ENV_AWS_ENDPOINT_URL_BRAKET: &str = "AWS_ENDPOINT_URL_BRAKET";
/// Read by every current AWS SDK for any service.
pub const ENV_AWS_ENDPOINT_URL: &str = "AWS_ENDPOINT_URL";

// The sidecar in the pod.

/// Container name of the sidecar.
pub const SIDECAR_CONTAINER: &str = "sluice-sidecar";
/// Volume that carries the sidecar's own service account token.
pub const TOKEN_VOLUME: &str = "sluice-token";
/// Where the sidecar's token is mounted (the default path, so that the `ServiceAccount` plugin
/// adds nothing).
pub const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Loopback port of the sidecar's own API (announce, state).
pub const CONTROL_PORT: u16 = 8730;
/// Loopback port of the Braket tap.
pub const TAP_PORT: u16 = 8731;

// Names that Kubernetes gives.

/// Annotation and label: completion index of a pod of an Indexed Job.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Label: uid of the Job that made the pod.
pub const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
/// Label: name of the Job that made the pod.
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Key in `userInfo.extra` of a token that is bound to a pod.
pub const EXTRA_POD_UID: &str = "authentication.kubernetes.io/pod-uid";

// Conditions of a gang.

/// Condition: a task was submitted.
pub const CONDITION_SUBMITTED: &str = "Submitted";
/// Condition: the followed task is at the front of the vendor's queue.
pub const CONDITION_AT_FRONT: &str = "AtFront";
/// Condition: the gates were ordered open and every expected consumer is open.
pub const CONDITION_RELEASED: &str = "Released";
/// Condition: something keeps the gang from going on; the message says what to do.
pub const CONDITION_STALLED: &str = "Stalled";

// Reasons of Events.

/// The gates were opened.
pub const EVENT_RELEASED: &str = "GatesOpened";
/// An order was given by a person.
pub const EVENT_RELEASED_BY_PERSON: &str = "ReleasedByPerson";
/// The producer ended well before the policy was met.
pub const EVENT_PRODUCER_SUCCEEDED: &str = "ProducerSucceeded";
/// The producer failed for good and the consumers start without a task.
pub const EVENT_PRODUCER_FAILED: &str = "ProducerFailed";
/// The producer ended while its task was still queued.
pub const EVENT_PRODUCER_LEFT_EARLY: &str = "ProducerLeftEarly";
/// A quantum Job was created before the webhook was ready.
pub const EVENT_NOT_STAMPED: &str = "NotStamped";
/// An object of the gang's name belongs to somebody else.
pub const EVENT_NAME_TAKEN: &str = "NameTaken";
/// A released pod is held by another gate.
pub const EVENT_FOREIGN_GATE: &str = "HeldByAnotherGate";
/// A released pod cannot be scheduled.
pub const EVENT_UNSCHEDULABLE: &str = "ReleasedUnschedulable";
/// A task went back to waiting after the release.
pub const EVENT_QUEUED_AFTER_RELEASE: &str = "QueuedAfterRelease";
/// A task was found.
pub const EVENT_TASK_FOUND: &str = "TaskFound";
/// A program that was started again has submitted anew, while a task of its earlier run lives.
pub const EVENT_EARLIER_TASK_LIVES: &str = "EarlierTaskLives";
/// The vendor ended the task without a result.
pub const EVENT_TASK_FAILED: &str = "TaskFailed";
/// A task is on another QPU than the chosen backend.
pub const EVENT_BACKEND_MISMATCH: &str = "BackendMismatch";
/// The program is not tapped; the message says why and what to do.
pub const EVENT_NOT_TAPPED: &str = "NotTapped";

// Security.

/// Verb on `quantumgangs` that only the keeper's `ClusterRole` grants; policies know it by this.
pub const KEEPER_VERB: &str = "keep";
/// `ClusterRole` that pods with a gang get through one `RoleBinding` per namespace.
pub const GANG_ROLE: &str = "sluice-gang-member";
/// Name of that `RoleBinding`.
pub const GANG_ROLE_BINDING: &str = "sluice-gang-member";
