//! One write for each step.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use sluice_shared::gang::{OwnerRef, QuantumGang, QuantumGangSpec};
use sluice_shared::{gate, names};

use crate::call::{CallError, within};
use crate::facts::gang::GangSeen;
use crate::facts::group::{GroupSeen, RawGroup};
use crate::facts::job::takes_along;
use crate::facts::version_of;

/// Finalizer by which the cluster protects a `PodGroup` that pods still name.
const GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
/// The version of the `PodGroup` whose minimum cannot be changed.
const RIGID_VERSION: &str = "v1alpha2";
/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "sluice-keeper";

/// What a write showed.
#[derive(Debug)]
pub(crate) enum Effect {
    /// The namespace has its `RoleBinding`.
    Bound,
    /// The gang as it is now.
    Gang(Box<GangSeen>),
    /// The gang with this uid is gone.
    NoGang(String),
    /// The `PodGroup` as it is now.
    Group(GroupSeen),
    /// A `PodGroup` was taken away, with this uid, and made again.
    GroupAgain(String, GroupSeen),
    /// The gate is off; the pod has this version.
    Opened(u64),
    /// The pod is gone, or another has its name.
    NoPod,
    /// The owner of a gang exists, though the keeper does not see it.
    OwnerFound,
    /// The object changed meanwhile or is gone: look again.
    Nothing,
}

/// The hands of the keeper: a client and a time limit for each call.
#[derive(Clone)]
pub(crate) struct Hands {
    pub client: Client,
    pub limit: Duration,
}

/// The gang that a step is about.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub namespace: String,
    pub name: String,
    /// Uid of the gang, empty while there is none.
    pub uid: String,
    pub owner: OwnerRef,
}

impl Hands {
    /// Gives the sidecars of the namespace the right to read and write their gangs.
    pub(crate) async fn bind(&self, namespace: &str) -> Result<Effect, CallError> {
        let api = Api::<RoleBinding>::namespaced(self.client.clone(), namespace);
        let (params, binding) = (PostParams::default(), mk_binding(namespace));
        let create = api.create(&params, &binding);
        match within(self.limit, "create the RoleBinding of the namespace", create).await {
            Err(error) if error.code() != Some(409) => Err(error),
            _ => Ok(Effect::Bound),
        }
    }

    /// Every `RoleBinding` of ours: namespace and uid.
    pub(crate) async fn bindings(&self) -> Result<Vec<(String, String)>, CallError> {
        let api = Api::<RoleBinding>::all(self.client.clone());
        let label = format!("{}={}", names::MANAGED_BY, names::MANAGED_BY_VALUE);
        let params = ListParams::default().labels(&label);
        let list = within(self.limit, "list RoleBindings", api.list_metadata(&params)).await?;
        let ours = list
            .items
            .into_iter()
            .filter(|b| b.metadata.name.as_deref() == Some(names::GANG_ROLE_BINDING));
        Ok(ours.filter_map(|b| Some((b.metadata.namespace?, b.metadata.uid?))).collect())
    }

    /// Takes the right away from a namespace that has had no gang for long.
    pub(crate) async fn unbind(&self, namespace: &str, uid: &str) -> Result<(), CallError> {
        let api = Api::<RoleBinding>::namespaced(self.client.clone(), namespace);
        let params = only(uid);
        let delete = api.delete(names::GANG_ROLE_BINDING, &params);
        gone_is_fine(within(self.limit, "delete an unused RoleBinding", delete).await)
    }

    /// Makes the gang, or reads the one that has the name.
    pub(crate) async fn make_gang(
        &self,
        target: &Target,
        spec: QuantumGangSpec,
    ) -> Result<Effect, CallError> {
        let api = self.gangs(target);
        let gang = mk_gang(target, spec);
        match within(self.limit, "create the gang", api.create(&PostParams::default(), &gang)).await
        {
            Ok(gang) => Ok(Effect::Gang(Box::new(GangSeen::of(gang)))),
            Err(error) if error.code() == Some(409) => self.read_gang(target).await,
            Err(error) => Err(error),
        }
    }

    /// Deletes a gang that has nothing to wait for, after a look at the live owner.
    pub(crate) async fn drop_gang(&self, target: &Target, uid: &str) -> Result<Effect, CallError> {
        if self.owner_exists(target).await? {
            return Ok(Effect::OwnerFound);
        }
        let api = self.gangs(target);
        let params = only(uid);
        let delete = api.delete(&target.name, &params);
        gone_is_fine(within(self.limit, "delete a gang without owner", delete).await)?;
        Ok(Effect::NoGang(uid.to_owned()))
    }

    /// Whether the owner is there, and not about to take its gang along.
    async fn owner_exists(&self, target: &Target) -> Result<bool, CallError> {
        let resource = if target.owner.kind == "Pod" {
            ApiResource::erase::<Pod>(&())
        } else {
            ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&())
        };
        let api = Api::<DynamicObject>::namespaced_with(
            self.client.clone(),
            &target.namespace,
            &resource,
        );
        let read = api.get_metadata_opt(&target.owner.name);
        let owner = within(self.limit, "read the owner of a gang", read).await?;
        let uid = Some(target.owner.uid.as_str());
        Ok(owner.is_some_and(|o| o.metadata.uid.as_deref() == uid && !takes_along(&o.metadata)))
    }

    /// Writes the status.
    pub(crate) async fn write_status(
        &self,
        target: &Target,
        patch: &Value,
    ) -> Result<Effect, CallError> {
        let api = self.gangs(target);
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let write = api.patch_status(&target.name, &params, &patch);
        match within(self.limit, "write the status of the gang", write).await {
            Ok(gang) => Ok(Effect::Gang(Box::new(GangSeen::of(gang)))),
            // The sidecar wrote in between, or the gang is gone.
            Err(error) if matches!(error.code(), Some(404 | 409)) => self.read_gang(target).await,
            Err(error) => Err(error),
        }
    }

    async fn read_gang(&self, target: &Target) -> Result<Effect, CallError> {
        let api = self.gangs(target);
        let gang = within(self.limit, "read the gang", api.get_opt(&target.name)).await?;
        Ok(gang.map_or_else(
            || {
                if target.uid.is_empty() {
                    Effect::Nothing
                } else {
                    Effect::NoGang(target.uid.clone())
                }
            },
            |gang| Effect::Gang(Box::new(GangSeen::of(gang))),
        ))
    }

    fn gangs(&self, target: &Target) -> Api<QuantumGang> {
        Api::namespaced(self.client.clone(), &target.namespace)
    }

    /// Makes the `PodGroup`, or reads the one that has the name.
    pub(crate) async fn make_group(
        &self,
        target: &Target,
        resource: &ApiResource,
        min: u32,
        priority_class: Option<&str>,
    ) -> Result<Effect, CallError> {
        let api = self.raw_groups(target, resource);
        let group = mk_group(target, resource, min, priority_class);
        let objects =
            Api::<DynamicObject>::namespaced_with(self.client.clone(), &target.namespace, resource);
        match within(
            self.limit,
            "create the PodGroup",
            objects.create(&PostParams::default(), &group),
        )
        .await
        {
            Ok(made) => Ok(Effect::Group(GroupSeen {
                place: crate::facts::Place::of(&made.metadata),
                min,
                owners: vec![target.owner.uid.clone()],
                deleting: false,
            })),
            Err(error) if error.code() == Some(409) => {
                let read =
                    within(self.limit, "read the PodGroup", api.get_opt(&target.name)).await?;
                Ok(read.map_or(Effect::Nothing, |g| Effect::Group(GroupSeen::of(&g))))
            }
            Err(error) => Err(error),
        }
    }

    /// Lowers the minimum of the `PodGroup`. Where the field cannot be changed the object is made
    /// again: its protection is for pods that wait, and these wait for the new one.
    pub(crate) async fn shrink_group(
        &self,
        target: &Target,
        resource: &ApiResource,
        uid: &str,
        min: u32,
        priority_class: Option<&str>,
    ) -> Result<Effect, CallError> {
        let api = self.raw_groups(target, resource);
        let read = within(self.limit, "read the PodGroup", api.get_opt(&target.name)).await?;
        let current = read.filter(|g| g.metadata.uid.as_deref() == Some(uid));
        let leaving = current.as_ref().is_some_and(|g| g.metadata.deletion_timestamp.is_some());
        if current.is_some() && !leaving && resource.version != RIGID_VERSION {
            let patch = Patch::Merge(json!({
                "metadata": {"uid": uid},
                "spec": {"schedulingPolicy": {"gang": {"minCount": min}}},
            }));
            let params = PatchParams::default();
            let write = api.patch(&target.name, &params, &patch);
            let group = within(self.limit, "lower minCount of the PodGroup", write).await?;
            return Ok(Effect::Group(GroupSeen::of(&group)));
        }
        if let Some(group) = current {
            let params = only(uid);
            let delete = api.delete(&target.name, &params);
            gone_is_fine(within(self.limit, "delete the PodGroup", delete).await)?;
            self.unprotect(&api, &group).await?;
        }
        match self.make_group(target, resource, min, priority_class).await? {
            Effect::Group(group) => Ok(Effect::GroupAgain(uid.to_owned(), group)),
            other => Ok(other),
        }
    }

    async fn unprotect(&self, api: &Api<RawGroup>, group: &RawGroup) -> Result<(), CallError> {
        let finalizers = group.metadata.finalizers.clone().unwrap_or_default();
        let others: Vec<String> =
            finalizers.into_iter().filter(|f| f != GROUP_PROTECTION).collect();
        let patch = Patch::Merge(json!({
            "metadata": {"uid": group.metadata.uid, "finalizers": others},
        }));
        let (name, params) =
            (group.metadata.name.clone().unwrap_or_default(), PatchParams::default());
        let write = api.patch(&name, &params, &patch);
        gone_is_fine(within(self.limit, "drop the protection of the PodGroup", write).await)
    }

    fn raw_groups(&self, target: &Target, resource: &ApiResource) -> Api<RawGroup> {
        Api::namespaced_with(self.client.clone(), &target.namespace, resource)
    }

    /// Opens one gate and hands over the task ids.
    pub(crate) async fn open(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
        gate_name: &str,
        ids: &[String],
    ) -> Result<Effect, CallError> {
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let patch = Patch::Strategic(gate::release_patch(uid, gate_name, ids));
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        // The answer without spec and status is a tenth of the whole pod.
        match within(self.limit, "open a gate", api.patch_metadata(pod, &params, &patch)).await {
            Ok(answer) => Ok(Effect::Opened(version_of(&answer.metadata))),
            Err(error) if error.code() == Some(404) => Ok(Effect::NoPod),
            // Another pod under this name is refused with the same code as a patch that a policy
            // does not like; only a look can tell.
            Err(error) if matches!(error.code(), Some(409 | 422)) => {
                let live = within(self.limit, "read a pod", api.get_metadata_opt(pod)).await?;
                let same = live.is_some_and(|p| p.metadata.uid.as_deref() == Some(uid));
                if same { Err(error) } else { Ok(Effect::NoPod) }
            }
            Err(error) => Err(error),
        }
    }
}

/// Deletes only the object with this uid.
fn only(uid: &str) -> DeleteParams {
    DeleteParams::background()
        .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None })
}

/// What is gone, or is another object by now, needs no deletion.
fn gone_is_fine<T>(result: Result<T, CallError>) -> Result<(), CallError> {
    match result {
        Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
        _ => Ok(()),
    }
}

fn mk_binding(namespace: &str) -> RoleBinding {
    RoleBinding {
        metadata: ObjectMeta {
            name: Some(names::GANG_ROLE_BINDING.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([managed_by()].into()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: names::GANG_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Group".to_owned(),
            name: format!("system:serviceaccounts:{namespace}"),
            namespace: None,
        }]),
    }
}

fn managed_by() -> (String, String) {
    (names::MANAGED_BY.to_owned(), names::MANAGED_BY_VALUE.to_owned())
}

/// The reference to the owner: neither controller nor blocking, so that no right on the owner's
/// finalizers is needed.
fn owner_reference(owner: &OwnerRef) -> OwnerReference {
    let api_version = if owner.kind == "Pod" { "v1" } else { "batch/v1" };
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}

fn mk_meta(target: &Target) -> ObjectMeta {
    // A label's value has at most 63 characters; a Job's name can be that long, a pod's longer.
    let name: String = target.owner.name.chars().take(63).collect();
    let label = (names::JOB_NAME.to_owned(), name.trim_end_matches(['-', '.', '_']).to_owned());
    let job = (target.owner.kind == "Job").then_some(label);
    ObjectMeta {
        name: Some(target.name.clone()),
        namespace: Some(target.namespace.clone()),
        labels: Some(job.into_iter().chain([managed_by()]).collect()),
        owner_references: Some(vec![owner_reference(&target.owner)]),
        ..ObjectMeta::default()
    }
}

fn mk_gang(target: &Target, spec: QuantumGangSpec) -> QuantumGang {
    QuantumGang { metadata: mk_meta(target), spec, status: None }
}

/// The `PodGroup`: one body fits every version.
fn mk_group(
    target: &Target,
    resource: &ApiResource,
    min: u32,
    priority_class: Option<&str>,
) -> DynamicObject {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min}}});
    if let Some(class) = priority_class {
        spec["priorityClassName"] = class.into();
    }
    let mut group = DynamicObject::new(&target.name, resource).data(json!({"spec": spec}));
    group.metadata = mk_meta(target);
    group
}
