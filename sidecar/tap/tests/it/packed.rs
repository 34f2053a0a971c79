//! Submissions that are compressed, as pasqal-cloud sends them, and those that cannot be read.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sluice_dialect::Submission;
use sluice_tap::{Endpoint, Guard, Refusal, Route, TapEvent};
use sluice_vendors::{Action, Ahead, Config, Fault, Running, Service, Stage};

use crate::bench::{Bench, Setup, emulator};

async fn vendor() -> Running {
    emulator(Config::for_testing().by_hand(Ahead { normal: 2, priority: 0 })).await
}

fn setup(vendor: &Running) -> Setup {
    let mut setup = Setup::to(&vendor.braket_url());
    let resource = "pasqal-cloud/EMU_FREE".parse().unwrap();
    let endpoint = Endpoint::parse(&vendor.url_of(Service::Pasqal));
    let endpoint = endpoint.map_err(|error| error.to_string());
    setup.config.resources.push(Route { resource, endpoint });
    setup
}

/// Sends a batch, packed, to the tap's origin, where the only resource is.
async fn send(vendor: &Running, bench: &Bench) -> Result<reqwest::Response, reqwest::Error> {
    let http = reqwest::Client::new();
    let user = json!({"username": "team", "password": "team-key"});
    let tokens = format!("{}/oauth/token", vendor.url_of(Service::Pasqal));
    let bought = http.post(tokens).json(&user).send().await.unwrap();
    let bought: Value = bought.json().await.unwrap();
    let batch = json!({
        "sequence_builder": "{}", "device_type": "EMU_FREE", "jobs": [{"runs": 30}, {"runs": 10}],
    });
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(batch.to_string().as_bytes()).unwrap();
    http.post(format!("{}/core-fast/api/v1/batches", bench.url()))
        .bearer_auth(bought["access_token"].as_str().unwrap())
        .header("content-encoding", "gzip")
        .body(zip.finish().unwrap())
        .send()
        .await
}

async fn submitted(bench: &mut Bench) -> Submission {
    bench
        .event_where(|event| match event {
            TapEvent::Submitted { submission, .. } => Some(submission.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_packed_submission_is_read() {
    let vendor = vendor().await;
    let mut bench = setup(&vendor).start().await;
    assert_eq!(send(&vendor, &bench).await.unwrap().status().as_u16(), 201);
    let read = submitted(&mut bench).await;
    assert_eq!((read.device.as_deref(), read.shots), (Some("EMU_FREE"), Some(40)));
}

#[tokio::test]
async fn one_that_is_too_large_to_be_read_is_told_of_all_the_same() {
    let vendor = vendor().await;
    let mut setup = setup(&vendor);
    setup.config.limits.plain = 8;
    let mut bench = setup.start().await;
    assert_eq!(send(&vendor, &bench).await.unwrap().status().as_u16(), 201);
    assert_eq!(submitted(&mut bench).await.shots, None);
    // Its answer is lost: there may be a task.
    let lost = Action::Close { when: Stage::After };
    vendor.add_fault(Fault::next(1, "pasqal:CreateBatch", lost));
    assert!(send(&vendor, &bench).await.is_err());
    let is_unknown =
        |event: &TapEvent| matches!(event, TapEvent::SubmissionUnknown { .. }).then_some(());
    bench.event_where(is_unknown).await;
    assert_eq!(vendor.jobs().len(), 4, "two batches of two jobs, none of them sent twice");
}

/// Lets everything pass that it can read.
struct Open;

impl Guard for Open {
    fn check<'a>(&'a self, _: &'a Submission) -> BoxFuture<'a, Result<(), Refusal>> {
        async { Ok(()) }.boxed()
    }

    fn refused(&self, _: &Submission) {}
}

#[tokio::test]
async fn nothing_that_cannot_be_read_passes_a_guard() {
    let vendor = vendor().await;
    for (plain, expected, jobs) in [(1 << 20, 201, 2), (8, 402, 2)] {
        let mut setup = setup(&vendor);
        setup.config.limits.plain = plain;
        setup.guard = Some(Arc::new(Open));
        let bench = setup.start().await;
        let answer = send(&vendor, &bench).await.unwrap();
        assert_eq!((answer.status().as_u16(), vendor.jobs().len()), (expected, jobs));
        let text = answer.text().await.unwrap();
        assert_eq!(text.contains("cannot read"), expected == 402, "{text}");
    }
}
