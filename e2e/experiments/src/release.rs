//! Release: from an order to the last open gate, against the same patches sent bare.
//!
//! Both arms have pods that an Indexed Job made, behind the same gate, for a scheduler that does
//! not exist: what is measured is the opening of gates, not what a scheduler makes of them. Both
//! are timed by the same watch.

mod bare;
mod client;
mod cluster;
mod gang;
mod gates;
mod jobs;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::row::{Goal, Rounds, Row};

use cluster::Cluster;
use gang::Released;
use gates::Opened;

/// The longest wait for anything in a round.
const LIMIT: Duration = Duration::from_mins(2);
/// Consumers, rounds that are quoted.
const SIZES: [(u32, usize); 2] = [(7, 7), (99, 5)];
/// What a release may cost, measured in bare patches.
const GOAL: Goal = Goal::RatioAtMost(1.3);

/// Measures the rows of the release on a cluster of its own.
///
/// # Errors
/// If there is no cluster to be had, or a gang is not released.
pub async fn measure(take: &mut impl FnMut(Row) -> Result<()>) -> Result<()> {
    let cluster = Cluster::up().await?;
    let measured = sizes(&cluster, take).await;
    let measured = match measured {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(cluster.log().await)),
    };
    cluster.down().await.and(measured)
}

async fn sizes(cluster: &Cluster, take: &mut impl FnMut(Row) -> Result<()>) -> Result<()> {
    let namespace = cluster.namespace().await?;
    let prompt = cluster.prompt_client().await?;
    for (consumers, rounds) in SIZES {
        let name = format!("release_{consumers}");
        let mut times = Rounds::default();
        // The first round warms up: connections, caches, the schemas of the API server.
        for round in 0..=rounds {
            let what = || format!("{name}, round {round}");
            let gang =
                gang::release(cluster, namespace.name(), consumers).await.with_context(what)?;
            let bare = bare::release(cluster, &prompt, namespace.name(), consumers)
                .await
                .with_context(what)?;
            tell(&name, round, &gang, &bare);
            if round > 0 {
                times.values.push(milliseconds(gang.opened.last));
                times.floors.push(milliseconds(bare.last));
            }
        }
        take(Row::of(&name, "ms", &times, GOAL)?)?;
    }
    namespace.delete().await?;
    Ok(())
}

/// One line a round on the error stream, so that one sees where the time goes.
fn tell(name: &str, round: usize, gang: &Released, bare: &Opened) {
    let ms = milliseconds;
    let note = if round == 0 { ", warm-up" } else { "" };
    let _ = writeln!(
        io::stderr(),
        "{name}, round {round}{note}: {:.1} ms (taken up after {:.1}, the first gate after {:.1}); \
         bare {:.1} ms (the first gate after {:.1})",
        ms(gang.opened.last),
        ms(gang.taken_up),
        ms(gang.opened.first),
        ms(bare.last),
        ms(bare.first),
    );
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
