//! SIGKILL: of a node, of the leader, of all at once. They are started again when the fault ends.

use crate::cluster::NODES;
use crate::history::Installation;
use crate::nemesis::{Fault, Ground};

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
) -> Result<Installation, Installation> {
    let victims = match fault {
        Fault::KillAll => (1..=NODES).collect(),
        Fault::KillLeader => vec![ground.leader().await?],
        _ => vec![ground.any()],
    };
    if fault == Fault::KillAll {
        let killed = ground.cluster.scripts.run("kill.sh", &["all"]).await;
        killed.map_err(Installation::Indeterminate)?;
        victims.iter().for_each(|victim| ground.cluster.reap(*victim));
    } else {
        for victim in &victims {
            ground.cluster.kill(*victim).await.map_err(Installation::Indeterminate)?;
        }
    }
    Ok(Installation::Installed(format!("killed {victims:?}")))
}
