//! The end of a process: the first signal asks for it, the second forces it.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a process that a second signal ended.
const FORCED: i32 = 130;

/// A token that SIGTERM or SIGINT cancels. A second signal ends the process at once, so that a
/// drain that hangs cannot keep a pod.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn on_signals() -> std::io::Result<CancellationToken> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let first = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("told to stop, draining");
        first.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::warn!("told to stop again, ending at once");
        std::process::exit(FORCED);
    });
    Ok(token)
}
