//! Admission: reviews of a 22 KB pod over TLS, against an empty handler on the same server.

mod empty;
mod load;
mod review;
mod server;

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;

use crate::row::{Goal, Rounds, Row};

use load::{Load, Measured};
use server::Server;

/// Rounds that are quoted.
const ROUNDS: usize = 7;
/// Reviews in flight.
const IN_FLIGHT: usize = 16;
/// How long a round is. Both arms get the same time, so that what else the machine does falls
/// upon both alike.
const ROUND: Duration = Duration::from_secs(2);
/// How long each arm runs before anything is measured: connections, caches, allocators.
const WARM_UP: Duration = Duration::from_secs(1);

/// Measures the rows of admission, one after another.
///
/// # Errors
/// If a server does not start, or an answer is not what it must be.
pub async fn measure(take: &mut impl FnMut(Row) -> Result<()>) -> Result<()> {
    let admission = review::admission()?;
    let reviews = review::reviews(&admission)?;
    let product = Server::start(sluice_webhook::http::router(admission)).await?;
    let empty = Server::start(empty::router()).await?;
    let roles = [
        ("consumer", "/admit/pods", reviews.consumer),
        ("producer", "/admit/pods", reviews.producer),
    ];
    for (role, path, review) in roles {
        let answer = product.ask(path, &review).await?;
        review::check(role, &answer)?;
        let product = product.load(path, review.clone(), answer)?;
        let floor = empty.load(path, review.clone(), empty.ask(path, &review).await?)?;
        let (rate, tail) =
            rounds(&product, &floor).await.with_context(|| format!("reviews of a {role}"))?;
        take(Row::of(
            &format!("admission_{role}_rate"),
            "reviews/s",
            &rate,
            Goal::ValueAbove(1000.0),
        )?)?;
        take(Row::of(&format!("admission_{role}_p99"), "ms", &tail, Goal::RatioAtMost(1.5))?)?;
    }
    Ok(())
}

/// Product and floor in turns: how many a second, and p99 in milliseconds.
async fn rounds(product: &Load, floor: &Load) -> Result<(Rounds, Rounds)> {
    let (mut rate, mut tail) = (Rounds::default(), Rounds::default());
    for load in [product, floor] {
        load.run(IN_FLIGHT, WARM_UP).await?;
    }
    for _ in 0..ROUNDS {
        let Measured { per_second, p99 } = product.run(IN_FLIGHT, ROUND).await?;
        rate.values.push(per_second);
        tail.values.push(p99);
        let Measured { per_second, p99 } = floor.run(IN_FLIGHT, ROUND).await?;
        rate.floors.push(per_second);
        tail.floors.push(p99);
    }
    Ok((rate, tail))
}

impl Server {
    fn load(&self, path: &str, review: Bytes, answer: Bytes) -> Result<Load> {
        Ok(Load { client: self.client(IN_FLIGHT)?, url: self.url(path), review, answer })
    }

    async fn ask(&self, path: &str, review: &Bytes) -> Result<Bytes> {
        let request = self.client(1)?.post(self.url(path)).body(review.clone());
        Ok(request.send().await?.error_for_status()?.bytes().await?)
    }
}
