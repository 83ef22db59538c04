//! The nemesis: breaks things while clients call, and says what it really broke.
//!
//! Each family of faults is a file. A fault is installed for a span, healed, and then the cluster
//! is given time to recover before the next one. Whatever it needs and cannot have (root, a tool, a
//! compiler) makes it *skipped*; a run whose fault was never installed proves nothing and does not
//! count.

pub mod clock;
pub mod disk;
pub mod files;
pub mod kill;
pub mod network;
pub mod packets;
pub mod pause;
pub mod space;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::cluster::{Cluster, NODES};
use crate::history::{Installation, Recorder, What};

/// Longer than any recovery may take: a node that is not ready then has not converged.
const RECOVERY_MAX: Duration = Duration::from_secs(40);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// None at all: what a run looks like when nothing breaks.
    Nothing,
    /// SIGKILL of a node.
    KillOne,
    /// SIGKILL of the leader.
    KillLeader,
    /// SIGKILL of every node.
    KillAll,
    /// SIGSTOP of a node.
    PauseOne,
    /// SIGSTOP of the leader.
    PauseLeader,
    /// One node, any, is cut off from the other two.
    Isolate,
    /// The leader is cut off from the other two.
    IsolateLeader,
    /// Nothing of one node reaches another, but the other way it does.
    OneWay,
    /// The leader hears nothing of the others, who hear it.
    DeafLeader,
    /// Two nodes do not reach each other, the third reaches both.
    Bridge,
    /// A partition that comes and goes.
    Flapping,
    /// Nodes of different regions do not reach each other: nobody has a majority.
    Shatter,
    /// One node is cut off from the other two: every packet is dropped.
    PacketsIsolate,
    /// Nothing of one node reaches another: every packet is dropped.
    PacketsOneWay,
    /// Every link has a delay of 40 ms.
    Delay40,
    /// Every link has a delay of 80 ms.
    Delay80,
    /// Every link has a delay of 150 ms.
    Delay150,
    /// Packets are lost, 1 to 5 %.
    Loss,
    /// The wall clock of a node is an hour ahead.
    ClockAhead,
    /// The wall clock of a node is an hour behind.
    ClockBehind,
    /// The wall clock of a node jumps to and fro.
    ClockJumps,
    /// The wall clock of a node runs at twice the rate.
    ClockFast,
    /// The power of a node fails: what it had not synced is gone.
    PowerOne,
    /// The power of every node fails.
    PowerAll,
    /// A node's fsync fails.
    FsyncFails,
    /// A node's fsync does nothing, and then its power fails.
    FsyncLies,
    /// Every node's fsync does nothing, and then the power of all fails. No system survives that:
    /// it shows that the checkers see it.
    FsyncLiesAll,
    /// A node's fsync takes long.
    FsyncSlow,
    /// The end of the log of a node that was killed is torn.
    TornTail,
    /// Bits of the log of a stopped node flip.
    BitFlip,
    /// The disk of a node is full.
    DiskFull,
    /// Kills, pauses and partitions.
    Mix,
}

/// Every fault with its name on the command line.
const NAMES: [(Fault, &str); 33] = [
    (Fault::Nothing, "nothing"),
    (Fault::KillOne, "kill-one"),
    (Fault::KillLeader, "kill-leader"),
    (Fault::KillAll, "kill-all"),
    (Fault::PauseOne, "pause-one"),
    (Fault::PauseLeader, "pause-leader"),
    (Fault::Isolate, "isolate"),
    (Fault::IsolateLeader, "isolate-leader"),
    (Fault::OneWay, "one-way"),
    (Fault::DeafLeader, "deaf-leader"),
    (Fault::Bridge, "bridge"),
    (Fault::Flapping, "flapping"),
    (Fault::Shatter, "shatter"),
    (Fault::PacketsIsolate, "packets-isolate"),
    (Fault::PacketsOneWay, "packets-one-way"),
    (Fault::Delay40, "delay-40"),
    (Fault::Delay80, "delay-80"),
    (Fault::Delay150, "delay-150"),
    (Fault::Loss, "loss"),
    (Fault::ClockAhead, "clock-ahead"),
    (Fault::ClockBehind, "clock-behind"),
    (Fault::ClockJumps, "clock-jumps"),
    (Fault::ClockFast, "clock-fast"),
    (Fault::PowerOne, "power-one"),
    (Fault::PowerAll, "power-all"),
    (Fault::FsyncFails, "fsync-fails"),
    (Fault::FsyncLies, "fsync-lies"),
    (Fault::FsyncLiesAll, "fsync-lies-all"),
    (Fault::FsyncSlow, "fsync-slow"),
    (Fault::TornTail, "torn-tail"),
    (Fault::BitFlip, "bit-flip"),
    (Fault::DiskFull, "disk-full"),
    (Fault::Mix, "mix"),
];

impl Fault {
    /// Every fault that the product must survive, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(fault, _)| *fault).filter(|fault| *fault != Self::FsyncLiesAll)
    }

    /// Whether it is about the leader, so that the cluster must have one for everything.
    pub fn is_about_the_leader(self) -> bool {
        use Fault::{DeafLeader, DiskFull, IsolateLeader, KillLeader, PauseLeader};
        matches!(self, KillLeader | PauseLeader | IsolateLeader | DeafLeader | DiskFull)
    }

    /// Whether nodes must keep their data on disks of their own.
    pub fn needs_disks(self) -> bool {
        use Fault::{DiskFull, FsyncLies, FsyncLiesAll, PowerAll, PowerOne};
        matches!(self, PowerOne | PowerAll | FsyncLies | FsyncLiesAll | DiskFull)
    }

    /// Whether nodes must be in networks of their own.
    pub fn needs_namespaces(self) -> bool {
        matches!(self, Self::PacketsIsolate | Self::PacketsOneWay)
    }

    /// Whether nodes must run under a clock that can be turned.
    pub fn needs_clocks(self) -> bool {
        use Fault::{ClockAhead, ClockBehind, ClockFast, ClockJumps};
        matches!(self, ClockAhead | ClockBehind | ClockFast | ClockJumps)
    }

    /// Whether nodes must run with an fsync that can be broken.
    pub fn needs_fsync(self) -> bool {
        use Fault::{FsyncFails, FsyncLies, FsyncLiesAll, FsyncSlow};
        matches!(self, FsyncFails | FsyncLies | FsyncLiesAll | FsyncSlow)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(fault, _)| fault == self).map_or("", |(_, name)| *name);
        f.pad(name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text).map(|(fault, _)| *fault);
        found.ok_or_else(|| format!("no fault {text:?}"))
    }
}

/// What a fault acts on.
pub struct Ground {
    /// The cluster.
    pub cluster: Cluster,
    /// Draws victims and moments.
    pub random: StdRng,
    /// Where it is written down.
    pub recorder: Arc<Recorder>,
}

impl Ground {
    /// Any node.
    fn any(&mut self) -> u8 {
        self.random.random_range(1..=NODES)
    }

    /// The leader of the first shard.
    async fn leader(&mut self) -> Result<u8, Installation> {
        for _ in 0..20 {
            if let Some(leader) = self.cluster.leader(0).await {
                return Ok(leader);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Installation::Indeterminate("the nodes agree on no leader".to_owned()))
    }

    fn others(victim: u8) -> Vec<u8> {
        (1..=NODES).filter(|node| *node != victim).collect()
    }
}

/// What has to be undone when a fault ends.
#[derive(Default)]
pub struct Healing {
    /// Scripts that undo themselves and are waited for.
    pub running: Vec<tokio::process::Child>,
    /// Files to be put back as they were: where, and what was there.
    pub files: Vec<(std::path::PathBuf, Vec<u8>)>,
}

/// Breaks things until `end`, one fault after the other, and leaves the cluster whole.
///
/// # Errors
/// When the harness itself fails: then the run proves nothing.
pub async fn run(ground: &mut Ground, fault: Fault, end: Instant) -> Result<(), String> {
    // What is broken at the end of the load has still to be healed.
    let last = end.checked_sub(Duration::from_secs(3)).unwrap_or(end);
    let mut goes_on = fault != Fault::Nothing;
    while goes_on {
        let calm = Duration::from_millis(ground.random.random_range(1500..3000));
        tokio::time::sleep(calm).await;
        if Instant::now() >= last {
            break;
        }
        let one = match fault {
            Fault::Mix => mixed(&mut ground.random),
            fault => fault,
        };
        goes_on = strike(ground, one).await?;
    }
    tokio::time::sleep(end.saturating_duration_since(Instant::now())).await;
    Ok(())
}

fn mixed(random: &mut StdRng) -> Fault {
    let faults = [
        Fault::KillOne,
        Fault::KillAll,
        Fault::PauseOne,
        Fault::Isolate,
        Fault::OneWay,
        Fault::Bridge,
        Fault::Flapping,
        Fault::Loss,
    ];
    faults.choose(random).copied().unwrap_or(Fault::KillOne)
}

/// One fault, from its installation to the recovery behind it; whether to go on.
async fn strike(ground: &mut Ground, fault: Fault) -> Result<bool, String> {
    let id = ground.recorder.next_id();
    let span = span(ground, fault);
    ground.recorder.record(0, id, What::Break(fault.to_string()));
    let begin = Instant::now();
    let mut healing = Healing::default();
    let installed = install(ground, fault, span, &mut healing).await;
    let installed = installed.unwrap_or_else(|not| not);
    ground.recorder.record(0, id, What::Broken(installed.clone()));
    if matches!(installed, Installation::Installed(_)) {
        tokio::time::sleep(span.saturating_sub(begin.elapsed())).await;
    }
    heal(ground, fault, healing).await?;
    ground.recorder.record(0, id, What::Healed);
    match ground.cluster.ready(RECOVERY_MAX).await {
        Ok(took) => {
            let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            ground.recorder.record(0, id, What::Recovered(took));
        }
        // The checkers see that it never recovered; nothing more can be learnt from this run.
        Err(complaint) => {
            ground.recorder.record(0, id, What::Note(complaint));
            return Ok(false);
        }
    }
    Ok(!matches!(installed, Installation::Skipped(_)))
}

/// For how long a fault lasts. Half of the partitions last long enough to see how those who have a
/// majority go on.
fn span(ground: &mut Ground, fault: Fault) -> Duration {
    use Fault::{DeafLeader, Isolate, IsolateLeader, PacketsIsolate};
    let partition = matches!(fault, Isolate | IsolateLeader | DeafLeader | PacketsIsolate);
    let most = if partition && ground.random.random_bool(0.5) { 9000 } else { 4500 };
    Duration::from_millis(ground.random.random_range(most - 2500..most))
}

async fn install(
    ground: &mut Ground,
    fault: Fault,
    span: Duration,
    healing: &mut Healing,
) -> Result<Installation, Installation> {
    match fault {
        Fault::Nothing | Fault::Mix => {
            Err(Installation::Skipped("not a fault of its own".to_owned()))
        }
        Fault::KillOne | Fault::KillLeader | Fault::KillAll => kill::install(ground, fault).await,
        Fault::PauseOne | Fault::PauseLeader => pause::install(ground, fault, span, healing).await,
        Fault::ClockAhead | Fault::ClockBehind | Fault::ClockJumps | Fault::ClockFast => {
            clock::install(ground, fault, span, healing).await
        }
        Fault::PowerOne | Fault::PowerAll => disk::install(ground, fault).await,
        fault if fault.needs_fsync() => disk::install(ground, fault).await,
        Fault::TornTail | Fault::BitFlip => files::install(ground, fault, healing).await,
        Fault::DiskFull => space::install(ground).await,
        Fault::PacketsIsolate | Fault::PacketsOneWay => {
            packets::install(ground, fault, span, healing).await
        }
        _ => network::install(ground, fault, span).await,
    }
}

/// Undoes whatever was done, however far it got.
async fn heal(ground: &mut Ground, fault: Fault, healing: Healing) -> Result<(), String> {
    ground.cluster.links.set_all(crate::proxy::Weather::default());
    for mut script in healing.running {
        script.wait().await.map_err(|error| error.to_string())?;
    }
    for (path, bytes) in healing.files {
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if fault.needs_fsync() {
        disk::heal(&ground.cluster)?;
    }
    if fault == Fault::DiskFull {
        space::heal(&ground.cluster)?;
    }
    // A node whose fsync failed, or that found damage, has stopped by itself.
    ground.cluster.start_missing().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_called_as_they_are_named() {
        for (fault, name) in NAMES {
            assert_eq!((fault.to_string().as_str(), name.parse()), (name, Ok(fault)));
        }
        assert!("quake".parse::<Fault>().is_err());
    }

    #[test]
    fn every_fault_and_workload_is_in_the_documentation() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
        let text = std::fs::read_to_string(path).unwrap();
        for (_, name) in NAMES.iter().filter(|(fault, _)| *fault != Fault::Nothing) {
            assert!(text.contains(&format!("`{name}`")), "docs/faults.md does not name {name}");
        }
        for workload in crate::workload::Workload::ALL {
            assert!(text.contains(&format!("| {workload} |")), "nor {workload}");
        }
    }
}
