//! Requests to the vendors of QRMI, from the vendor port to their operations.

use std::sync::Arc;

use jiff::Timestamp;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{Performed, Request, Shared};
use crate::clock;
use crate::error::Service;
use crate::hub::{Call, Hub, Operation, Read, Reply};
use crate::journal::Entry;
use crate::signature::{Refusal, header, sha256_hex};

/// The request of a call, below the path of its vendor.
fn request<'a>(call: &'a Call, path: &'a str, arrived: Timestamp) -> Request<'a> {
    Request {
        method: call.method.as_str(),
        path,
        query: &call.query,
        headers: &call.headers,
        body: &call.body,
        arrived,
    }
}

impl Hub {
    /// Finds out what a request to a vendor of QRMI is; `None`: it is to none of them.
    pub(crate) fn read_rest(&self, call: &Call, now: Timestamp) -> Option<Read> {
        let state = &mut *self.lock();
        let (service, path) = state.vendors.of_path(&call.path)?;
        let (vendor, access) = state.vendors.of(service)?;
        let request = request(call, path, now);
        let operation = vendor.operation(&request);
        let entry = Entry {
            at: now,
            service: service.as_str().to_owned(),
            operation: operation.to_owned(),
            account: vendor.account(&request, access, now),
            user_agent: header(&call.headers, "user-agent").unwrap_or_default().to_owned(),
            method: call.method.to_string(),
            path: call.target(),
            body_digest: sha256_hex(&call.body),
            body_bytes: call.body.len(),
            ..Entry::default()
        };
        let fault = state.faults.strike(crate::fault::Target {
            operation,
            account: entry.account.as_deref(),
            access_key_id: None,
        });
        Some(Read {
            service,
            fault,
            latency: state.latency,
            entry,
            operation: Operation::Rest(operation),
            caller: Err(Refusal::Missing),
            region: String::new(),
        })
    }

    /// Does the work of such a request. `Err`: not before something moved, or that time came.
    fn perform_rest(
        &self,
        call: &Call,
        read: &mut Read,
        now: Timestamp,
    ) -> Result<Reply, Timestamp> {
        let state = &mut *self.lock();
        let (quotas, store) = (&mut state.quotas, &mut state.store);
        let Some((service, path)) = state.vendors.of_path(&call.path) else {
            return Ok(not_found(read.service, call));
        };
        let Some((vendor, access)) = state.vendors.of(service) else {
            return Ok(not_found(service, call));
        };
        let request = request(call, path, read.entry.at);
        let mut shared = Shared { access, quotas, store };
        let answer = match vendor.perform(&request, &mut shared, now) {
            Ok(Performed::Answer(answer)) => answer,
            Ok(Performed::Wait(until)) => return Err(until),
            Err(error) => return Ok(Reply::error(&error, read.service)),
        };
        read.entry.task_arn = answer.job;
        let mut headers = answer.headers;
        if !answer.body.is_empty() {
            headers.push(("content-type", answer.content_type.to_owned()));
        }
        headers.push(("x-request-id", Uuid::new_v4().to_string()));
        Ok(Reply { status: answer.status, headers, body: answer.body, error: None })
    }
}

fn not_found(service: Service, call: &Call) -> Reply {
    let text = format!("{} {} is not served", call.method, call.path);
    let error = crate::error::ApiError::new("not_found", text).with_status(404);
    Reply::error(&error, service)
}

/// Answers a request to a vendor of QRMI; a long poll once what it waits for is there.
pub(crate) async fn answer(
    hub: &Arc<Hub>,
    jobs: &TaskTracker,
    call: &Call,
    read: &mut Read,
) -> Reply {
    loop {
        // Registered before the look: what moves in between is not missed.
        let moved = hub.moved.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        clock::advance(hub, jobs);
        let now = Timestamp::now();
        match hub.perform_rest(call, read, now) {
            Ok(reply) => {
                if read.entry.method != "GET" {
                    hub.moved.notify_waiters();
                }
                return reply;
            }
            Err(until) => {
                let left = until.duration_since(now).try_into().unwrap_or_default();
                // Either way it is looked at again, and the vendor knows its own deadline.
                let _ = tokio::time::timeout(left, moved).await;
            }
        }
    }
}
