//! Where tasks begin. On a simulated machine they end with it, and stand still when it does.

use std::future::Future;

use tokio::task::{JoinError, JoinHandle, JoinSet};

/// Runs `task` beside the caller.
pub(crate) fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(feature = "testing")]
    if let Some(machine) = crate::simulation::Machine::current() {
        return machine.spawn(task);
    }
    tokio::spawn(task)
}

/// Runs `task` as one of `tasks`.
pub(crate) fn spawn_into(tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "testing")]
    if let Some(machine) = crate::simulation::Machine::current() {
        let task = machine.hosted(task);
        machine.keep(tasks.spawn(task));
        return;
    }
    tasks.spawn(task);
}

/// Does work that may block, on a thread for such work; on a simulated machine at once.
///
/// # Errors
/// When the work panicked, or the runtime is going.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    #[cfg(feature = "testing")]
    if crate::simulation::Machine::current().is_some() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}
