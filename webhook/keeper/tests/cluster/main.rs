//! The keeper against a real API server, with real garbage collection and a real scheduler.
//!
//! The webhook has no part in this: the stories make Jobs and pods in the form that it gives them,
//! and write into `status.vendor` what the sidecar would. The Jobs are managed by hand
//! (`managedBy`), so that a story decides which pods exist.

mod cast;
mod fault;
mod stories;

use std::time::Duration;

use anyhow::Result;
use sluice_lab::{Lab, Options, cache};

/// Time for another test to give the machine free.
const PATIENCE: Duration = Duration::from_mins(20);

#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_keeps() -> Result<()> {
    let lab = Lab::up(Options {
        dir: Some(cache::root()?.join("lab-keeper")),
        fake_nodes: 2,
        patience: PATIENCE,
        ..Options::default()
    })
    .await?;
    cast::install(&lab).await?;
    stories::release(&lab).await?;
    stories::independent_and_bare(&lab).await?;
    stories::orders_of_the_keeper(&lab).await?;
    stories::withdrawn(&lab).await?;
    stories::unstamped(&lab).await?;
    stories::rough_api(&lab).await?;
    stories::late_member_of_a_group(&lab).await?;
    stories::speed(&lab).await?;
    stories::change_of_keepers(&lab).await?;
    lab.down().await?;
    Ok(())
}
