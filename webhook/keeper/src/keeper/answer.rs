//! What came back from writes.

use jiff::Timestamp;
use sluice_shared::gang::{KeeperOrder, QuantumGangStatus};
use tokio::time::Instant;

use super::{Keeper, Report};
use crate::act::Effect;
use crate::call::CallError;
use crate::desk::Desk;
use crate::metrics::{Outcome, WriteKind, WriteLabel};
use crate::world::Key;

impl Keeper {
    pub(super) fn take_report(&mut self, report: Result<Report, tokio::task::JoinError>) {
        match report {
            Ok(Report::Control { key, before, results }) => {
                if let Some(desk) = self.desks.get_mut(&key) {
                    desk.busy = false;
                }
                let mut failed = false;
                for (write, result) in results {
                    failed |= self.take_result(&key, write, before.as_deref(), result);
                }
                if let Some(desk) = self.desks.get_mut(&key) {
                    if failed { desk.pause.failed() } else { desk.pause.worked() }
                }
                self.dirty.insert(key);
            }
            Ok(Report::Gate { key, uid, gate, result }) => self.take_gate(key, &uid, &gate, result),
            Ok(Report::Told { key, event, result }) => {
                self.count(WriteKind::Event, &result);
                let Err(error) = result else { return };
                self.trouble.raise(|| format!("an Event is lost for now: {error}"));
                if let Some(desk) = key.and_then(|k| self.desks.get_mut(&k)) {
                    desk.told.remove(&event);
                }
            }
            Ok(Report::Bindings(Ok(list))) => self.take_bindings(list),
            Ok(Report::Bindings(Err(error))) => {
                self.trouble.raise(|| format!("unused RoleBindings are kept for now: {error}"));
            }
            Ok(Report::Unbound { namespace, result }) => {
                self.count(WriteKind::Binding, &result);
                match result {
                    Ok(()) => tracing::info!(namespace, "no gang for long, RoleBinding removed"),
                    Err(error) => {
                        self.trouble.raise(|| format!("{error} in namespace {namespace}"));
                    }
                }
            }
            // A task that panicked or was aborted: the next look does its work again.
            Err(error) => {
                tracing::error!("a write ended without a result, looking again: {error}");
                self.desks.values_mut().for_each(|d| *d = Desk::default());
                self.dirty.extend(self.world.keys());
            }
        }
    }

    /// Takes in what one write showed. Says whether it failed.
    fn take_result(
        &mut self,
        key: &Key,
        write: WriteKind,
        before: Option<&KeeperOrder>,
        result: Result<Effect, CallError>,
    ) -> bool {
        self.count(write, &result);
        let effect = match result {
            Ok(effect) => effect,
            Err(error) => {
                self.trouble.raise(|| format!("{error} (namespace {})", key.namespace));
                let desk = self.desks.entry(key.clone()).or_default();
                // A PodGroup that is refused must not keep the gates shut.
                if write == WriteKind::Group && error.is_refusal() {
                    desk.refuse_group(&error);
                    return false;
                }
                return true;
            }
        };
        match effect {
            Effect::Bound => {
                self.bound.insert(key.namespace.clone(), Instant::now());
            }
            Effect::Gang(gang) => {
                if write == WriteKind::Status {
                    self.desks.entry(key.clone()).or_default().status_at = Some(Timestamp::now());
                    self.note_order(&gang.place.name, before, &gang.status);
                }
                self.dirty.extend(self.world.put_gang(*gang));
            }
            Effect::NoGang(uid) => self.dirty.extend(self.world.drop_gang(&uid)),
            Effect::Group(group) => {
                let foreign = !group.owners.contains(&key.owner);
                self.desks.entry(key.clone()).or_default().group_foreign = foreign;
                if !foreign {
                    self.dirty.extend(self.world.put_group(group));
                }
            }
            Effect::GroupAgain(uid, group) => {
                tracing::info!(group = group.place.name, min = group.min, "PodGroup made again");
                self.dirty.extend(self.world.drop_group(&uid));
                self.dirty.extend(self.world.put_group(group));
            }
            Effect::OwnerFound => {
                self.desks.entry(key.clone()).or_default().owner_found = Some(Timestamp::now());
            }
            Effect::Opened(_) | Effect::NoPod | Effect::Nothing => {}
        }
        false
    }

    /// Logs and counts what happened to the order.
    fn note_order(&self, gang: &str, before: Option<&KeeperOrder>, status: &QuantumGangStatus) {
        let Some(order) = &status.order else { return };
        let message = status.message.as_deref().unwrap_or_default();
        let same = before.filter(|b| b.at == order.at);
        if same.is_none() {
            self.setting.metrics.orders.get_or_create(&order.reason.into()).inc();
            tracing::info!(
                gang,
                reason = order.reason.as_str(),
                task = order.task_id,
                "order taken up"
            );
        }
        if order.withdrawn && same.is_none_or(|b| !b.withdrawn) {
            tracing::warn!(gang, task = order.task_id, "order withdrawn: {message}");
        }
        if let Some(opened) = &order.opened_at
            && same.is_none_or(|b| b.opened_at.is_none())
        {
            let took = opened.0.duration_since(order.at.0);
            self.setting.metrics.release.observe(took.as_secs_f64());
            tracing::info!(gang, ms = took.as_millis(), "gates open: {message}");
        }
    }

    fn take_gate(&mut self, key: Key, uid: &str, gate: &str, result: Result<Effect, CallError>) {
        self.count(WriteKind::Gate, &result);
        let desk = self.desks.entry(key.clone()).or_default();
        match result {
            Ok(effect) => {
                desk.gates.remove(uid);
                match effect {
                    Effect::Opened(version) => self.world.opened(uid, gate, version),
                    _ => self.dirty.extend(self.world.drop_pod(uid)),
                }
            }
            Err(error) => {
                let attempt = desk.gates.entry(uid.to_owned()).or_default();
                attempt.in_flight = false;
                attempt.pause.failed();
                attempt.refused = error.is_refusal().then(|| error.to_string());
                self.trouble.raise(|| format!("{error} (namespace {})", key.namespace));
            }
        }
        self.dirty.insert(key);
    }

    fn count<T>(&self, write: WriteKind, result: &Result<T, CallError>) {
        let outcome = match result {
            Ok(_) => Outcome::Done,
            Err(error) if error.is_refusal() => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.setting.metrics.writes.get_or_create(&WriteLabel { write, outcome }).inc();
    }
}
