//! The local cluster: a whole, real Kubernetes on one machine, for tests, demo and experiments.
//!
//! ```text
//!   lab build ──▶ cache: etcd, Kubernetes, kwok, pause (from pinned Go modules), Python (from a lock)
//!
//!   lab up ──▶ etcd ◀── kube-apiserver ◀── controller manager, scheduler, kube-proxy, kwok
//!                             ▲
//!                          kubelet ──▶ containerd ──▶ containers on the bridge `sluice-pods`
//!              interface `sluice-node`, 10.89.0.1: API server, kubelet, programs that pods reach
//! ```
//!
//! All of it lies below one state directory and on networks of its own. Components are
//! processes in sessions of their own, remembered by id and start time; [`Lab::down`] stops
//! exactly those and removes mounts, interfaces and packet rules. What a crashed run left is
//! cleared by the next [`Lab::up`]. There is one cluster per machine at a time.
//!
//! Stories use [`Lab::up`] or [`Lab::open`], [`Lab::kube`], [`Lab::namespace`], the functions
//! `await_…`, [`Lab::logs`], [`Lab::exec`], and for faults [`Lab::kill`], [`Lab::stop`],
//! [`Lab::freeze`] and [`Lab::start`].

mod archive;
pub mod cache;
mod command;
mod components;
mod credentials;
mod error;
mod faults;
mod host;
pub mod images;
pub mod install;
mod lab;
mod layout;
mod namespace;
pub mod network;
mod nodes;
mod owner;
mod pods;
mod prerequisites;
pub mod process;
mod programs;
mod progress;
mod python;
mod readiness;
mod release;
mod settings;
mod shutdown;
mod startup;
mod wait;

pub use archive::{Image, USER};
pub use error::{Error, Result};
pub use install::install;
pub use lab::{Lab, Options};
pub use layout::Layout;
pub use namespace::TempNs;
pub use nodes::{FAKE_LABEL, FAKE_TAINT};
pub use pods::Executed;
pub use programs::{Programs, build};
pub use python::{PythonEnv, python_env, python_env_of, vendors_python_env};
pub use release::{ALL as RELEASES, Release, V1_36};
pub use settings::PAUSE_IMAGE;
pub use shutdown::{down, status};
pub use wait::{await_condition, await_gone, await_list, await_value};
