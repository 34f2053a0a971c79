//! All that the keeper knows, and which gang each piece belongs to.

use std::collections::{BTreeSet, HashMap, HashSet};

use kube::core::ApiResource;
use sluice_shared::gang::Phase;
use sluice_shared::naming::gang_name;
use sluice_shared::stamp::Mode;

use crate::decide::{Gang, Group, Memory, Owner, Seen};
use crate::facts::Kept;
use crate::facts::gang::GangSeen;
use crate::facts::group::GroupSeen;
use crate::facts::job::JobSeen;
use crate::facts::pod::PodSeen;
use crate::observe::Observation;
use crate::shelf::{Moved, Shelf};

/// One gang, by what it is made from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub namespace: String,
    /// Uid of the Job or of the pod of its own.
    pub owner: String,
    /// Completion index, in `independent` mode.
    pub index: Option<u32>,
}

/// How the API server serves `PodGroup`s.
#[derive(Debug, Clone, Default)]
pub(crate) enum Served {
    /// Not asked yet.
    #[default]
    Unknown,
    No,
    Yes(ApiResource),
}

/// The caches and their cross-references.
#[derive(Debug)]
pub(crate) struct World {
    jobs: Shelf<JobSeen>,
    pods: Shelf<PodSeen>,
    gangs: Shelf<GangSeen>,
    groups: Shelf<GroupSeen>,
    pub served: Served,
    pods_of: HashMap<String, BTreeSet<String>>,
    gangs_of: HashMap<String, BTreeSet<String>>,
    gang_names: HashMap<(String, String), String>,
    group_names: HashMap<(String, String), String>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Shelf::new(),
            pods: Shelf::new(),
            gangs: Shelf::new(),
            groups: Shelf::new(),
            served: Served::Unknown,
            pods_of: HashMap::new(),
            gangs_of: HashMap::new(),
            gang_names: HashMap::new(),
            group_names: HashMap::new(),
        }
    }

    /// Whether every kind has been listed once. Before that nothing may be decided: what is not
    /// known yet would look like something that is gone.
    pub(crate) const fn ready(&self) -> bool {
        let groups = match self.served {
            Served::Unknown => false,
            Served::No => true,
            Served::Yes(_) => self.groups.ready(),
        };
        self.jobs.ready() && self.pods.ready() && self.gangs.ready() && groups
    }

    /// Takes in what a watch tells and says which gangs it touches.
    pub(crate) fn take_in(&mut self, observation: Observation) -> Vec<Key> {
        match observation {
            Observation::Job(change) => {
                let moved = self.jobs.take_in(change);
                self.after_jobs(moved)
            }
            Observation::Pod(change) => {
                let moved = self.pods.take_in(change);
                self.after_pods(moved)
            }
            Observation::Gang(change) => {
                let moved = self.gangs.take_in(*change);
                self.after_gangs(moved)
            }
            Observation::Group(change) => {
                let moved = self.groups.take_in(change);
                self.after_groups(moved)
            }
            Observation::Served(served) => {
                self.groups.clear();
                self.group_names.clear();
                self.served = served.map_or(Served::No, Served::Yes);
                self.keys()
            }
            Observation::Stray(_) => Vec::new(),
        }
    }

    /// Takes in a gang from the answer to a write.
    pub(crate) fn put_gang(&mut self, gang: GangSeen) -> Vec<Key> {
        let moved = self.gangs.put(gang);
        self.after_gangs(moved)
    }

    /// Takes off a gang that the API server does not know any more.
    pub(crate) fn drop_gang(&mut self, uid: &str) -> Vec<Key> {
        let gone = self.gangs.drop(uid).into_iter().collect();
        self.after_gangs(Moved::Taken(gone))
    }

    /// Takes in a `PodGroup` from the answer to a write.
    pub(crate) fn put_group(&mut self, group: GroupSeen) -> Vec<Key> {
        let moved = self.groups.put(group);
        self.after_groups(moved)
    }

    /// Takes off a `PodGroup` that the API server does not know any more.
    pub(crate) fn drop_group(&mut self, uid: &str) -> Vec<Key> {
        let gone = self.groups.drop(uid).into_iter().collect();
        self.after_groups(Moved::Taken(gone))
    }

    /// A gate was opened: the pod is known to be without it before the watch says so.
    pub(crate) fn opened(&mut self, uid: &str, gate: &str, version: u64) {
        if let Some(pod) = self.pods.get_mut(uid).filter(|p| p.place.version <= version) {
            pod.gates.retain(|g| g != gate);
            pod.place.version = version;
        }
    }

    /// A pod does not exist any more.
    pub(crate) fn drop_pod(&mut self, uid: &str) -> Vec<Key> {
        let gone = self.pods.drop(uid).into_iter().collect();
        self.after_pods(Moved::Taken(gone))
    }

    fn after_jobs(&self, moved: Moved<JobSeen>) -> Vec<Key> {
        match moved {
            Moved::Put { uid, before } => {
                // Most writes to a Job change only counters that nobody here reads.
                let same = before.as_ref().zip(self.jobs.get(&uid)).is_some_and(|(a, b)| {
                    let mut a = a.clone();
                    a.place.version = b.place.version;
                    a == *b
                });
                if same {
                    Vec::new()
                } else {
                    self.jobs.get(&uid).map_or_else(Vec::new, |j| self.keys_of_job(j))
                }
            }
            Moved::Taken(jobs) => jobs.iter().flat_map(|j| self.keys_of_job(j)).collect(),
            Moved::Nothing => Vec::new(),
        }
    }

    fn after_pods(&mut self, moved: Moved<PodSeen>) -> Vec<Key> {
        match moved {
            Moved::Put { uid, before } => {
                let Some(pod) = self.pods.get(&uid) else { return Vec::new() };
                if let Some(mut before) = before {
                    before.place.version = pod.place.version;
                    if before == *pod {
                        return Vec::new();
                    }
                }
                let key = key_of_pod(pod);
                self.pods_of.entry(key.owner.clone()).or_default().insert(uid);
                vec![key]
            }
            Moved::Taken(pods) => pods
                .iter()
                .map(|pod| {
                    let key = key_of_pod(pod);
                    remove(&mut self.pods_of, &key.owner, pod.uid());
                    key
                })
                .collect(),
            Moved::Nothing => Vec::new(),
        }
    }

    fn after_gangs(&mut self, moved: Moved<GangSeen>) -> Vec<Key> {
        match moved {
            Moved::Put { uid, .. } => {
                let Some(gang) = self.gangs.get(&uid) else { return Vec::new() };
                let key = key_of_gang(gang);
                let name = (gang.place.namespace.clone(), gang.place.name.clone());
                self.gang_names.insert(name, uid.clone());
                self.gangs_of.entry(key.owner.clone()).or_default().insert(uid);
                vec![key]
            }
            Moved::Taken(gangs) => gangs
                .iter()
                .map(|gang| {
                    let key = key_of_gang(gang);
                    remove(&mut self.gangs_of, &key.owner, gang.uid());
                    unname(&mut self.gang_names, gang);
                    key
                })
                .collect(),
            Moved::Nothing => Vec::new(),
        }
    }

    fn after_groups(&mut self, moved: Moved<GroupSeen>) -> Vec<Key> {
        match moved {
            Moved::Put { uid, .. } => {
                let Some(group) = self.groups.get(&uid) else { return Vec::new() };
                let keys = keys_of_group(group);
                let name = (group.place.namespace.clone(), group.place.name.clone());
                self.group_names.insert(name, uid);
                keys
            }
            Moved::Taken(groups) => {
                for group in &groups {
                    unname(&mut self.group_names, group);
                }
                groups.iter().flat_map(keys_of_group).collect()
            }
            Moved::Nothing => Vec::new(),
        }
    }

    /// The gangs that a Job has or should have.
    fn keys_of_job(&self, job: &JobSeen) -> Vec<Key> {
        let key = |index| Key {
            namespace: job.place.namespace.clone(),
            owner: job.place.uid.clone(),
            index,
        };
        if job.readable_stamp().is_none_or(|s| s.mode == Mode::Shared) {
            return vec![key(None)];
        }
        let pods = self.pods_of(&job.place.uid).map(|p| p.index);
        let gangs = self.gangs_of.get(&job.place.uid).into_iter().flatten();
        let gangs = gangs.filter_map(|uid| self.gangs.get(uid)).map(|g| g.spec.index);
        let indexes: HashSet<_> = pods.chain(gangs).collect();
        indexes.into_iter().map(key).collect()
    }

    /// Every gang that there is or should be.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let jobs = self.jobs.iter().flat_map(|j| self.keys_of_job(j));
        let pods = self.pods.iter().map(key_of_pod);
        let gangs = self.gangs.iter().map(key_of_gang);
        let keys: HashSet<Key> = jobs.chain(pods).chain(gangs).collect();
        keys.into_iter().collect()
    }

    fn pods_of(&self, owner: &str) -> impl Iterator<Item = &PodSeen> {
        self.pods_of.get(owner).into_iter().flatten().filter_map(|uid| self.pods.get(uid))
    }

    /// The pods of a gang.
    fn members(&self, key: &Key) -> Vec<&PodSeen> {
        self.pods_of(&key.owner)
            // A label can name any Job; one of another namespace is not meant.
            .filter(|p| p.place.namespace == key.namespace)
            .filter(|p| p.mode == Mode::Shared || p.index == key.index)
            .collect()
    }

    /// The name of the gang, `None` when nothing is left to derive it from.
    pub(crate) fn name_of(&self, key: &Key) -> Option<String> {
        let gang = self.gangs_of.get(&key.owner).into_iter().flatten();
        let gang = gang.filter_map(|uid| self.gangs.get(uid)).map(|g| &g.spec.owner.name);
        let pod =
            self.pods_of(&key.owner).map(|p| p.job.as_ref().map_or(&p.place.name, |j| &j.name));
        let job = self.jobs.get(&key.owner).map(|j| &j.place.name);
        let owner = job.into_iter().chain(pod).chain(gang).next()?;
        Some(gang_name(owner, &key.owner, key.index))
    }

    /// The gang of that name.
    pub(crate) fn gang(&self, namespace: &str, name: &str) -> Option<&GangSeen> {
        let uid = self.gang_names.get(&(namespace.to_owned(), name.to_owned()))?;
        self.gangs.get(uid)
    }

    /// The Job with this uid.
    pub(crate) fn job(&self, uid: &str) -> Option<&JobSeen> {
        self.jobs.get(uid)
    }

    /// The pod with this uid.
    pub(crate) fn pod(&self, uid: &str) -> Option<&PodSeen> {
        self.pods.get(uid)
    }

    /// All that is known about a gang; `None` when nothing is.
    pub(crate) fn seen<'a>(&'a self, key: &Key, name: &'a str, memory: Memory) -> Option<Seen<'a>> {
        let pods = self.members(key);
        let job = self.jobs.get(&key.owner).filter(|j| j.place.namespace == key.namespace);
        let owner = match (job, self.pods.get(&key.owner)) {
            (Some(job), _) => Owner::Job(job),
            (None, Some(pod)) if pod.job.is_none() => Owner::Pod(pod),
            _ => Owner::Gone,
        };
        let gang = match self.gang(&key.namespace, name) {
            None => Gang::Absent,
            Some(gang) if gang.spec.owner.uid == key.owner => Gang::Ours(gang),
            Some(gang) => Gang::Taken(&gang.spec.owner),
        };
        if pods.is_empty() && matches!((owner, gang), (Owner::Gone, Gang::Absent | Gang::Taken(_)))
        {
            return None;
        }
        let group = self.group(key, name);
        Some(Seen { name, index: key.index, owner, pods, gang, group, memory })
    }

    fn group(&self, key: &Key, name: &str) -> Group {
        if !matches!(self.served, Served::Yes(_)) {
            return Group::NotServed;
        }
        let uid = self.group_names.get(&(key.namespace.clone(), name.to_owned()));
        match uid.and_then(|uid| self.groups.get(uid)) {
            None => Group::Absent,
            Some(group) if group.owners.contains(&key.owner) => Group::Ours(group.clone()),
            Some(_) => Group::Foreign,
        }
    }

    /// Namespaces that have gangs.
    pub(crate) fn namespaces(&self) -> HashSet<String> {
        self.gangs.iter().map(|g| g.place.namespace.clone()).collect()
    }

    /// How many gangs are in each phase.
    pub(crate) fn phases(&self) -> HashMap<Phase, i64> {
        let mut phases = HashMap::new();
        for gang in self.gangs.iter() {
            *phases.entry(gang.status.phase.unwrap_or(Phase::Starting)).or_default() += 1;
        }
        phases
    }

    /// How many consumers wait behind our gates: all, and those of gangs that are being released.
    pub(crate) fn gated(&self) -> (i64, i64) {
        let mut all = 0;
        let mut releasing = 0;
        for gang in self.gangs.iter() {
            let gated = i64::from(gang.status.consumers.map_or(0, |c| c.gated));
            all += gated;
            if gang.status.phase == Some(Phase::Releasing) {
                releasing += gated;
            }
        }
        (all, releasing)
    }
}

fn key_of_pod(pod: &PodSeen) -> Key {
    let index = pod.index.filter(|_| pod.mode == Mode::Independent && pod.job.is_some());
    Key { namespace: pod.place.namespace.clone(), owner: pod.owner().to_owned(), index }
}

fn key_of_gang(gang: &GangSeen) -> Key {
    Key {
        namespace: gang.place.namespace.clone(),
        owner: gang.spec.owner.uid.clone(),
        index: gang.spec.index,
    }
}

fn keys_of_group(group: &GroupSeen) -> Vec<Key> {
    let key = |owner: &String| Key {
        namespace: group.place.namespace.clone(),
        owner: owner.clone(),
        index: None,
    };
    group.owners.iter().map(key).collect()
}

fn remove(map: &mut HashMap<String, BTreeSet<String>>, owner: &str, uid: &str) {
    if let Some(set) = map.get_mut(owner) {
        set.remove(uid);
        if set.is_empty() {
            map.remove(owner);
        }
    }
}

fn unname<T: Kept>(names: &mut HashMap<(String, String), String>, item: &T) {
    let name = (item.namespace().to_owned(), item.name().to_owned());
    if names.get(&name).is_some_and(|uid| uid == item.uid()) {
        names.remove(&name);
    }
}
