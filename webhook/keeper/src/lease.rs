//! Which replica acts: a Lease, renewed every second or so and given up at the end.
//!
//! The Lease keeps two keepers from doing the same work; it does not keep them apart for safety.
//! Every write of a keeper is idempotent and bound to a uid or a version, so two that act at once
//! do no harm.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::{CallError, within};
use crate::complaint::Complaint;

/// How the Lease is kept.
#[derive(Debug, Clone)]
pub(crate) struct LeaseConfig {
    pub namespace: String,
    pub name: String,
    /// Who holds it.
    pub identity: String,
    /// How long it lasts without renewal.
    pub duration: Duration,
    /// Time between two looks.
    pub pause: Duration,
}

/// What to do about the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// There is none.
    Create,
    /// It is ours.
    Renew,
    /// Nobody holds it, or its holder is silent.
    Take,
    /// Somebody else holds it.
    Wait,
}

/// Judges the Lease. `unchanged` is for how long this replica has seen it as it is: by its own
/// clock, so that clocks of different machines never meet.
fn judge(lease: Option<&Lease>, me: &str, unchanged: Duration) -> Claim {
    let Some(spec) = lease.map(|l| l.spec.clone().unwrap_or_default()) else {
        return Claim::Create;
    };
    let holder = spec.holder_identity.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
    if holder == me {
        Claim::Renew
    } else if holder.is_empty() || unchanged > Duration::from_secs(seconds) {
        Claim::Take
    } else {
        Claim::Wait
    }
}

/// The Lease as it is after the claim.
fn claimed(lease: Lease, config: &LeaseConfig, claim: Claim, now: Timestamp) -> Lease {
    let spec = lease.spec.unwrap_or_default();
    let taken = claim != Claim::Renew;
    let changes = spec.lease_transitions.unwrap_or(0);
    let seconds = i32::try_from(config.duration.as_secs().max(1)).unwrap_or(i32::MAX);
    Lease {
        metadata: lease.metadata,
        spec: Some(LeaseSpec {
            holder_identity: Some(config.identity.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: if taken { Some(MicroTime(now)) } else { spec.acquire_time },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(if taken { changes.saturating_add(1) } else { changes }),
            ..LeaseSpec::default()
        }),
    }
}

/// Keeps the Lease until `stop`, then gives it up. `leading` says whether this replica acts.
pub(crate) async fn hold(
    client: Client,
    config: LeaseConfig,
    leading: watch::Sender<bool>,
    stop: CancellationToken,
) {
    let mut holder = Holder {
        api: Api::namespaced(client, &config.namespace),
        config,
        known: None,
        renewed: None,
    };
    let mut complaint = Complaint::new();
    loop {
        match holder.look().await {
            Ok(leads) => {
                complaint.settle(|| "the Lease can be read and written again".to_owned());
                announce(&leading, leads);
            }
            Err(error) => {
                complaint.raise(|| {
                    format!(
                        "cannot keep Lease {}/{}, trying again without end: {error}",
                        holder.config.namespace, holder.config.name
                    )
                });
                // Silent for too long: another replica may have taken over by now.
                let trusted = holder.config.duration.mul_f32(0.8);
                if holder.renewed.is_none_or(|at| at.elapsed() > trusted) {
                    announce(&leading, false);
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(holder.config.pause) => {}
        }
    }
    let led = *leading.borrow();
    announce(&leading, false);
    if led && let Err(error) = holder.give_up().await {
        tracing::warn!("cannot give up the Lease, the next keeper waits until it ends: {error}");
    }
}

fn announce(leading: &watch::Sender<bool>, leads: bool) {
    let changed = leading.send_if_modified(|now| {
        let changed = *now != leads;
        *now = leads;
        changed
    });
    if changed {
        tracing::info!("{}", if leads { "this keeper acts" } else { "this keeper stands by" });
    }
}

struct Holder {
    api: Api<Lease>,
    config: LeaseConfig,
    /// The version that was seen last, and since when.
    known: Option<(String, Instant)>,
    renewed: Option<Instant>,
}

impl Holder {
    /// One look: reads the Lease and claims it if it may. Says whether this replica leads.
    async fn look(&mut self) -> Result<bool, CallError> {
        let limit = self.config.pause.max(Duration::from_secs(1));
        let read = within(limit, "read the Lease", self.api.get_opt(&self.config.name)).await?;
        let version = read.as_ref().and_then(|l| l.metadata.resource_version.clone());
        let version = version.unwrap_or_default();
        let since = match &self.known {
            Some((known, since)) if *known == version => *since,
            _ => Instant::now(),
        };
        self.known = Some((version, since));
        let claim = judge(read.as_ref(), &self.config.identity, since.elapsed());
        if claim == Claim::Wait {
            return Ok(false);
        }
        let now = Timestamp::now();
        let written = if let Some(lease) = read {
            let lease = claimed(lease, &self.config, claim, now);
            let params = PostParams::default();
            let write = self.api.replace(&self.config.name, &params, &lease);
            within(limit, "renew the Lease", write).await
        } else {
            let meta = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
            let lease = claimed(Lease { metadata: meta, spec: None }, &self.config, claim, now);
            let params = PostParams::default();
            within(limit, "create the Lease", self.api.create(&params, &lease)).await
        };
        match written {
            Ok(_) => {
                self.renewed = Some(Instant::now());
                Ok(true)
            }
            // Another replica was quicker.
            Err(error) if error.code() == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Leaves the Lease to whoever looks next.
    async fn give_up(&self) -> Result<(), CallError> {
        let limit = Duration::from_secs(2);
        let read = within(limit, "read the Lease", self.api.get_opt(&self.config.name)).await?;
        let ours = read.filter(|l| {
            l.spec.as_ref().and_then(|s| s.holder_identity.as_deref())
                == Some(self.config.identity.as_str())
        });
        let Some(mut lease) = ours else { return Ok(()) };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        let params = PostParams::default();
        let write = self.api.replace(&self.config.name, &params, &lease);
        within(limit, "give up the Lease", write).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_lease(holder: &str) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.into()),
                lease_duration_seconds: Some(5),
                lease_transitions: Some(3),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn the_table_of_claims() {
        let rows = [
            ("none", None, 0, Claim::Create),
            ("ours", Some("me"), 0, Claim::Renew),
            ("ours, long ago", Some("me"), 60, Claim::Renew),
            ("given up", Some(""), 0, Claim::Take),
            ("held", Some("other"), 4, Claim::Wait),
            ("just over", Some("other"), 6, Claim::Take),
        ];
        for (name, holder, unchanged, expected) in rows {
            let lease = holder.map(mk_lease);
            let claim = judge(lease.as_ref(), "me", Duration::from_secs(unchanged));
            assert_eq!(claim, expected, "{name}");
        }
        assert_eq!(judge(Some(&Lease::default()), "me", Duration::ZERO), Claim::Take);
    }

    #[test]
    fn only_a_change_of_hands_counts_as_one() {
        let config = LeaseConfig {
            namespace: "n".into(),
            name: "l".into(),
            identity: "me".into(),
            duration: Duration::from_secs(5),
            pause: Duration::from_secs(1),
        };
        let spec =
            |claim| claimed(mk_lease("other"), &config, claim, Timestamp::UNIX_EPOCH).spec.unwrap();
        assert_eq!(spec(Claim::Renew).lease_transitions, Some(3));
        let taken = spec(Claim::Take);
        assert_eq!(taken.lease_transitions, Some(4));
        assert_eq!(taken.holder_identity.as_deref(), Some("me"));
        assert!(taken.acquire_time.is_some());
    }
}
