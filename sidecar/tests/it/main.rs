//! The sidecar as a whole: its loop on a paused clock, its worker against the vendor emulator and
//! a double of the API server, its parent as real processes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod braket;
mod canary;
mod cluster;
mod ending;
mod gang;
mod hybrid;
mod network;
mod parent;
mod price;
mod programs;
mod quotas;
mod release;
mod resources;
mod resume;
mod sources;
mod watch;
mod worker;

use std::time::Duration;

use sluice_shared::role::Role;
use sluice_shared::stamp::Stamp;
use sluice_sidecar::args::{Config, PodArgs, PortArgs};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` gives something.
async fn await_some<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"))
}

fn mk_pod(role: Role, stamp: &Stamp, endpoint: &str) -> PodArgs {
    PodArgs {
        pod_name: Some("maxcut-0-abcde".into()),
        pod_uid: Some("pod-uid-1".into()),
        namespace: Some("ns".into()),
        gang: Some(cluster::GANG.into()),
        stamp: Some(stamp.to_annotation()),
        role: Some(role.as_str().into()),
        upstream_aws_endpoint_url_braket: Some(endpoint.into()),
        region: Some("us-east-1".into()),
        ..PodArgs::default()
    }
}

fn mk_config(role: Role, stamp: &Stamp, endpoint: &str) -> Config {
    let ports = PortArgs { control_port: 0, tap_port: 0 };
    Config::of(mk_pod(role, stamp, endpoint), ports).unwrap()
}
