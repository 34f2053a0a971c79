//! The reads through `aws-sdk-braket`, answered by the emulator.

use aws_credential_types::Credentials;
use jiff::Timestamp;
use sluice_sidecar::vendor::braket::Braket;
use sluice_sidecar::vendor::credentials::Renewed;
use sluice_sidecar::vendor::{FailureKind, Vendor};
use sluice_vendors::{
    Action, Ahead, Config, DeviceChange, Emulator, Fault, Pretence, Running, Stage, StateChange,
    Status, StatusReason, Window,
};

use crate::worker::{GARNET, submit};

fn keys(id: &str, secret: &str) -> Renewed {
    Renewed::fixed(Credentials::new(id, secret, None, None, "test"))
}

async fn emulator() -> Running {
    Emulator::start(Config::for_testing().by_hand(Ahead { normal: 3, priority: 0 })).await.unwrap()
}

fn braket(vendor: &Running) -> Braket {
    Braket::new(keys("AKIDEXAMPLE", "secret"), Some(vendor.braket_url()))
}

#[tokio::test]
async fn tasks_and_devices_are_read_as_they_are() {
    let vendor = emulator().await;
    let id = submit(&vendor.braket_url(), GARNET).await;
    let braket = braket(&vendor);
    let reading = braket.task(None, &id).await.unwrap();
    assert_eq!(reading.state.as_str(), "QUEUED");
    assert_eq!(reading.position.as_deref(), Some("4"));
    assert_eq!(reading.device.as_deref(), Some(GARNET));
    assert!(!reading.priority && reading.submitted_at.is_some());
    let change = DeviceChange { add_priority: Some(2), ..DeviceChange::default() };
    vendor.change_device("Garnet", change).unwrap();
    let device = braket.device(None, GARNET, &id).await.unwrap();
    assert_eq!((device.status.as_str(), device.priority_queue), ("ONLINE", Some(2)));
    let change = DeviceChange { status: Some(Status::Paused), ..DeviceChange::default() };
    vendor.change_device("Garnet", change).unwrap();
    // The SDK does not know the word; it comes through all the same.
    let paused = braket.device(None, GARNET, &id).await.unwrap();
    assert_eq!((paused.status.as_str(), paused.reason), ("PAUSED", None));
    // Nor does it know the reason.
    let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let status_reason = StatusReason {
        reason: "MAINTENANCE".into(),
        started_at: Some(now),
        estimated_end_at: Some("2026-11-30T14:00:00Z".parse().unwrap()),
    };
    let window = Window {
        execution_day: "Weekdays".into(),
        window_start_hour: "09:00".into(),
        window_end_hour: "19:00:00".into(),
    };
    let change = DeviceChange {
        status_reason: Some(status_reason),
        windows: Some(vec![window]),
        ..DeviceChange::default()
    };
    vendor.change_device("Garnet", change).unwrap();
    let device = braket.device(None, GARNET, &id).await.unwrap();
    let told = device.rests(now).unwrap().sentence("iqm Garnet", now);
    assert_eq!(told, "iqm Garnet is in maintenance until 14:00 UTC");
    assert_eq!(device.windows.len(), 1);
    let change = DeviceChange { status: Some(Status::Online), ..DeviceChange::default() };
    vendor.change_device("Garnet", change).unwrap();
    let online = braket.device(None, GARNET, &id).await.unwrap();
    assert_eq!(online.rests(now), None);
    let evening: Timestamp = "2026-11-30T20:00:00Z".parse().unwrap();
    let told = online.rests(evening).unwrap().sentence("iqm Garnet", evening);
    assert_eq!(told, "iqm Garnet is outside its window until 2026-12-01 09:00 UTC");
}

#[tokio::test]
async fn odd_words_of_the_vendor_come_through() {
    let vendor = emulator().await;
    let id = submit(&vendor.braket_url(), GARNET).await;
    let braket = braket(&vendor);
    let rows = [
        (Some("PONDERING"), Some("1"), false, "PONDERING", Some("1")),
        (None, Some(">2000"), false, "QUEUED", Some(">2000")),
        (None, Some("None"), false, "QUEUED", None),
        (None, None, true, "QUEUED", None),
    ];
    for (status, position, no_queue_info, state, expected) in rows {
        let pretend = Some(Pretence {
            status: status.map(str::to_owned),
            position: position.map(str::to_owned),
            message: None,
            no_queue_info,
        });
        vendor.change_state(&id, StateChange { pretend, ..StateChange::default() }).unwrap();
        let reading = braket.task(None, &id).await.unwrap();
        assert_eq!((reading.state.as_str(), reading.position.as_deref()), (state, expected));
    }
}

#[tokio::test]
async fn each_failure_is_told_apart() {
    let vendor = emulator().await;
    let id = submit(&vendor.braket_url(), GARNET).await;
    let ours = braket(&vendor);
    let error = |code: &str, retry_after: Option<&str>| Action::Error {
        code: code.into(),
        status: None,
        message: "as asked".into(),
        retry_after: retry_after.map(str::to_owned),
        when: Stage::Before,
    };
    let html = Action::Answer {
        status: 200,
        content_type: "text/html".into(),
        body: "<html>".into(),
        when: Stage::Before,
    };
    let rows = [
        (error("ThrottlingException", Some("7")), FailureKind::Throttled, Some(7)),
        (error("InternalServiceException", None), FailureKind::Away, None),
        (error("ExpiredTokenException", None), FailureKind::Expired, None),
        (error("AccessDeniedException", None), FailureKind::Denied, None),
        (error("ResourceNotFoundException", None), FailureKind::NotFound, None),
        (html, FailureKind::Away, None),
        (Action::Close { when: Stage::Before }, FailureKind::Away, None),
        (Action::Cut {}, FailureKind::Away, None),
    ];
    for (action, kind, retry_after) in rows {
        vendor.clear_faults();
        vendor.add_fault(Fault::next(1, "GetQuantumTask", action.clone()));
        let before = vendor.journal().len();
        let failure = ours.task(None, &id).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{action:?}: {failure}");
        assert_eq!(failure.retry_after.map(|r| r.as_secs()), retry_after, "{action:?}");
        assert!(!failure.message.is_empty());
        assert_eq!(vendor.journal().len(), before + 1, "no retry of its own: {action:?}");
    }
    let rows = [
        (keys("AKIDEXAMPLE", "wrong"), FailureKind::Denied),
        (keys("AKIDNOBODY", "wrong"), FailureKind::Denied),
        (keys("AKIDNORIGHTS", "no-rights-secret"), FailureKind::Denied),
    ];
    for (keys, kind) in rows {
        let braket = Braket::new(keys, Some(vendor.braket_url()));
        let failure = braket.task(None, &id).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    }
    let nowhere = Braket::new(keys("AKIDEXAMPLE", "secret"), Some("http://127.0.0.1:9".into()));
    let failure = nowhere.task(None, &id).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Away, "{failure}");
    let unknown =
        id.replace(id.rsplit('/').next().unwrap(), "00000000-0000-4000-8000-000000000000");
    let failure = ours.task(None, &unknown).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::NotFound, "{failure}");
}
