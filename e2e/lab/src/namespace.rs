//! A namespace for one test, written down when the test fails and deleted in any case.

use std::path::{Path, PathBuf};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Namespace, Pod, ServiceAccount},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use crate::{
    error::{Error, Result, write},
    lab::{self, Lab},
    pods,
    wait::{await_condition, await_gone, yaml},
};

/// Objects of our own and of gangs, read without their types: they may not be served.
const DYNAMIC: &[(&str, &str, &str, &str)] = &[
    ("sluice.flux-framework.org", "v1alpha1", "QuantumGang", "quantumgangs"),
    ("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups"),
    ("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups"),
];
const LIMIT: Duration = Duration::from_mins(1);

/// A namespace that goes with its value.
///
/// Call [`TempNs::delete`] at the end of a test. If the value is dropped before, the test has
/// failed: pods with the logs of their containers, Jobs, gangs and events are written to files
/// first.
#[derive(Debug)]
pub struct TempNs {
    name: String,
    kubeconfig: PathBuf,
    dump: PathBuf,
    deleted: bool,
}

impl Lab {
    /// Makes a namespace `<prefix>-<random>`, ready for pods.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn namespace(&self, prefix: &str) -> Result<TempNs> {
        self.namespace_with(prefix, &[]).await
    }

    /// The same, with labels.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn namespace_with(&self, prefix: &str, labels: &[(&str, &str)]) -> Result<TempNs> {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{prefix}-{}", &random[..6]);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        namespace.metadata.labels = Some(
            labels
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>(),
        );
        let namespaces: Api<Namespace> = Api::all(self.kube());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(Error::kube(format!("create the namespace {name}")))?;
        let made = TempNs {
            dump: self.layout().logs().join("failed").join(&name),
            kubeconfig: self.kubeconfig(),
            name,
            deleted: false,
        };
        // Without these two pods are refused.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.kube(), made.name());
        await_condition(&accounts, "default", "the service account exists", LIMIT, |_| true)
            .await?;
        let maps: Api<ConfigMap> = Api::namespaced(self.kube(), made.name());
        let ca = "kube-root-ca.crt";
        await_condition(&maps, ca, "the certificate authority is there", LIMIT, |_| true).await?;
        Ok(made)
    }
}

impl TempNs {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is written down if the test fails.
    #[must_use]
    pub fn dump_folder(&self) -> &Path {
        &self.dump
    }

    /// Deletes the namespace and waits until it is gone.
    ///
    /// # Errors
    /// If that takes longer than a minute.
    pub async fn delete(mut self) -> Result<()> {
        self.deleted = true;
        let client = lab::client(&self.kubeconfig).await?;
        delete(&client, &self.name).await?;
        await_gone(&Api::<Namespace>::all(client), &self.name, LIMIT).await
    }

    /// Writes down what is in the namespace now.
    ///
    /// # Errors
    /// If files cannot be written. What cannot be read is left out.
    pub async fn dump(&self) -> Result<()> {
        dump(&lab::client(&self.kubeconfig).await?, &self.name, &self.dump).await
    }
}

impl Drop for TempNs {
    fn drop(&mut self) {
        if self.deleted {
            return;
        }
        let (name, folder) = (self.name.clone(), self.dump.clone());
        let kubeconfig = self.kubeconfig.clone();
        // A thread and a client of its own: the runtime of the test cannot be waited for here.
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let last_words = async {
                let client = lab::client(&kubeconfig).await?;
                dump(&client, &name, &folder).await?;
                eprintln!("the namespace {name} is written down in {}", folder.display());
                delete(&client, &name).await
            };
            let ended = runtime.block_on(async { tokio::time::timeout(LIMIT, last_words).await });
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("the namespace {name} is lost: {}", error.chain()),
                Err(_) => eprintln!("the namespace {name} is lost: the API does not answer"),
            }
        };
        let _ = std::thread::spawn(work).join();
    }
}

async fn delete(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deleted = namespaces.delete(name, &DeleteParams::default()).await;
    match deleted {
        Err(error) if !is_not_found(&error) => {
            Err(Error::kube(format!("delete the namespace {name}"))(error))
        }
        _ => Ok(()),
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

async fn dump(client: &Client, namespace: &str, folder: &Path) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    write_all::<Pod>(client, namespace, folder).await?;
    write_all::<Job>(client, namespace, folder).await?;
    write_all::<Event>(client, namespace, folder).await?;
    for &(group, version, kind, plural) in DYNAMIC {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        if let Ok(list) = api.list(&ListParams::default()).await
            && !list.items.is_empty()
        {
            write(&folder.join(format!("{plural}.yaml")), yaml(&list.items))?;
        }
    }
    let Ok(list) = pods.list(&ListParams::default()).await else { return Ok(()) };
    for pod in list.items {
        for container in containers(&pod) {
            let name = pod.name_any();
            for (previous, end) in [(false, "log"), (true, "previous.log")] {
                if let Ok(text) = pods::logs(&pods, &name, &container, previous).await {
                    write(&folder.join(format!("{name}.{container}.{end}")), text)?;
                }
            }
        }
    }
    Ok(())
}

async fn write_all<K>(client: &Client, namespace: &str, folder: &Path) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    match api.list(&ListParams::default()).await {
        Ok(list) => write(&folder.join(format!("{}.yaml", K::plural(&()))), yaml(&list.items)),
        Err(_) => Ok(()),
    }
}

fn containers(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let first = spec.init_containers.iter().flatten();
    first.chain(&spec.containers).map(|container| container.name.clone()).collect()
}
