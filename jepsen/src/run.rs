//! One run: load with the nemesis, no more faults, recovery, final reads, and then the checkers.
//!
//! What goes wrong with the harness itself is an error of the run, never a verdict about the
//! product; such a run proves nothing and never passes.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::checker::completions::acknowledged;
use crate::checker::{Case, check};
use crate::client::{Certainty, Client};
use crate::cluster::{Cluster, NODES, Setup};
use crate::history::{Phase, Recorder, What};
use crate::nemesis::{self, Fault, Ground, clock, disk};
use crate::operation::{Call, How, Name, Verb};
use crate::report::Report;
use crate::script::Scripts;
use crate::upstream::{Ledger, Upstream};
use crate::workload::{Load, Workload, clients};

/// Where an upstream listens for nodes in networks of their own.
const NAMESPACES_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);

/// The first number of those who read at the end: more than there are clients.
const FIRST_READER: u32 = 1001;

/// How many final reads are under way at a time.
const READERS: u32 = 16;

/// How long the cluster may take to be ready at the beginning, and after all faults.
const READY_MAX: Duration = Duration::from_secs(60);

/// For how long final reads are repeated while a node cannot answer, all in all, and the pause
/// before.
const READ_MAX: Duration = Duration::from_secs(30);
const READ_PAUSE: Duration = Duration::from_millis(250);

/// How often digests are taken until all nodes are at one position.
const DIGEST_TRIES: usize = 40;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload.
    pub workload: Workload,
    /// The fault.
    pub fault: Fault,
    /// From which everything random is drawn.
    pub seed: u64,
    /// How long the load lasts, in seconds.
    pub seconds: u64,
    /// The product's binary.
    pub binary: PathBuf,
    /// The folder of the product's scripts.
    pub scripts: PathBuf,
    /// Where runs are kept.
    pub folder: PathBuf,
    /// Whether everything is kept of a run that passed as well.
    pub keep: bool,
}

impl Plan {
    /// What the run is called.
    pub fn name(&self) -> String {
        format!("{}-{}-{}", self.workload, self.fault, self.seed)
    }

    /// With one shard there is one leader for everything; with several they are spread.
    fn shards(&self) -> u16 {
        if self.fault.is_about_the_leader() || self.seed.is_multiple_of(2) { 1 } else { 4 }
    }
}

/// Runs a plan to its end; its files are kept when it does not pass.
///
/// # Errors
/// When the harness itself fails.
pub async fn run(plan: &Plan) -> Result<Report, String> {
    let folder = plan.folder.join(plan.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| text(&folder, &error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| text(&folder, &error))?;
    let done = observe(plan, &folder).await;
    // Whatever happened, no disk stays mounted and no network stays up.
    let scripts = Scripts::new(&plan.scripts, &folder.join("cluster"));
    if plan.fault.needs_disks() && !matches!(done, Ok(Observed::Skipped(_))) {
        scripts.run("disk.sh", &["down", "all"]).await?;
    }
    if plan.fault.needs_namespaces() && !matches!(done, Ok(Observed::Skipped(_))) {
        scripts.run("netns.sh", &["down"]).await?;
    }
    let (case, skipped) = match done? {
        Observed::Run(case) => (case, None),
        Observed::Skipped(why) => (Case::default(), Some(why)),
    };
    let findings = if skipped.is_some() { Vec::new() } else { check(&case, plan.fault) };
    let report = Report::new(plan, &case, findings, skipped).await;
    let written = serde_json::to_vec_pretty(&report).map_err(|error| error.to_string())?;
    fs::write(folder.join("report.json"), written).map_err(|error| text(&folder, &error))?;
    if report.passed() && !plan.keep {
        let cluster = folder.join("cluster");
        fs::remove_dir_all(&cluster).map_err(|error| text(&cluster, &error))?;
        for file in ["history.ndjson", "ledger.ndjson"] {
            fs::remove_file(folder.join(file)).map_err(|error| text(&folder, &error))?;
        }
    }
    Ok(report)
}

fn text(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// What came of a run.
enum Observed {
    Run(Case),
    Skipped(String),
}

async fn observe(plan: &Plan, folder: &Path) -> Result<Observed, String> {
    let failed = |error: std::io::Error| text(folder, &error);
    let recorder = Arc::new(Recorder::create(&folder.join("history.ndjson")).map_err(failed)?);
    let ledger = Ledger::create(&folder.join("ledger.ndjson"), recorder.clone()).map_err(failed)?;
    let environment = match environment(plan, &folder.join("cluster")).await {
        Ok(environment) => environment,
        Err(why) => return Ok(Observed::Skipped(why)),
    };
    let namespaces = plan.fault.needs_namespaces();
    let ip = if namespaces { NAMESPACES_GATEWAY } else { Ipv4Addr::LOCALHOST };
    let upstream = Upstream::new(ledger.clone(), plan.workload.filling());
    let upstream = upstream.start(ip.into()).await.map_err(failed)?;
    let setup = Setup {
        binary: plan.binary.clone(),
        scripts: plan.scripts.clone(),
        folder: folder.join("cluster"),
        shards: plan.shards(),
        upstream,
        seed: plan.seed,
        environment,
        namespaces,
    };
    let mut cluster = Cluster::prepare(setup).await.map_err(failed)?;
    cluster.start_missing().map_err(failed)?;
    cluster.ready(READY_MAX).await?;
    let random = StdRng::seed_from_u64(plan.seed);
    let mut ground = Ground { cluster, random, recorder: recorder.clone() };
    load(plan, &mut ground, &ledger).await?;
    recorder.record(0, 0, What::Phase(Phase::Recovery));
    if let Err(complaint) = ground.cluster.ready(READY_MAX).await {
        recorder.record(0, 0, What::Note(format!("not ready after all faults: {complaint}")));
    }
    recorder.record(0, 0, What::Phase(Phase::FinalReads));
    let events = recorder.events().map_err(failed)?;
    let executions = ledger.executions().map_err(failed)?;
    read_all(&ground, &Case::new(&events, executions)).await;
    digests(&ground).await;
    recorder.record(0, 0, What::Phase(Phase::End));
    let events = recorder.events().map_err(failed)?;
    let executions = ledger.executions().map_err(failed)?;
    Ok(Observed::Run(Case::new(&events, executions)))
}

/// What the nodes need in their environment, and on their disks, for the fault.
async fn environment(plan: &Plan, folder: &Path) -> Result<Vec<(String, String)>, String> {
    fs::create_dir_all(folder).map_err(|error| text(folder, &error))?;
    let folder = folder.canonicalize().map_err(|error| text(folder, &error))?;
    let mut environment = Vec::new();
    if plan.fault.needs_clocks() {
        environment.extend(clock::environment(&folder)?);
        for node in 1..=NODES {
            let file = folder.join(format!("{node}.clock"));
            fs::write(&file, "+0 x1\n").map_err(|error| text(&file, &error))?;
        }
    }
    if plan.fault.needs_fsync() {
        environment.extend(disk::environment(&folder).await?);
    }
    let scripts = Scripts::new(&plan.scripts, &folder);
    if plan.fault.needs_disks() {
        scripts.run("disk.sh", &["up", "all"]).await?;
    }
    if plan.fault.needs_namespaces() {
        scripts.run("netns.sh", &["up"]).await?;
    }
    Ok(environment)
}

/// Clients call while the nemesis breaks things.
async fn load(plan: &Plan, ground: &mut Ground, ledger: &Ledger) -> Result<(), String> {
    let recorder = ground.recorder.clone();
    recorder.record(0, 0, What::Phase(Phase::Load));
    let end = Instant::now() + Duration::from_secs(plan.seconds);
    let nodes = ground.cluster.endpoints();
    let load = Load::new(plan.workload, plan.seed, ledger.clone());
    let client = |process| Client { process, recorder: recorder.clone(), nodes: nodes.clone() };
    let mut clients = clients(&load, end, client);
    nemesis::run(ground, plan.fault, end).await?;
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| format!("a client failed: {error}"))?;
    }
    Ok(())
}

/// Asks every node for every outcome that a client was told.
async fn read_all(ground: &Ground, case: &Case) {
    let variants = variants(case);
    let mut wanted = Vec::new();
    for name in acknowledged(case).keys() {
        let verb = match variants.get(*name) {
            Some(variant) => Verb::Post { variant: *variant, how: How::After(0) },
            None => Verb::Read,
        };
        for node in 1..=NODES {
            wanted.push(Call { node, name: (*name).clone(), verb: verb.clone(), last: true });
        }
    }
    let wanted = Arc::new(std::sync::Mutex::new(wanted));
    let begin = Instant::now();
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..READERS {
        let client = Client {
            process: FIRST_READER + reader,
            recorder: ground.recorder.clone(),
            nodes: ground.cluster.endpoints(),
        };
        let wanted = wanted.clone();
        readers.spawn(async move {
            loop {
                let next = wanted.lock().expect("nothing panics while it takes one").pop();
                let Some(call) = next else { return };
                loop {
                    let ended = client.call(call.clone(), "").await;
                    let again =
                        ended.answer.is_unavailable() || ended.answer.code == "key-in-progress";
                    if !again || begin.elapsed() > READ_MAX {
                        break;
                    }
                    tokio::time::sleep(READ_PAUSE).await;
                }
            }
        });
    }
    readers.join_all().await;
}

/// Which request each outcome of a gateway was told for.
fn variants(case: &Case) -> BTreeMap<Name, u32> {
    let told = case.calls.iter().filter(|done| done.end == Certainty::Ok && done.tells_outcome());
    told.filter_map(|done| match done.call.verb {
        Verb::Post { variant, .. } => Some((done.call.name.clone(), variant)),
        _ => None,
    })
    .collect()
}

/// Takes the digests of every shard at every node, until all of them are at one position.
async fn digests(ground: &Ground) {
    for shard in 0..ground.cluster.shards {
        let mut found = Vec::new();
        for _ in 0..DIGEST_TRIES {
            found.clear();
            for node in 1..=NODES {
                match ground.cluster.digest(node, shard).await {
                    Ok(digest) => found.push(digest),
                    Err(why) => ground.recorder.record(
                        0,
                        0,
                        What::Note(format!("node {node}, shard {shard}: no digest: {why}")),
                    ),
                }
            }
            let together = found.windows(2).all(|pair| pair[0].index == pair[1].index);
            if together && found.len() == usize::from(NODES) {
                break;
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
        for digest in found {
            ground.recorder.record(0, 0, What::Digest(digest));
        }
    }
}
