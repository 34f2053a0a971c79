//! What every vendor sends, as its clients were seen to read it.

use http::{Method, StatusCode};
use proptest::prelude::*;
use secrecy::ExposeSecret;
use sluice_shared::resource::{Service, TABLE};
use sluice_shared::task::{Position, TaskState};

use super::*;

const UUID: &str = "11111111-1111-1111-1111-111111111111";

fn request<'a>(method: &'a Method, path: &'a str, body: &'a str) -> Request<'a> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, q)| (path, Some(q)));
    Request { method, path, query, body: body.as_bytes() }
}

fn answer(status: u16, body: &str) -> Answer<'_> {
    Answer { status: StatusCode::from_u16(status).unwrap(), body: body.as_bytes() }
}

#[test]
fn every_service_of_the_table_has_a_dialect_of_its_own() {
    for row in &TABLE {
        assert_eq!(of(row.service).service(), row.service);
    }
}

#[test]
fn operations() {
    use Operation::{Cancel, CloseSession, OpenSession, Other, Poll, Submit};
    let id = || UUID.to_owned();
    for (service, method, path, expected) in [
        (Service::IqmServer, "POST", "/api/v1/jobs/garnet/circuit?tag=x", Submit),
        (Service::IqmServer, "GET", "/api/v1/jobs/ID?wait_until_terminal=true", Poll(id())),
        (Service::IqmServer, "POST", "/api/v1/jobs/ID/cancel", Cancel(id())),
        (Service::IqmServer, "GET", "/api/v1/jobs/ID/artifacts/measurements", Other),
        (Service::IqmServer, "GET", "/api/v1/quantum-computers/garnet/health", Other),
        (Service::IbmQuantumComputeService, "POST", "/jobs", Submit),
        (Service::IbmQuantumComputeService, "POST", "/v1/jobs", Submit),
        (Service::IbmQuantumComputeService, "GET", "/jobs/ID?exclude_params=true", Poll(id())),
        (Service::IbmQuantumComputeService, "GET", "/jobs?pending=true", Other),
        (Service::IbmQuantumComputeService, "GET", "/jobs/ID/results", Other),
        (Service::IbmQuantumComputeService, "POST", "/jobs/ID/cancel", Cancel(id())),
        (Service::IbmQuantumComputeService, "POST", "/sessions", OpenSession),
        (Service::IbmQuantumComputeService, "PATCH", "/sessions/ID", CloseSession(id())),
        (Service::IbmQuantumComputeService, "DELETE", "/sessions/ID/close", CloseSession(id())),
        (Service::IbmQuantumSystem, "POST", "/v1/jobs", Submit),
        (Service::IbmQuantumSystem, "GET", "/v1/jobs/ID", Poll(id())),
        (Service::IbmQuantumSystem, "POST", "/v1/jobs/ID/cancel", Cancel(id())),
        (Service::IbmQuantumSystem, "DELETE", "/v1/jobs/ID", Other),
        (Service::PasqalCloud, "POST", "/core-fast/api/v1/batches", Submit),
        (Service::PasqalCloud, "GET", "/core-fast/api/v2/batches/ID", Poll(id())),
        (Service::PasqalCloud, "PATCH", "/core-fast/api/v2/batches/ID/cancel", Cancel(id())),
        (Service::PasqalCloud, "GET", "/core-fast/api/v2/jobs/ID", Other),
        (Service::AliceBobFelis, "POST", "/v1/jobs/", Submit),
        (Service::AliceBobFelis, "POST", "/v1/jobs/ID/input", Other),
        (Service::AliceBobFelis, "GET", "/v1/jobs/ID", Poll(id())),
        (Service::AliceBobFelis, "DELETE", "/v1/jobs/ID", Cancel(id())),
    ] {
        let method: Method = method.parse().unwrap();
        let path = path.replace("ID", UUID);
        let found = of(service).operation(request(&method, &path, ""));
        assert_eq!(found, expected, "{service} {method} {path}");
    }
}

#[test]
fn the_words_of_the_vendors() {
    use TaskState::{Cancelled, Completed, Created, Failed, Queued, Running};
    let iqm = |word| format!(r#"{{"id": "{UUID}", "status": "{word}"}}"#);
    let service =
        |word| format!(r#"{{"id": "d1", "state": {{"status": "{word}"}}, "status": "{word}"}}"#);
    let system = |word| format!(r#"{{"id": "{UUID}", "status": "{word}"}}"#);
    let pasqal = |word| format!(r#"{{"data": {{"id": "b-1", "status": "{word}"}}}}"#);
    let felis = |word| {
        format!(r#"{{"id": "f-1", "events": [{{"type": "CREATED"}}, {{"type": "{word}"}}]}}"#)
    };
    let unknown = || TaskState::Unknown("pondering".to_owned());
    for (vendor, body, expected) in [
        (Service::IqmServer, iqm("waiting"), Queued),
        (Service::IqmServer, iqm("processing"), Running),
        (Service::IqmServer, iqm("completed"), Completed),
        (Service::IqmServer, iqm("failed"), Failed),
        (Service::IqmServer, iqm("cancelled"), Cancelled),
        (Service::IqmServer, iqm("pondering"), unknown()),
        (Service::IbmQuantumComputeService, service("Queued"), Queued),
        (Service::IbmQuantumComputeService, service("Running"), Running),
        (Service::IbmQuantumComputeService, service("Completed"), Completed),
        (Service::IbmQuantumComputeService, service("Cancelled"), Cancelled),
        (Service::IbmQuantumComputeService, service("Cancelled - Ran too long"), Cancelled),
        (Service::IbmQuantumComputeService, service("Failed"), Failed),
        (Service::IbmQuantumComputeService, service("pondering"), unknown()),
        (Service::IbmQuantumSystem, system("Running"), Running),
        (Service::IbmQuantumSystem, system("Completed"), Completed),
        (Service::PasqalCloud, pasqal("PENDING"), Queued),
        (Service::PasqalCloud, pasqal("RUNNING"), Running),
        (Service::PasqalCloud, pasqal("DONE"), Completed),
        (Service::PasqalCloud, pasqal("ERROR"), Failed),
        (Service::PasqalCloud, pasqal("TIMED_OUT"), Failed),
        (Service::PasqalCloud, pasqal("CANCELED"), Cancelled),
        (Service::PasqalCloud, pasqal("pondering"), unknown()),
        (Service::AliceBobFelis, felis("CREATED"), Created),
        (Service::AliceBobFelis, felis("FETCHING_INPUT"), Queued),
        (Service::AliceBobFelis, felis("COMPILING"), Queued),
        (Service::AliceBobFelis, felis("TRANSPILED"), Queued),
        (Service::AliceBobFelis, felis("EXECUTING"), Running),
        (Service::AliceBobFelis, felis("SUCCEEDED"), Completed),
        (Service::AliceBobFelis, felis("COMPILATION_FAILED"), Failed),
        (Service::AliceBobFelis, felis("pondering"), unknown()),
    ] {
        let facts = of(vendor).task("", answer(200, &body)).unwrap();
        assert_eq!(facts.state, expected, "{vendor} {body}");
        assert_eq!(of(vendor).task("", answer(500, &body)), None, "an error tells nothing");
    }
}

#[test]
fn only_iqm_tells_a_place() {
    let job = |place: &str| format!(r#"{{"id": "{UUID}", "status": "waiting", {place}}}"#);
    for (place, expected) in [
        (r#""queue_position": 3"#, Position::At(4)),
        (r#""queue_position": 0"#, Position::At(1)),
        (r#""queue_position": null"#, Position::Unknown),
        (r#""tag": null"#, Position::Unknown),
    ] {
        let facts = iqm::Iqm.task("", answer(200, &job(place))).unwrap();
        assert_eq!(facts.position, expected, "{place}");
        assert_eq!(Position::of(facts.position_text.as_deref()), expected, "{place}");
    }
    for row in &TABLE {
        let tells = of(row.service).abilities().position;
        assert_eq!(tells, row.service == Service::IqmServer, "{}", row.label);
    }
}

#[test]
fn who_tells_the_length_of_the_queue_declares_it() {
    let ok = |body| Some(answer(200, body));
    let pasqal = r#"{"data": [{"device_type": "d", "status": "UP", "length_queue": 4}]}"#;
    for (service, answers) in [
        (Service::IqmServer, vec![ok(r#"{"healthy": true}"#), ok(r#"{"queue_length": 4}"#)]),
        (Service::IbmQuantumComputeService, vec![ok(r#"{"status": "active", "length_queue": 4}"#)]),
        (Service::IbmQuantumSystem, vec![ok(r#"{"status": "online", "length_queue": 4}"#)]),
        (Service::PasqalCloud, vec![ok(pasqal)]),
        (Service::AliceBobFelis, vec![ok(r#"[{"name": "d", "length_queue": 4}]"#)]),
    ] {
        let dialect = of(service);
        assert_eq!(answers.len(), dialect.ask_device("d").len(), "{service}");
        let told = dialect.device("d", &answers).unwrap();
        assert_eq!(told.queue.is_some(), dialect.abilities().queue, "{service}");
    }
}

#[test]
fn why_a_task_ended() {
    for (service, body, expected) in [
        (
            Service::IqmServer,
            r#"{"id": "i", "status": "failed", "errors": [{"message": "no calibration"}]}"#,
            Some("no calibration"),
        ),
        (
            Service::IqmServer,
            r#"{"id": "i", "status": "completed", "messages": [{"message": "all well"}]}"#,
            None,
        ),
        (
            Service::IbmQuantumComputeService,
            r#"{"id": "d", "status": "Cancelled - Ran too long"}"#,
            Some("ran too long"),
        ),
        (
            Service::IbmQuantumComputeService,
            r#"{"id": "d", "state": {"status": "Failed", "reason": "Error code 8019; bad circuit"}}"#,
            Some("Error code 8019; bad circuit"),
        ),
        (
            Service::IbmQuantumSystem,
            r#"{"id": "s", "status": "Failed", "reason_code": 1517, "reason_message": "bad input"}"#,
            Some("bad input"),
        ),
        (
            Service::PasqalCloud,
            r#"{"data": {"id": "b", "status": "TIMED_OUT"}}"#,
            Some("timed out"),
        ),
        (
            Service::AliceBobFelis,
            r#"{"id": "f", "events": [{"type": "EXECUTION_FAILED"}], "errors": [{"message": "cold"}]}"#,
            Some("cold"),
        ),
    ] {
        let facts = of(service).task("", answer(200, body)).unwrap();
        assert_eq!(facts.failure_reason.as_deref(), expected, "{service} {body}");
    }
}

#[test]
fn equal_submissions_are_equal_whatever_differs_from_run_to_run() {
    let post = Method::POST;
    let digest = |service: Service, path: &str, body: &str| {
        of(service).submission(request(&post, path, body)).unwrap().digest
    };
    let service = Service::IbmQuantumComputeService;
    let one = digest(service, "/jobs", r#"{"backend": "b", "params": {}, "session_id": "s1"}"#);
    let two = digest(service, "/jobs", r#"{"session_id": "s2", "params": {}, "backend": "b"}"#);
    assert_eq!(one, two, "each run opens a session of its own");
    assert_ne!(one, digest(service, "/jobs", r#"{"backend": "c", "params": {}}"#));
    let shots = |params: &str| {
        let body = format!(r#"{{"backend": "b", "params": {params}}}"#);
        of(service).submission(request(&post, "/jobs", &body)).unwrap().shots
    };
    assert_eq!(shots(r#"{"shots": 7, "pubs": [["qpy", null, 10]]}"#), Some(7));
    assert_eq!(shots(r#"{"pubs": [["qpy", null, 10], ["qpy", null, 5]]}"#), Some(15));
    assert_eq!(shots(r#"{"pubs": [["qpy", null, 10], ["qpy"]]}"#), None);
    assert_eq!(shots("{}"), None);
    let iqm = |path| digest(Service::IqmServer, path, r#"{"circuits": [], "shots": 1}"#);
    assert_eq!(iqm("/api/v1/jobs/garnet/circuit"), iqm("/api/v1/jobs/garnet/circuit?tag=x"));
    assert_ne!(iqm("/api/v1/jobs/garnet/circuit"), iqm("/api/v1/jobs/emerald/circuit"));
}

#[test]
fn the_client_of_ibm_quantum_system_names_its_job_and_waits_at_the_door() {
    let system = of(Service::IbmQuantumSystem);
    let post = Method::POST;
    let body = format!(r#"{{"id": "{UUID}", "backend": "ibm_fez", "program_id": "sampler"}}"#);
    let submit = request(&post, "/v1/jobs", &body);
    assert_eq!(system.submission(submit).unwrap().client_token.as_deref(), Some(UUID));
    assert_eq!(system.accepted(submit, answer(204, "")).as_deref(), Some(UUID));
    let busy = r#"{"errors": [{"code": "1232", "message": "The maximum number of lanes"}]}"#;
    assert_eq!(system.accepted(submit, answer(429, busy)), None);
    assert_eq!(system.waits(answer(429, busy)).as_deref(), Some("all lanes are busy"));
    let reserved = r#"{"errors": [{"code": 1233, "message": "It is reserved."}]}"#;
    assert_eq!(system.waits(answer(423, reserved)).as_deref(), Some("It is reserved."));
    assert_eq!(system.waits(answer(423, "<html>")).as_deref(), Some("the machine is reserved"));
    assert_eq!(system.waits(answer(400, busy)), None);
}

#[test]
fn only_ibm_publishes_how_many_jobs_a_minute_it_takes() {
    for row in &TABLE {
        let dialect = of(row.service);
        let limits = row.service == Service::IbmQuantumComputeService;
        assert_eq!(dialect.is_rate_limit(answer(429, "{}")), limits, "{}", row.label);
        for status in [200, 400, 402, 403, 423, 503] {
            assert!(!dialect.is_rate_limit(answer(status, "{}")), "{} {status}", row.label);
        }
    }
}

#[test]
fn devices() {
    let ok = |body: &'static str| Some(answer(200, body));
    let iqm = of(Service::IqmServer);
    let told = iqm.device("g", &[ok(r#"{"healthy": true}"#), ok(r#"{"queue_length": 5}"#)]);
    assert_eq!(told.map(|d| (d.is_online, d.queue)), Some((true, Some(5))));
    let alone = iqm.device("g", &[ok(r#"{"healthy": false}"#), None]);
    assert_eq!(alone.map(|d| (d.is_online, d.queue)), Some((false, None)));
    assert_eq!(iqm.device("g", &[None, ok(r#"{"queue_length": 5}"#)]), None);
    let service = of(Service::IbmQuantumComputeService);
    for (body, expected) in [
        (r#"{"state": true, "status": "active", "length_queue": 4}"#, true),
        (r#"{"state": true, "status": "internal", "length_queue": 4}"#, false),
        (r#"{"state": false, "status": "maintenance", "length_queue": 4}"#, false),
    ] {
        let told = service.device("b", &[ok(body)]).unwrap();
        assert_eq!((told.is_online, told.queue), (expected, Some(4)), "{body}");
    }
    let system = of(Service::IbmQuantumSystem);
    let locked = system.device("b", &[ok(r#"{"status": "online", "locked": true}"#)]).unwrap();
    assert!(!locked.is_online);
    let pasqal = of(Service::PasqalCloud);
    let list = r#"{"data": [{"device_type": "FRESNEL", "status": "UP", "availability": "ACTIVE"},
                            {"device_type": "EMU_FREE", "status": "DOWN"}]}"#;
    assert!(pasqal.device("FRESNEL", &[ok(list)]).unwrap().is_online);
    assert!(!pasqal.device("EMU_FREE", &[ok(list)]).unwrap().is_online);
    assert_eq!(pasqal.device("OTHER", &[ok(list)]), None);
    let felis = of(Service::AliceBobFelis);
    let list = r#"[{"name": "EMU:1Q:LESCANNE_2020"}]"#;
    assert!(felis.device("EMU:1Q:LESCANNE_2020", &[ok(list)]).unwrap().is_online);
    assert!(!felis.device("QPU:1Q", &[ok(list)]).unwrap().is_online);
}

#[test]
fn ends() {
    let over = r#"{"error_code": "illegal_job_status", "message": "A job that is completed"}"#;
    for (service, status, body, expected) in [
        (Service::IqmServer, 403, over, Some(Ending::Over)),
        (Service::IqmServer, 403, r#"{"error_code": "forbidden"}"#, None),
        (Service::IbmQuantumSystem, 409, "{}", Some(Ending::Over)),
        (Service::IbmQuantumSystem, 204, "", Some(Ending::Ending(TaskState::Cancelled))),
        (Service::IbmQuantumComputeService, 500, "", None),
        (
            Service::PasqalCloud,
            200,
            r#"{"data": {"id": "b", "status": "DONE"}}"#,
            Some(Ending::Over),
        ),
        (Service::AliceBobFelis, 409, "{}", Some(Ending::Over)),
    ] {
        assert_eq!(of(service).cancelled(answer(status, body)), expected, "{service} {status}");
    }
}

#[test]
fn sessions_end_with_a_reason() {
    let service = of(Service::IbmQuantumComputeService);
    let open = r#"{"id": "s", "state": "active"}"#;
    assert_eq!(service.session_ended(answer(200, open)), None);
    let closed = r#"{"id": "s", "state": "closed", "state_reason": "max_ttl reached"}"#;
    assert_eq!(service.session_ended(answer(200, closed)).as_deref(), Some("max_ttl reached"));
    let silent = r#"{"id": "s", "state": "closed", "state_reason": null}"#;
    assert_eq!(service.session_ended(answer(200, silent)).as_deref(), Some("it was closed"));
}

#[test]
fn long_polls_are_waited_for() {
    let get = Method::GET;
    for (path, expected) in [
        ("/api/v1/jobs/x?wait_until_terminal=true&timeout_seconds=30", 30),
        ("/api/v1/jobs/x?wait_until_terminal=true&timeout_seconds=999999", 120),
        ("/api/v1/jobs/x?wait_until_terminal=false&timeout_seconds=30", 0),
        ("/api/v1/jobs/x", 0),
    ] {
        assert_eq!(iqm::Iqm.long_poll(request(&get, path, "")), expected, "{path}");
    }
}

#[test]
fn how_each_signs_in() {
    let has = |names: Vec<&'static str>| {
        move |name: &str| names.contains(&name).then(|| format!("value of {name}"))
    };
    let SignIn::Fixed(headers) = of(Service::IqmServer).sign_in(&has(vec!["QRMI_IQM_ISA_TOKEN"]))
    else {
        panic!("a token that is there needs no other")
    };
    assert_eq!(headers[0].1.expose_secret(), "Bearer value of QRMI_IQM_ISA_TOKEN");
    let fields = |names| match of(Service::PasqalCloud).sign_in(&has(names)) {
        SignIn::Token(call) => {
            let names: Vec<_> = call.fields.iter().map(|(name, _)| *name).collect();
            (call.json, names.join(" "))
        }
        other => panic!("{other:?}"),
    };
    let client = ["QRMI_PASQAL_CLOUD_CLIENT_ID", "QRMI_PASQAL_CLOUD_CLIENT_SECRET"];
    let user = ["PASQAL_USERNAME", "PASQAL_PASSWORD"];
    assert_eq!(
        fields(vec![client[0], client[1], user[0], user[1]]),
        (true, "audience grant_type client_id client_secret".to_owned())
    );
    assert_eq!(
        fields(vec![client[0], user[0], user[1]]),
        (false, "audience grant_type realm client_id username password".to_owned())
    );
    let none = of(Service::PasqalCloud).sign_in(&has(vec![user[0]]));
    assert!(matches!(none, SignIn::Nothing { wanted } if wanted.contains("PASQAL_PASSWORD")));
    for key in ["QRMI_IBM_QCS_IAM_APIKEY", "QRMI_IBM_QRS_IAM_APIKEY", "QISKIT_IBM_TOKEN"] {
        let found = of(Service::IbmQuantumComputeService)
            .sign_in(&|name| (name == key).then(|| "secret".to_owned()));
        let SignIn::Token(call) = &found else { panic!("{key} buys a token") };
        assert_eq!(call.url, "https://iam.cloud.ibm.com/identity/token");
        assert!(!format!("{found:?}").contains("secret"));
    }
    for row in &TABLE {
        let SignIn::Nothing { wanted } = of(row.service).sign_in(&|_| None) else {
            panic!("{} has no credentials", row.label)
        };
        assert!(row.variables.iter().any(|name| wanted.contains(name)), "{wanted}");
    }
}

proptest! {
    #[test]
    fn garbage_reads_as_nothing(body in ".*", status in 100_u16..600, path in "(/[a-z0-9]{0,6}){0,7}") {
        for row in &TABLE {
            let dialect = of(row.service);
            let answer = answer(status, &body);
            let request = request(&Method::POST, &path, &body);
            let _ = (dialect.operation(request), dialect.submission(request));
            let _ = (dialect.accepted(request, answer), dialect.task("", answer));
            let _ = (dialect.message(answer), dialect.waits(answer), dialect.cancelled(answer));
            let _ = dialect.device("d", &[Some(answer), None]);
            prop_assert!(!dialect.is_task_id("a/b") && !dialect.is_task_id(".."));
        }
    }
}
