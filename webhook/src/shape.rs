//! The shapes of pods. Everything is appended, but for a short list that is replaced in place:
//! the qpu request, `schedulingGroup`, priority, the role variable, and endpoint and `NO_PROXY`
//! variables of the tap. Doing it again changes nothing, and repairs what others stripped.

pub mod consumer;
pub mod credentials;
pub mod env;
pub mod producer;
pub mod resources;
pub mod sidecar;
pub mod tap;

use k8s_openapi::api::core::v1::{Container, Pod};
use sluice_shared::names;
use sluice_shared::naming::attr_env;
use sluice_shared::role::Role;

use crate::ask::Annotations;
use crate::warning::Warning;

/// The label that marks the pod as shaped, and by which the keeper finds it.
fn label(pod: &mut Pod, role: Role) {
    pod.metadata
        .labels
        .get_or_insert_default()
        .insert(names::ROLE.to_owned(), role.as_str().to_owned());
}

/// Tells the program its role, in every container. The role decides who pays: a value that the
/// user copied from somewhere is replaced, and the user is told.
fn tell_role(container: &mut Container, role: Role, warnings: &mut Vec<Warning>) {
    let entries = container.env.get_or_insert_default();
    let wanted = env::value(names::ENV_ROLE, role.for_program());
    if let Some(old) = env::get(entries, names::ENV_ROLE).filter(|e| **e != wanted) {
        warnings.push(Warning::RoleReplaced {
            container: container.name.clone(),
            value: old.value.clone().unwrap_or_else(|| "a reference".to_owned()),
        });
    }
    env::set(entries, wanted);
}

/// Tells the program the chosen backend and its attributes, unless the user did.
fn tell_backend(container: &mut Container, backend: Option<&str>, annotations: &Annotations) {
    let entries = container.env.get_or_insert_default();
    if let Some(backend) = backend {
        env::add(entries, env::value(names::ENV_BACKEND, backend));
    }
    for (key, value) in annotations {
        if let Some(attribute) = key.strip_prefix(names::ATTR_PREFIX) {
            env::add(entries, env::value(&attr_env(attribute), value));
        }
    }
}
