//! Writes on their way: gates each on its own, the rest one look after another.

use std::cmp::Reverse;
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use sluice_shared::gang::KeeperOrder;

use super::{Keeper, Report};
use crate::act::{Effect, Hands, Target};
use crate::call::CallError;
use crate::decide::Step;
use crate::decide::tidings::{About, Tiding, not_stamped};
use crate::event::{Regarding, mk_event, name_of};
use crate::facts::job::StrayJob;
use crate::metrics::WriteKind;
use crate::world::{Key, Served};

impl Keeper {
    /// Sends the gate patches that are not on their way yet.
    pub(super) fn open_gates(
        &mut self,
        key: &Key,
        gates: Vec<(String, String, String, Vec<String>)>,
    ) {
        let Some(desk) = self.desks.get_mut(key) else { return };
        for (pod, uid, gate, ids) in gates {
            let attempt = desk.gates.entry(uid.clone()).or_default();
            if attempt.in_flight {
                continue;
            }
            if let Some(until) = attempt.pause.ends() {
                self.timers.push(Reverse((until, key.clone())));
                continue;
            }
            attempt.in_flight = true;
            let (hands, permits) = (self.setting.hands.clone(), Arc::clone(&self.permits));
            let key = key.clone();
            self.writes.spawn(async move {
                // The semaphore is never closed; without a permit the patch would go all the same.
                let _permit = permits.acquire().await;
                let result = hands.open(&key.namespace, &pod, &uid, &gate, &ids).await;
                Report::Gate { key, uid, gate, result }
            });
        }
    }

    /// Sends the other writes of one look, unless those of an earlier look are on their way.
    pub(super) fn write(
        &mut self,
        key: &Key,
        target: Target,
        before: Option<Box<KeeperOrder>>,
        steps: Vec<Step>,
    ) {
        let Some(desk) = self.desks.get_mut(key) else { return };
        if steps.is_empty() || desk.busy {
            return;
        }
        if let Some(until) = desk.pause.ends() {
            self.timers.push(Reverse((until, key.clone())));
            return;
        }
        desk.busy = true;
        let hands = self.setting.hands.clone();
        let served = self.world.served.clone();
        let key = key.clone();
        self.writes.spawn(async move {
            let (first, rest): (Vec<Step>, Vec<Step>) =
                steps.into_iter().partition(|s| matches!(s, Step::Bind));
            let mut results = Vec::new();
            for step in first {
                results.push(perform(&hands, &target, &served, step).await);
            }
            // The order of the rest does not matter, and the release should not wait for it.
            let rest = rest.into_iter().map(|step| perform(&hands, &target, &served, step));
            results.extend(join_all(rest).await);
            Report::Control { key, before, results }
        });
    }

    pub(super) fn tell(&mut self, key: &Key, tiding: &Tiding) {
        let Some(regarding) = self.regarding(key, tiding.about) else { return };
        let name = name_of(&regarding, tiding);
        let Some(desk) = self.desks.get_mut(key) else { return };
        if desk.told.insert(name.clone()) {
            self.send_event(Some(key.clone()), name, &regarding, tiding);
        }
    }

    pub(super) fn tell_stray(&mut self, stray: StrayJob) {
        let regarding = Regarding {
            kind: "Job",
            namespace: stray.place.namespace.clone(),
            name: stray.place.name.clone(),
            uid: stray.place.uid.clone(),
        };
        let tiding = not_stamped(
            "the Job asks for a quantum processor, but was created before Sluice was ready",
        );
        // Its name is the same each time, so the API server keeps one of them.
        if self.strays.insert(stray.place.uid.clone(), stray).is_none() {
            self.send_event(None, name_of(&regarding, &tiding), &regarding, &tiding);
        }
    }

    fn send_event(
        &mut self,
        key: Option<Key>,
        name: String,
        regarding: &Regarding,
        tiding: &Tiding,
    ) {
        let event = mk_event(regarding, tiding, &self.setting.identity, Timestamp::now());
        let hands = self.setting.hands.clone();
        self.writes.spawn(async move {
            let result = hands.tell(event).await;
            Report::Told { key, event: name, result }
        });
    }

    fn regarding(&self, key: &Key, about: About) -> Option<Regarding> {
        let job = self.world.job(&key.owner).map(|j| ("Job", &j.place));
        let pod = self.world.pod(&key.owner).map(|p| ("Pod", &p.place));
        let (kind, place) = match about {
            About::Owner => job.or(pod)?,
            About::Producer => {
                let name = self.world.name_of(key)?;
                let gang = self.world.gang(&key.namespace, &name)?;
                let uid = &gang.status.producer.as_ref()?.uid;
                ("Pod", &self.world.pod(uid)?.place)
            }
        };
        Some(Regarding {
            kind,
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            uid: place.uid.clone(),
        })
    }
}

/// One write, and what it was for.
async fn perform(
    hands: &Hands,
    target: &Target,
    served: &Served,
    step: Step,
) -> (WriteKind, Result<Effect, CallError>) {
    match step {
        Step::Bind => (WriteKind::Binding, hands.bind(&target.namespace).await),
        Step::MakeGang(spec) => (WriteKind::Gang, hands.make_gang(target, *spec).await),
        Step::DropGang { uid } => (WriteKind::Gang, hands.drop_gang(target, &uid).await),
        Step::Status(patch) => (WriteKind::Status, hands.write_status(target, &patch).await),
        Step::MakeGroup { min, priority_class } => {
            let Served::Yes(resource) = served else {
                return (WriteKind::Group, Ok(Effect::Nothing));
            };
            let made = hands.make_group(target, resource, min, priority_class.as_deref());
            (WriteKind::Group, made.await)
        }
        Step::ShrinkGroup { uid, min, priority_class } => {
            let Served::Yes(resource) = served else {
                return (WriteKind::Group, Ok(Effect::Nothing));
            };
            let class = priority_class.as_deref();
            (WriteKind::Group, hands.shrink_group(target, resource, &uid, min, class).await)
        }
        // These have ways of their own.
        Step::Open { .. } | Step::Tell(_) => (WriteKind::Event, Ok(Effect::Nothing)),
    }
}
