//! Starting a cluster: the machine, the files, the components, the node.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};

use crate::{
    command::blocking,
    components::{Component, Wishes},
    credentials,
    error::{Error, Result, make_dir, write},
    host, images,
    lab::client,
    layout::Layout,
    network::NODE_NAME,
    owner::{Owner, Turn},
    process::{self, Identity},
    programs::Programs,
    progress::Step,
    readiness::Probe,
    release::Release,
    settings,
    shutdown::sweep,
    wait::await_condition,
};

/// Takes the machine and prepares it, once no other cluster has it.
pub(crate) async fn take_machine(
    layout: &Layout,
    wishes: &Wishes,
    patience: Duration,
) -> Result<Turn> {
    let begun = Instant::now();
    let mut waiting: Option<Step> = None;
    loop {
        let turn = blocking(Turn::take).await?;
        let (place, wanted) = (layout.clone(), wishes.clone());
        let prepared = blocking(move || {
            let free = clear_stale()?;
            if free.is_none() {
                prepare(&place, &wanted)?;
            }
            Ok(free)
        })
        .await?;
        let Some(dir) = prepared else {
            if let Some(step) = waiting {
                step.done();
            }
            return Ok(turn);
        };
        let dir = dir.display();
        if begun.elapsed() >= patience {
            return Err(Error::Occupied(format!(
                "a cluster runs already, from {dir}, and there can be one at a time: stop it with `lab down --dir {dir}`"
            )));
        }
        drop(turn);
        waiting.get_or_insert_with(|| {
            Step::begin(format!("waiting for the cluster of {dir} to go"), true)
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Clears away a cluster that nobody uses any more. Returns the directory of one that is in use.
fn clear_stale() -> Result<Option<PathBuf>> {
    let Some(owner) = Owner::recorded() else { return Ok(None) };
    if owner.in_use() {
        return Ok(Some(owner.dir));
    }
    sweep(&Layout::of(Some(&owner.dir))?)?;
    Ok(None)
}

/// Writes all files of a new cluster, takes the machine and makes the networks.
fn prepare(layout: &Layout, wishes: &Wishes) -> Result<()> {
    sweep(layout)?;
    make_dir(layout.root())?;
    host::fresh_logs(layout)?;
    Owner { dir: layout.root().to_owned(), holder: Identity::own() }.record()?;
    host::prepare(layout)?;
    credentials::make(layout)?;
    write(&layout.wishes(), serde_json::to_vec(wishes).unwrap_or_default())?;
    let overlay = host::takes_overlay(layout.root());
    write(&layout.settings("containerd.toml"), settings::containerd(layout, overlay))?;
    write(&layout.settings("kubelet.json"), settings::kubelet(layout).to_string())?;
    write(&layout.cni().join("net.d/10-lab.conflist"), settings::cni(layout).to_string())?;
    make_dir(&layout.kubelet())
}

/// Starts all components and waits for the node.
pub(crate) async fn boot(
    layout: &Layout,
    programs: &Programs,
    release: &Release,
    wishes: &Wishes,
) -> Result<Client> {
    let probe = Probe::of(layout)?;
    let start = |component| launch(component, layout, programs, release, wishes);
    let ready = async |component: Component, identity: Identity| {
        let step = Step::begin(format!("starting {}", component.name()), false);
        probe.until_ready(component, &identity, layout).await?;
        step.done();
        Ok::<(), Error>(())
    };
    let containerd = start(Component::Containerd)?;
    ready(Component::Etcd, start(Component::Etcd)?).await?;
    ready(Component::ApiServer, start(Component::ApiServer)?).await?;
    ready(Component::Containerd, containerd).await?;
    images::load(layout, &images::pause(programs)).await?;
    let rest =
        [Component::ControllerManager, Component::Scheduler, Component::Proxy, Component::Kubelet];
    let mut waits = Vec::new();
    for component in rest {
        waits.push(ready(component, start(component)?));
    }
    try_join_all(waits).await?;
    let client = client(&layout.kubeconfig()).await?;
    let step = Step::begin("waiting for the node", false);
    let nodes: Api<Node> = Api::all(client.clone());
    await_condition(&nodes, NODE_NAME, "the node is ready", Duration::from_mins(2), is_ready)
        .await?;
    // Pods are refused until the controller manager has made this account.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let limit = Duration::from_mins(1);
    await_condition(&accounts, "default", "the default service account exists", limit, |_| true)
        .await?;
    step.done();
    Ok(client)
}

/// Is the node ready?
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

pub(crate) fn launch(
    component: Component,
    layout: &Layout,
    programs: &Programs,
    release: &Release,
    wishes: &Wishes,
) -> Result<Identity> {
    let launch = component.launch(layout, programs, release, wishes);
    let log = layout.log(component.name());
    let identity = process::spawn(&launch, &log, layout.root())?;
    process::remember(&layout.pid(component.name()), &identity)?;
    Ok(identity)
}
