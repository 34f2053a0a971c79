//! Whether the cluster still has gangs at all: a gang that goes with its type was not deleted for
//! itself.
//!
//! When the `CustomResourceDefinition` is deleted, the API server takes `create` out of the verbs
//! that it lists for the type, then deletes all objects, then forgets the type. So a gang that is
//! gone while gangs can still be created was deleted for itself. Every pod may read that list.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{Client, Resource};
use sluice_shared::gang::QuantumGang;
use tracing::debug;

/// An API server of several may list the old verbs this long.
pub const SETTLED: Duration = Duration::from_secs(1);
/// Time for one question.
const CALL: Duration = Duration::from_secs(3);

/// Whether the type stays, asked until the API server says so, [`SETTLED`] after the gang went.
pub async fn stays(client: Client) -> bool {
    let version = QuantumGang::api_version(&());
    loop {
        tokio::time::sleep(SETTLED).await;
        let list = tokio::time::timeout(CALL, client.list_api_group_resources(&version)).await;
        match list.as_ref().map(judge) {
            Ok(Some(stays)) => return stays,
            Ok(None) => debug!("the API server does not say which types it has: {list:?}"),
            Err(_) => debug!("the API server does not say in time which types it has"),
        }
    }
}

/// What the list of the group's types says; `None` when it says nothing. PURE.
#[must_use]
pub fn judge(list: &Result<APIResourceList, kube::Error>) -> Option<bool> {
    match list {
        Ok(list) => {
            let plural = QuantumGang::plural(&());
            let mut found = list.resources.iter().filter(|r| r.name == plural);
            Some(found.any(|r| r.verbs.iter().any(|verb| verb == "create")))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "it is one of the answers of the table")]
    fn mk_list(resources: &serde_json::Value) -> Result<APIResourceList, kube::Error> {
        Ok(serde_json::from_value(json!({
            "kind": "APIResourceList",
            "groupVersion": "sluice.flux-framework.org/v1alpha1",
            "resources": resources,
        }))
        .unwrap())
    }

    fn mk_type(name: &str, verbs: &[&str]) -> serde_json::Value {
        json!({"name": name, "singularName": "", "namespaced": true, "kind": "X", "verbs": verbs})
    }

    #[test]
    fn only_a_type_that_can_be_created_stays() {
        let gangs = "quantumgangs";
        let refused = |code| {
            let status = kube::core::Status::failure("no", "").with_code(code);
            Err(kube::Error::Api(Box::new(status)))
        };
        let rows = [
            (mk_list(&json!([mk_type(gangs, &["get", "list", "create"])])), Some(true)),
            (mk_list(&json!([mk_type(gangs, &["get", "list", "delete"])])), Some(false)),
            (
                mk_list(&json!([
                    mk_type(gangs, &["get", "list"]),
                    mk_type("quantumgangs/status", &["get", "patch"]),
                    mk_type("others", &["create"]),
                ])),
                Some(false),
            ),
            (mk_list(&json!([])), Some(false)),
            (refused(404), Some(false)),
            (refused(403), None),
            (refused(500), None),
        ];
        for (list, stays) in rows {
            assert_eq!(judge(&list), stays, "{list:?}");
        }
    }
}
