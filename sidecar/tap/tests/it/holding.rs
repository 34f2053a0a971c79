//! While the vendor is away, requests are held; no submission is made twice.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Answer;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use sluice_tap::TapEvent;
use sluice_vendors::{Action, Config, Emulator, Fault, Stage};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};

use crate::bench::{
    SV1, Setup, asked, emulator, free_address, interpreter, refusal, submit, until, user,
};

#[tokio::test]
async fn requests_wait_for_a_vendor_that_is_not_there_yet() {
    let address = free_address().await;
    let mut bench = Setup::to(&format!("http://{address}")).start().await;
    let client = bench.own();
    let held = tokio::spawn(async move { submit(&client, "t").await });
    let host = bench
        .event_where(|event| match event {
            TapEvent::UpstreamAway { host, .. } => Some(host.clone()),
            _ => None,
        })
        .await;
    assert_eq!(host, address.to_string());
    assert!(!held.is_finished());

    let config = Config { listen: address, ..Config::for_testing() };
    let vendor = Emulator::start(config.with_python(interpreter())).await.unwrap();
    let arn = held.await.unwrap().unwrap();
    assert_eq!(vendor.tasks().len(), 1);
    assert_eq!(vendor.tasks()[0].arn, arn);
    bench.event_where(|event| matches!(event, TapEvent::UpstreamBack { .. }).then_some(())).await;
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_token_and_makes_one_task() {
    let vendor = emulator(Config::for_testing()).await;
    let mut setup = Setup::to(&vendor.braket_url());
    setup.config.limits.answer_time = Duration::from_millis(300);
    let mut bench = setup.start().await;
    for (count, (name, action)) in [
        ("closed after the work", Action::Close { when: Stage::After }),
        ("closed before the work", Action::Close { when: Stage::Before }),
        ("half an answer", Action::Cut {}),
        ("no answer", Action::Hang { ms: 60_000, when: Stage::After }),
    ]
    .into_iter()
    .enumerate()
    {
        vendor.add_fault(Fault::next(1, "CreateQuantumTask", action));
        let arn = submit(&bench.own(), name).await.unwrap();
        assert_eq!(vendor.tasks().len(), count + 1, "{name}: one more task");
        let entries: Vec<_> = vendor
            .journal()
            .into_iter()
            .filter(|entry| entry.client_token.as_deref() == Some(name))
            .collect();
        assert_eq!(entries.len(), 2, "{name}: sent twice");
        assert_eq!(entries[0].body_digest, entries[1].body_digest, "{name}");
        let told = bench
            .event_where(|event| match event {
                TapEvent::Submitted { task_id, .. } => Some(task_id.clone()),
                _ => None,
            })
            .await;
        assert_eq!(told, arn, "{name}");
    }
}

#[tokio::test]
async fn without_a_token_a_lost_answer_closes_the_connection() {
    let vendor = emulator(Config::for_testing()).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    vendor.add_fault(Fault::next(5, "CreateQuantumTask", Action::Close { when: Stage::After }));
    // The SDK fills an absent token in; an empty one is as good as none.
    let (status, ..) = submit(&bench.own(), "").await.unwrap_err();
    assert_eq!(status, 0, "closed without a status");
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 1);
    bench
        .event_where(|event| matches!(event, TapEvent::SubmissionUnknown { .. }).then_some(()))
        .await;
}

#[tokio::test]
async fn reads_and_cancels_are_held_through_gateway_errors_and_submissions_are_not() {
    let vendor = emulator(Config::for_testing()).await;
    let bench = Setup::to(&vendor.braket_url()).start().await;
    let away = |status| Action::Answer {
        status,
        content_type: "text/html".to_owned(),
        body: "away".to_owned(),
        when: Stage::Before,
    };
    vendor.add_fault(Fault::next(2, "GetDevice", away(503)));
    vendor.add_fault(Fault::next(1, "GetQuantumTask", away(502)));
    vendor.add_fault(Fault::next(1, "CancelQuantumTask", away(504)));
    let client = bench.own();
    client.get_device().device_arn(SV1).send().await.unwrap();
    assert_eq!(asked(&vendor, "GetDevice"), 3);
    let arn = submit(&client, "t").await.unwrap();
    client.get_quantum_task().quantum_task_arn(&arn).send().await.unwrap();
    client.cancel_quantum_task().quantum_task_arn(&arn).client_token("c").send().await.unwrap();
    assert_eq!(asked(&vendor, "CancelQuantumTask"), 2);

    vendor.add_fault(Fault::next(1, "CreateQuantumTask", away(503)));
    assert_eq!(submit(&client, "u").await.unwrap_err().0, 503);
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 2);
}

#[tokio::test]
async fn after_the_time_to_hold_the_program_gets_an_answer_that_its_sdk_repeats() {
    let address = free_address().await;
    let mut setup = Setup::to(&format!("http://{address}"));
    setup.config.hold = Duration::from_millis(700);
    let mut bench = setup.start().await;
    let start = Instant::now();
    let (status, code, message) = submit(&bench.own(), "t").await.unwrap_err();
    assert_eq!((status, code.as_str()), (503, "ServiceUnavailableException"));
    assert!(message.contains(&address.to_string()), "{message}");
    assert!(start.elapsed() >= Duration::from_millis(300), "it was held");
    let (status, message) = bench
        .event_where(|event| match event {
            TapEvent::SubmissionRefused { status, message, .. } => {
                Some((status.as_u16(), message.clone()))
            }
            _ => None,
        })
        .await;
    assert_eq!(status, 503);
    assert!(message.is_some());
    let error = bench.own().get_device().device_arn(SV1).send().await.unwrap_err();
    assert_eq!(refusal(&error).0, 503);
}

#[tokio::test]
async fn nothing_is_submitted_for_a_program_that_is_gone() {
    let address = free_address().await;
    let mut bench = Setup::to(&format!("http://{address}")).start().await;
    let client = bench.own();
    let held = tokio::spawn(async move { submit(&client, "t").await });
    bench.event_where(|event| matches!(event, TapEvent::UpstreamAway { .. }).then_some(())).await;
    held.abort();
    bench
        .event_where(|event| matches!(event, TapEvent::SubmissionRefused { .. }).then_some(()))
        .await;
    let config = Config { listen: address, ..Config::for_testing() };
    let vendor = Emulator::start(config.with_python(interpreter())).await.unwrap();
    bench.own().get_device().device_arn(SV1).send().await.unwrap();
    assert_eq!(asked(&vendor, "CreateQuantumTask"), 0);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_still_read() {
    let vendor = emulator(Config::for_testing()).await;
    let mut bench = Setup::to(&vendor.braket_url()).start().await;
    vendor.add_fault(Fault::next(1, "CreateQuantumTask", Action::Delay { ms: 300 }));
    let client = bench.own();
    let sent = tokio::spawn(async move { submit(&client, "t").await });
    // The fault is taken off the table when the request has arrived, before its delay.
    until("the vendor has the request", || vendor.faults().is_empty()).await;
    sent.abort();
    let told = bench
        .event_where(|event| match event {
            TapEvent::Submitted { task_id, .. } => Some(task_id.clone()),
            _ => None,
        })
        .await;
    assert_eq!(told, vendor.tasks()[0].arn);
}

/// A listener that accepts nothing and whose queue is full: connecting to it hangs.
async fn deaf_listener() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        waiting.push(connected.unwrap());
    }
    (address, (listener, waiting))
}

#[tokio::test]
async fn a_connection_that_never_comes_about_has_sent_nothing() {
    let (address, _keep) = deaf_listener().await;
    let mut setup = Setup::to(&format!("http://{address}"));
    setup.config.hold = Duration::from_secs(1);
    setup.config.limits.connect_time = Duration::from_millis(100);
    let bench = setup.start().await;
    // Without a token it would be closed, had it been taken for sent.
    assert_eq!(submit(&bench.own(), "").await.unwrap_err().0, 503);
    let left = bench.end().await;
    assert!(
        left.iter().any(|event| matches!(event, TapEvent::SubmissionRefused { .. })),
        "{left:?}"
    );
}

#[tokio::test]
async fn passing_trouble_with_credentials_is_waited_for_and_their_absence_is_not() {
    #[derive(Debug)]
    struct Source(AtomicU32, fn() -> CredentialsError);
    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> Answer<'a>
        where
            Self: 'a,
        {
            // Twice in trouble, then good.
            Answer::ready(match self.0.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Err((self.1)()),
                _ => Ok(user()),
            })
        }
    }
    let vendor = emulator(Config::for_testing()).await;
    let passing = || CredentialsError::provider_error("the token service is away");
    let absent = || CredentialsError::not_loaded("no source has any");
    for (error, status) in [(passing as fn() -> _, 200), (absent, 503)] {
        let source = SharedCredentialsProvider::new(Source(AtomicU32::new(0), error));
        let mut bench = Setup::to(&vendor.braket_url()).start_with(source).await;
        let answer = bench.own().get_device().device_arn(SV1).send().await;
        let message = match answer {
            Ok(_) => {
                assert_eq!(status, 200);
                continue;
            }
            Err(error) => refusal(&error),
        };
        assert_eq!((message.0, status), (503, 503));
        assert!(message.2.contains("no source has any"), "{}", message.2);
        assert!(message.2.contains("discovery: announce"), "{}", message.2);
        let TapEvent::NoCredentials { error, .. } = bench.event().await else {
            panic!("absent credentials are told")
        };
        assert!(error.contains("no source has any"), "{error}");
    }
}
