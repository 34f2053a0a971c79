//! A number of reviews at a time, each sent when one before it was answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::future::try_join_all;

use crate::statistics::percentile;

/// Fewer answers than this have no p99 that means anything.
const FEWEST: usize = 100;
/// More answers than this are not kept.
const MOST: usize = 200_000;

/// What is sent where, and what must come back.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) client: reqwest::Client,
    pub(super) url: String,
    pub(super) review: Bytes,
    /// Admission is pure, so every answer is this one.
    pub(super) answer: Bytes,
}

/// One round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Answers in a second.
    pub(super) per_second: f64,
    /// From the first byte sent to the last byte read, in milliseconds, of 99 in 100 reviews.
    pub(super) p99: f64,
}

impl Load {
    /// Sends reviews for `time`, `in_flight` at a time, at most [`MOST`] of them.
    pub(super) async fn run(&self, in_flight: usize, time: Duration) -> Result<Measured> {
        let left = Arc::new(AtomicUsize::new(MOST));
        let start = Instant::now();
        let senders = (0..in_flight).map(|_| {
            let (load, left) = (self.clone(), Arc::clone(&left));
            tokio::spawn(async move { load.send(&left, start, time).await })
        });
        let answers = try_join_all(senders).await.context("a sender broke")?;
        let seconds = start.elapsed().as_secs_f64();
        let mut times = Vec::new();
        for sent in answers {
            times.extend(sent?);
        }
        ensure!(
            times.len() >= FEWEST,
            "only {} reviews were answered by {} in {time:?}; is the machine overloaded?",
            times.len(),
            self.url
        );
        let p99 = percentile(&times, 99).context("no review was answered")?;
        let answered = u32::try_from(times.len()).context("too many reviews for one round")?;
        Ok(Measured { per_second: f64::from(answered) / seconds, p99 })
    }

    async fn send(&self, left: &AtomicUsize, start: Instant, time: Duration) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        let one_less = |n: usize| n.checked_sub(1);
        while start.elapsed() < time
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
        {
            let sent = Instant::now();
            let request = self.client.post(&self.url).body(self.review.clone());
            let answer = request.send().await?.error_for_status()?.bytes().await?;
            times.push(sent.elapsed().as_secs_f64() * 1000.0);
            ensure!(answer == self.answer, "{} gave two answers to one review", self.url);
        }
        Ok(times)
    }
}
