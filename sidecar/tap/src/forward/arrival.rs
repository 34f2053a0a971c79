//! A request that arrives: its body within the budget, and whose it is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use aws_credential_types::Credentials;
use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use jiff::Timestamp;
use sluice_dialect::braket;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Forwarder;
use super::exchange::{LONGEST_PAUSE, pauses};
use crate::config::Target;
use crate::events::TapEvent;
use crate::headers::onward;
use crate::keys::NoCredentials;
use crate::operation::{Operation, Repeat};
use crate::signature::{Claim, Covered, verifies};
use crate::trust::{Key, Refusal, Verdict, is_of_a_role, judge};
use crate::{answer, upstream};

/// A request that was read and belongs to us.
pub(super) struct Accepted {
    pub(super) operation: Operation,
    pub(super) method: Method,
    pub(super) url: reqwest::Url,
    /// Raw path and query as the vendor sees them.
    pub(super) target_path: String,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) token: bool,
    pub(super) claim: Claim,
    pub(super) deadline: Instant,
    /// Cancelled when the program's connection is gone.
    pub(super) gone: CancellationToken,
    /// Part of the budget, given back with the request.
    _room: OwnedSemaphorePermit,
}

impl Forwarder {
    /// Reads the request and checks whose it is.
    pub(super) async fn accept(
        &self,
        operation: Operation,
        parts: Parts,
        body: Incoming,
        arrived: Instant,
        gone: CancellationToken,
    ) -> Result<Accepted, Box<Response<Body>>> {
        let deadline = arrived + self.config.hold;
        let (body, room) = self.read(&parts.headers, body, 0, deadline).await?;
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let covered = Covered {
            method: parts.method.as_str(),
            target: path,
            headers: &parts.headers,
            body: &body,
        };
        let claim = match Claim::of(&parts.headers) {
            Ok(claim) => claim,
            Err(error) => return Err(Box::new(self.refuse(&error.into(), None, None))),
        };
        let own = self.keys_like(&claim, deadline).await?;
        let caller = Key { id: &claim.key_id, has_token: claim.has_token };
        let ours = Key { id: own.access_key_id(), has_token: own.session_token().is_some() };
        let check = || verifies(covered, &claim, &own);
        match judge(caller, ours, is_of_a_role(&own), check) {
            Verdict::Verified => {}
            Verdict::SameSource => self.note_trusted(&claim.key_id, own.access_key_id()),
            Verdict::Refused(refusal) => {
                let refused = self.refuse(&refusal, Some(&claim.key_id), Some(own.access_key_id()));
                return Err(Box::new(refused));
            }
        }
        let target = self.config.upstream.target(&claim.region);
        let Some(url) = upstream::url(&target, path) else {
            return Err(Box::new(answer::not_forwardable(path)));
        };
        let token = operation.repeat() == Repeat::WithToken && braket::has_token(&body);
        Ok(Accepted {
            operation,
            url,
            target_path: format!("{}{path}", target.prefix),
            target,
            headers: onward(&parts.headers, operation.is_read()),
            method: parts.method,
            body,
            token,
            claim,
            deadline,
            gone,
            _room: room,
        })
    }

    /// Reads a body within the budget of all bodies, with room for `more` bytes that are made of it.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        more: usize,
        deadline: Instant,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Box<Response<Body>>> {
        let limits = &self.config.limits;
        let stated = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse::<usize>().ok());
        // Without a stated length room for the largest is taken, and the surplus given back:
        // two half-read bodies that both wait for more room would wait for ever.
        let size = match stated {
            Some(size) => size,
            None if hyper::body::Body::is_end_stream(&body) => 0,
            None => limits.body,
        };
        if size > limits.body {
            return Err(Box::new(answer::too_large(limits.body)));
        }
        let size = u32::try_from((size + more).min(limits.bodies)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.budget).acquire_many_owned(size);
        let Ok(Ok(mut room)) = timeout_at(deadline, room).await else {
            return Err(Box::new(answer::away(
                "The Sluice sidecar has too many large requests in flight; send fewer at a time.",
            )));
        };
        let read = timeout(limits.body_time, Limited::new(body, limits.body).collect()).await;
        let bytes = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(Box::new(answer::too_large(limits.body)));
            }
            Ok(Err(_)) => return Err(Box::new(answer::incomplete("the connection broke off"))),
            Err(_) => {
                let what = format!("not within {} s", limits.body_time.as_secs_f32());
                return Err(Box::new(answer::incomplete(&what)));
            }
        };
        let surplus = room.num_permits().saturating_sub(bytes.len() + more);
        drop(room.split(surplus));
        Ok((bytes, room))
    }

    async fn keys_like(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Credentials, Box<Response<Body>>> {
        let mut pauses = pauses();
        loop {
            let error = match self.keys.like(&claim.key_id).await {
                Ok(own) => {
                    if self.keyless.swap(false, Ordering::Relaxed) {
                        tracing::debug!(key = own.access_key_id(), "requests can be signed again");
                    }
                    return Ok(own);
                }
                Err(error) => error,
            };
            self.note_no_credentials(&error);
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            if !error.is_passing || Instant::now() + pause >= deadline {
                let message = format!(
                    "The Sluice sidecar cannot sign the request of the program (key {}): {error}. \
                     Give the qpu container its credentials by environment or service account, or \
                     set discovery: announce.",
                    claim.key_id
                );
                return Err(Box::new(answer::away(&message)));
            }
            sleep(pause).await;
        }
    }

    fn refuse(&self, refusal: &Refusal, caller: Option<&str>, own: Option<&str>) -> Response<Body> {
        let (status, kind, message) = refusal.answer();
        if self.is_news(&message) {
            tracing::debug!(caller, own, message, "a request was refused");
        }
        let response = answer::error(status, kind, &message);
        self.outbox.put(TapEvent::Refused {
            caller_key_id: caller.map(str::to_owned),
            own_key_id: own.map(str::to_owned),
            message,
            at: Timestamp::now(),
        });
        response
    }

    fn note_trusted(&self, caller: &str, own: &str) {
        if self.is_news(caller) {
            tracing::info!(
                caller,
                own,
                "requests signed with another session key are forwarded as the pod's role: program \
                 and sidecar each get keys of their own from its source"
            );
        }
    }

    /// Whether the log has not said this yet.
    fn is_news(&self, what: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Messages hold what callers sent and session keys change: the memory has an end.
        if said.len() >= 64 {
            said.clear();
        }
        said.insert(what.to_owned())
    }

    pub(super) fn note_no_credentials(&self, error: &NoCredentials) {
        if !self.keyless.swap(true, Ordering::Relaxed) {
            tracing::debug!(%error, "requests cannot be signed; check the credentials of the pod");
        }
        let (error, at) = (error.to_string(), Timestamp::now());
        self.outbox.put(TapEvent::NoCredentials { error, at });
    }
}
