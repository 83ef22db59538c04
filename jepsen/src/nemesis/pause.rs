//! SIGSTOP: a node stands still, with its connections open, and goes on as if nothing had been.

use std::time::Duration;

use crate::history::Installation;
use crate::nemesis::{Fault, Ground, Healing};

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
    span: Duration,
    healing: &mut Healing,
) -> Result<Installation, Installation> {
    let victim = match fault {
        Fault::PauseLeader => ground.leader().await?,
        _ => ground.any(),
    };
    let Some(pid) = ground.cluster.pid(victim) else {
        return Err(Installation::Indeterminate(format!("node {victim} does not run")));
    };
    let seconds = format!("{:.3}", span.as_secs_f64());
    let script = ground.cluster.scripts.start("pause.sh", &[&victim.to_string(), &seconds]);
    healing.running.push(script.map_err(Installation::Indeterminate)?);
    // The system says whether it stands still.
    for _ in 0..100 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.lines().any(|line| line.starts_with("State:") && line.contains('T')) {
            return Ok(Installation::Installed(format!("stopped {victim}")));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(Installation::Indeterminate(format!("node {victim} was not seen to stop")))
}
