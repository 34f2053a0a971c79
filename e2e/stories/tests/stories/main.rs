//! Stories on the real cluster: one cluster, a namespace and a vendor of its own for each.
//!
//! `cargo test -p sluice-stories -- NAME` runs those whose name holds NAME;
//! `SLUICE_KEEP_LAB=1` leaves the cluster up afterwards.

mod admission;
mod bad_input;
mod credentials;
mod crowds;
mod ending;
mod examples;
mod faults;
mod hazards;
mod main_job;
mod policies;
mod programs;
mod restarts;
mod vendors;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use sluice_lab::Options;
use sluice_stories::world::World;

/// How many stories run at the same time: the machine is small.
const AT_ONCE: usize = 7;

/// How many of the slowest stories are named at the end.
const SLOWEST: usize = 8;

/// How long each story took.
type Times = Arc<Mutex<Vec<(Duration, &'static str)>>>;

type Running<'w> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'w>>;

/// One story.
pub struct Story {
    name: &'static str,
    run: for<'w> fn(&'w World) -> Running<'w>,
    /// It disturbs the whole cluster, so it runs alone, after the others.
    alone: bool,
}

/// Lists stories by the names of their functions; those after `alone:` disturb the whole cluster.
macro_rules! stories {
    ($($story:ident),* $(,)? $(; alone: $($lonely:ident),* $(,)?)?) => {
        pub(crate) fn all() -> Vec<crate::Story> {
            vec![
                $(crate::Story::new(
                    concat!(module_path!(), "::", stringify!($story)),
                    |world| Box::pin($story(world)),
                    false,
                ),)*
                $($(crate::Story::new(
                    concat!(module_path!(), "::", stringify!($lonely)),
                    |world| Box::pin($lonely(world)),
                    true,
                ),)*)?
            ]
        }
    };
}
pub(crate) use stories;

impl Story {
    pub(crate) fn new(
        name: &'static str,
        run: for<'w> fn(&'w World) -> Running<'w>,
        alone: bool,
    ) -> Self {
        Self { name: name.strip_prefix("stories::").unwrap_or(name), run, alone }
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    // Those that wait long come first, beside those that work.
    let stories: Vec<Story> = [
        bad_input::all(),
        restarts::all(),
        crowds::all(),
        ending::all(),
        main_job::all(),
        examples::all(),
        programs::all(),
        faults::all(),
        credentials::all(),
        hazards::all(),
        vendors::all(),
        policies::all(),
        admission::all(),
    ]
    .into_iter()
    .flatten()
    .filter(|story| wanted(&arguments, story.name))
    .collect();
    if arguments.list || stories.is_empty() {
        let trials = stories.into_iter().map(|s| Trial::test(s.name, || Ok(()))).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    // Every client of the stories speaks TLS through this one provider.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        eprintln!("another TLS provider is installed");
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let world = match runtime.block_on(faults::begin()) {
        Ok(world) => Arc::new(world),
        Err(error) => {
            eprintln!("the cluster for the stories is not there: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let times: Times = Arc::default();
    let (lonely, social): (Vec<_>, Vec<_>) = stories.into_iter().partition(|s| s.alone);
    let mut failed = false;
    for (batch, threads) in [(social, arguments.test_threads), (lonely, Some(1))] {
        if batch.is_empty() {
            continue;
        }
        let arguments = Arguments { test_threads: threads, ..arguments.clone() };
        let handle = runtime.handle().clone();
        let trials = batch
            .into_iter()
            .map(|story| {
                let (world, handle) = (Arc::clone(&world), handle.clone());
                let times = Arc::clone(&times);
                Trial::test(story.name, move || {
                    let began = Instant::now();
                    let ended = handle.block_on((story.run)(&world));
                    times
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((began.elapsed(), story.name));
                    ended.map_err(|e| format!("{e:#}").into())
                })
            })
            .collect();
        failed |= libtest_mimic::run(&arguments, trials).has_failed();
    }
    print_slowest(&times);
    if failed && let Ok(log) = runtime.block_on(world.system_log()) {
        eprintln!("what the webhooks and keepers said:\n{log}");
    }
    if std::env::var_os("SLUICE_KEEP_LAB").is_none()
        && let Err(error) = runtime.block_on(world.lab().clone().down())
    {
        eprintln!("the cluster did not stop cleanly: {error}");
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Says where the time went, longest first.
fn print_slowest(times: &Times) {
    let mut times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    times.sort_by(|one, other| other.cmp(one));
    eprintln!("slowest stories:");
    for (time, name) in times.iter().take(SLOWEST) {
        eprintln!("{:>6.1} s  {name}", time.as_secs_f32());
    }
}

fn wanted(arguments: &Arguments, name: &str) -> bool {
    let by_filter = arguments.filter.as_ref().is_none_or(|filter| {
        if arguments.exact { name == filter } else { name.contains(filter.as_str()) }
    });
    by_filter && !arguments.skip.iter().any(|skip| name.contains(skip.as_str()))
}

/// Options of the cluster of the stories.
pub(crate) fn options() -> Options {
    Options::default()
}
