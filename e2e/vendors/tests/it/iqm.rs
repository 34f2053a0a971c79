//! IQM Server, judged by QRMI.

use std::time::Duration;

use serde_json::{Value, json};
use sluice_vendors::{Action, Ahead, Config, Fault, Forced, Running, Service, Stage};

use crate::python::{emulator, without_simulator};
use crate::qrmi::Qrmi;

const TEAM: (&str, &str) = ("team", "team-key");

fn config() -> Config {
    let mut config = Config::for_testing().by_hand(Ahead { normal: 1, priority: 0 });
    // The client always polls for 30 s; a test has no such time.
    config.qrmi.long_poll_ms = 200;
    config
}

fn client(vendor: &Running, account: (&str, &str)) -> Qrmi {
    Qrmi::start(vendor, Service::Iqm, "garnet", "IQMServer", account)
}

/// Both qubits end in the same state, whichever it is.
fn bell() -> Value {
    let prx = |qubit: &str, angle: f64, phase: f64| json!({ "name": "prx", "locus": [qubit], "args": { "angle": angle, "phase": phase } });
    let half = std::f64::consts::FRAC_PI_2;
    // A Hadamard is a quarter turn about y and a half turn about x.
    let hadamard = |qubit| [prx(qubit, half, half), prx(qubit, 2.0 * half, 0.0)];
    let mut instructions = hadamard("QB1").to_vec();
    instructions.extend(hadamard("QB2"));
    instructions.push(json!({ "name": "cz", "locus": ["QB1", "QB2"], "args": {} }));
    instructions.extend(hadamard("QB2"));
    let measure = json!({ "name": "measure", "locus": ["QB1", "QB2"], "args": { "key": "m" } });
    instructions.push(measure);
    json!({ "circuits": [{ "name": "bell", "instructions": instructions }], "shots": 100 })
}

fn payload() -> Value {
    json!({
        "payload": "IQMServer", "iqmjson": bell().to_string(), "job_type": "circuit",
        "use_timeslot": false, "tag": "mytag",
    })
}

async fn shown(vendor: &Running, id: &str) -> Value {
    let url = format!("{}/api/v1/jobs/{id}", vendor.url_of(Service::Iqm));
    let asked = reqwest::Client::new().get(url).bearer_auth("team-key").send().await.unwrap();
    asked.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_runs_and_gives_its_result() {
    let vendor = emulator(config()).await;
    let mut client = client(&vendor, TEAM);
    let status = client.ask("status", json!([])).await;
    assert_eq!((&status["healthy"], &status["pending_job_count"]), (&json!(true), &json!(1)));

    let id = client.submit(&payload()).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let job = shown(&vendor, &id).await;
        seen.push((client.state(&id).await, job["status"].clone(), job["queue_position"].clone()));
        vendor.step(Some("iqm/garnet"), 1).await.unwrap();
    }
    assert_eq!(
        seen,
        [
            ("Queued".to_owned(), json!("waiting"), json!(1)),
            ("Queued".to_owned(), json!("waiting"), json!(0)),
            ("Running".to_owned(), json!("processing"), json!(null)),
        ]
    );
    assert_eq!(client.state(&id).await, "Completed");
    let result = client.ask("task_result", json!([id])).await;
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    let rows = result["measurements"][0]["m"].as_array().unwrap();
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| row[0] == row[1]), "{rows:?}");
    let counts = result["measurement_counts"][0]["counts"].as_object().unwrap();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["00", "11"]);
    assert_eq!(shown(&vendor, &id).await["tag"], "mytag");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_by_cancel_and_by_failure() {
    let vendor = without_simulator(config()).await;
    let mut client = client(&vendor, TEAM);
    let stopped = client.submit(&payload()).await;
    client.ask("task_stop", json!([stopped])).await;
    assert_eq!(client.state(&stopped).await, "Cancelled");
    let failed = client.submit(&payload()).await;
    vendor.force_job(&failed, Forced::Failed, "the fridge is warm").unwrap();
    assert_eq!(client.state(&failed).await, "Failed");
    assert_eq!(shown(&vendor, &failed).await["errors"][0]["message"], "the fridge is warm");
    assert!(vendor.force_job(&failed, Forced::Cancelled, "").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_ends_when_the_job_does() {
    let mut config = Config::for_testing().by_hand(Ahead::default());
    config.qrmi.long_poll_ms = 30_000;
    let vendor = emulator(config).await;
    let mut client = client(&vendor, TEAM);
    let id = client.submit(&payload()).await;
    client.send("task_status", json!([id])).await;
    // It is held open while the job waits and runs; nothing of it is in the journal yet.
    let held = async |state: &str| {
        vendor.until(Duration::from_secs(20), |vendor| vendor.jobs()[0].state == state).await
    };
    assert!(held("WAITING").await);
    vendor.step(Some("iqm/garnet"), 1).await.unwrap();
    assert!(held("RUNNING").await);
    assert_eq!(vendor.counts().get("iqm:GetJob 200"), None);
    vendor.step(Some("iqm/garnet"), 1).await.unwrap();
    assert_eq!(client.told().await, Ok(json!("Completed")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_named_and_others_see_no_jobs() {
    let vendor = without_simulator(config()).await;
    let (error, text) =
        client(&vendor, ("team", "wrong-key")).call("task_start", payload()).await.unwrap_err();
    assert!(error.contains("Authentication") && text.contains("unauthorized"), "{error}: {text}");
    assert_eq!(vendor.counts().get("iqm:SubmitJob 401"), Some(&1));

    let mut team = client(&vendor, TEAM);
    let id = team.submit(&payload()).await;
    let mut other = client(&vendor, ("other", "other-key"));
    let (error, _) = other.call("task_status", json!([id])).await.unwrap_err();
    assert!(error.contains("NotFound"), "{error}");
    assert!(vendor.revoke_key("team"));
    assert!(team.call("task_status", json!([id])).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_strike_as_they_do_at_braket() {
    let vendor = without_simulator(config()).await;
    let mut client = client(&vendor, TEAM);
    let next = |action| vendor.add_fault(Fault::next(1, "iqm:SubmitJob", action));
    next(Action::Error {
        code: "rate_limit_exceeded".into(),
        status: Some(429),
        message: "slow down".into(),
        retry_after: Some("7".into()),
        when: Stage::Before,
    });
    let (_, text) = client.call("task_start", payload()).await.unwrap_err();
    assert!(text.contains("429"), "{text}");
    assert_eq!(vendor.jobs(), []);
    next(Action::Close { when: Stage::After });
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.jobs().len(), 1, "the answer was lost, the job was made");
    next(Action::Hang { ms: 300, when: Stage::Before });
    assert!(client.call("task_start", payload()).await.is_err());
    next(Action::Cut {});
    assert!(client.call("task_start", payload()).await.is_err());
    assert_eq!(vendor.jobs().len(), 2);
    let struck: Vec<_> = vendor.journal().into_iter().map(|entry| entry.fault).collect();
    let struck: Vec<_> = struck.iter().flatten().map(String::as_str).collect();
    assert_eq!(struck, ["error", "close", "hang", "cut"]);
}
