//! What the compute service tells of jobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::braket::api::values;
use crate::rest::compute::time_text;
use crate::rest::machines::{Job, Machines, Phase};
use crate::rest::{Answer, Request};

/// Most jobs that one list answers.
const PAGE: usize = 200;

/// A page of the jobs of an account.
pub(super) fn list(request: &Request<'_>, machines: &Machines, account: &str) -> Answer {
    let text = |name: &str| request.value(name);
    let number = |name: &str| text(name).and_then(|text| text.parse::<usize>().ok());
    let (limit, offset) =
        (number("limit").unwrap_or(PAGE).min(PAGE), number("offset").unwrap_or(0));
    let tags = values(request.query, "tags");
    let time = |name: &str| text(name).and_then(|text| text.parse::<Timestamp>().ok());
    let (after, before) = (time("created_after"), time("created_before"));
    let (backend, session) = (text("backend"), text("session_id"));
    let (program, pending) = (text("program"), text("pending"));
    let fits = |job: &&Job| {
        let of = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
        };
        let tagged = |tag: &String| {
            let own = job.request["tags"].as_array();
            own.is_some_and(|own| own.iter().any(|one| one == tag))
        };
        job.account == account
            && of(&backend, Some(&job.machine))
            && of(&session, job.group.as_deref())
            && of(&program, job.request["program_id"].as_str())
            && pending.as_deref().is_none_or(|wanted| (wanted == "true") != job.phase.ended())
            && after.is_none_or(|after| job.created >= after)
            && before.is_none_or(|before| job.created <= before)
            && tags.iter().all(tagged)
    };
    let mut all: Vec<_> = machines.jobs().filter(fits).collect();
    if text("sort").as_deref() == Some("ASC") {
        all.reverse();
    }
    let with_params = with_params(request);
    let page: Vec<_> =
        all.iter().skip(offset).take(limit).map(|job| shown(job, with_params)).collect();
    let body = json!({ "jobs": page, "count": all.len(), "limit": limit, "offset": offset });
    Answer::json(200, &body)
}

/// Whether a request asks for the input of jobs too.
pub(super) fn with_params(request: &Request<'_>) -> bool {
    request.value("exclude_params").as_deref() != Some("true")
}

/// A job as the API shows it.
pub(super) fn shown(job: &Job, with_params: bool) -> Value {
    let status = word(&job.phase);
    let reason = match &job.phase {
        Phase::Failed { reason } | Phase::Cancelled { reason } => Some(reason),
        _ => None,
    };
    json!({
        "id": job.id,
        "backend": job.machine,
        "status": status,
        "state": { "status": status, "reason": reason },
        "program": { "id": job.request["program_id"] },
        "created": time_text(job.created),
        "ended": job.ended.map(time_text),
        "cost": job.request["cost"].as_u64().unwrap_or(600),
        "tags": job.request["tags"].as_array().cloned().unwrap_or_default(),
        "session_id": job.group,
        "usage": usage(job),
        "estimated_running_time_seconds": 3.0,
        "params": if with_params { job.input.clone() } else { json!({}) },
        "user_id": job.account,
    })
}

/// When things happened to a job, and what it is charged.
pub(super) fn metrics(job: &Job) -> Value {
    json!({
        "timestamps": {
            "created": time_text(job.created), "running": job.started.map(time_text),
            "finished": job.ended.map(time_text),
        },
        "usage": usage(job),
    })
}

fn usage(job: &Job) -> Value {
    let seconds = charged(job);
    json!({
        "seconds": seconds, "qpu_charge_time_seconds": seconds,
        "status": if job.phase.ended() { "complete" } else { "pending" },
    })
}

/// Seconds that a job is charged: those that it ran, begun ones whole. Known once it has ended.
pub(super) fn charged(job: &Job) -> i64 {
    let (Some(started), Some(ended)) = (job.started, job.ended) else { return 0 };
    let ran = ended.duration_since(started);
    ran.as_secs() + i64::from(ran.subsec_nanos() > 0)
}

/// The vendor's word for a phase.
pub(super) fn word(phase: &Phase) -> &'static str {
    match phase {
        Phase::Waiting => "Queued",
        Phase::Running => "Running",
        Phase::Completed => "Completed",
        Phase::Failed { .. } => "Failed",
        Phase::Cancelled { .. } => "Cancelled",
    }
}
