//! Partitions in which packets are really dropped: nodes are in network namespaces, and
//! `partition.sh` sets the rules of a packet filter in them.

use std::time::Duration;

use rand::RngExt;

use crate::history::{Installation, What};
use crate::nemesis::{Fault, Ground, Healing};

/// What an answer of a peer that is not cut off takes at most.
const SETTLE: Duration = Duration::from_millis(300);

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
    span: Duration,
    healing: &mut Healing,
) -> Result<Installation, Installation> {
    let victim = ground.any();
    let others = Ground::others(victim).iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    let (mut from, mut to) = (victim.to_string(), others);
    let seconds = format!("{:.3}", span.as_secs_f64());
    let one_way = fault == Fault::PacketsOneWay;
    if one_way && ground.random.random_bool(0.5) {
        std::mem::swap(&mut from, &mut to);
    }
    let mut arguments = vec![from.as_str(), to.as_str(), seconds.as_str()];
    arguments.extend(one_way.then_some("--one-way"));
    let mut script = ground
        .cluster
        .scripts
        .start("partition.sh", &arguments)
        .map_err(Installation::Indeterminate)?;
    tokio::time::sleep(SETTLE).await;
    // One that has ended has complained: it would go on for the whole span.
    if let Ok(Some(status)) = script.try_wait() {
        return Err(Installation::Indeterminate(format!("partition.sh: {status}")));
    }
    healing.running.push(script);
    if !one_way {
        ground.recorder.record(0, 0, What::Isolated(victim));
    }
    let what = if one_way { "what they say is dropped" } else { "both ways are dropped" };
    Ok(Installation::Installed(format!("{from} to {to}: {what}")))
}
