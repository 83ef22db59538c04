//! Three nodes on simulated machines, and the way to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use cluster::clock::SimulatedClock;
use cluster::simulation::{Host, Machine, Network, Pace};
use cluster::{Node, NodeConfig, NodeId, Peer, Readiness, Secret, ShardId};
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::history::{History, What};

pub(crate) const NODES: usize = 3;
pub(crate) const SHARDS: u16 = 2;

/// How often the nodes' terms and leaders are looked at.
const WATCH: Duration = Duration::from_millis(20);

/// The cluster. Clones are the same one.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) history: History,
    pub(crate) network: Network,
    hosts: Arc<Vec<Mutex<Host>>>,
    running: Arc<StdMutex<Vec<Running>>>,
    processes: Arc<AtomicU64>,
}

#[derive(Clone, Default)]
struct Running {
    process: Option<(Machine, Node)>,
    /// What was last written down of each shard: its term, and whether the node leads it.
    known: BTreeMap<u16, (u64, bool)>,
    /// A fault is at work that makes the process give up.
    may_fail: bool,
}

impl World {
    pub(crate) fn new(history: History, random: &mut StdRng) -> Self {
        let network = Network::new(random.random());
        let clock = SimulatedClock::new(0);
        let hosts = (0..NODES).map(|node| {
            let error_ms = random.random_range(-200..=200);
            let host = Host::new(
                config(node),
                Pace::default(),
                network.clone(),
                clock.beside(error_ms),
                random.random(),
            );
            Mutex::new(host)
        });
        let hosts = Arc::new(hosts.collect());
        let running = Arc::new(StdMutex::new(vec![Running::default(); NODES]));
        let world = Self { history, network, hosts, running, processes: Arc::default() };
        for from in 0..NODES {
            world.usual_ways(from);
        }
        world
    }

    /// The ways from a node as they are without a fault.
    pub(crate) fn usual_ways(&self, from: usize) {
        for to in (0..NODES).filter(|to| *to != from) {
            let usual = Duration::from_micros(200)..=Duration::from_millis(3);
            self.network.delay(id(from), id(to), usual);
            self.network.lose(id(from), id(to), 0.0);
        }
    }

    /// The place of a node, for as long as a fault is about it.
    pub(crate) fn host(&self, node: usize) -> &Mutex<Host> {
        &self.hosts[node]
    }

    /// The process of a node, unless it is down.
    pub(crate) fn process(&self, node: usize) -> Option<(Machine, Node)> {
        let process = self.running.lock().unwrap()[node].process.clone();
        process.filter(|(machine, _)| !machine.has_ended())
    }

    /// Says that the process of a node may give up from now on, or may no more.
    pub(crate) fn may_fail(&self, node: usize, may: bool) {
        self.running.lock().unwrap()[node].may_fail = may;
    }

    /// Starts a process; what keeps it from starting is in the history.
    pub(crate) async fn start(&self, node: usize, host: &mut Host) -> bool {
        if let Err(error) = host.start().await {
            let may = self.running.lock().unwrap()[node].may_fail;
            self.failed(node, &error, may);
            return false;
        }
        let Some((machine, process)) = host.node() else { return false };
        let (machine, process) = (machine.clone(), process.clone());
        for status in process.status().shards {
            let promised = host.promises().get(&status.shard).copied().unwrap_or(0);
            let (shard, term) = (status.shard.0, status.replica.map_or(0, |replica| replica.term));
            self.history.add(What::Term { shard, term, promised, node });
        }
        {
            let mut running = self.running.lock().unwrap();
            running[node].process = Some((machine.clone(), process.clone()));
        }
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        self.running.lock().unwrap()[node].known.clear();
        self.terms(node, number, &process);
        let world = self.clone();
        tokio::spawn(watched(world, node, number, machine, process));
        true
    }

    /// A process is gone.
    pub(crate) fn down(&self, node: usize) {
        self.running.lock().unwrap()[node].process = None;
    }

    /// Writes down terms and leaders, and brings a process that gave up back, as a supervisor does.
    async fn watch(&self, node: usize, number: u64, machine: Machine, process: Node) {
        loop {
            tokio::select! {
                biased;
                error = process.failed() => {
                    if machine.has_ended() {
                        return;
                    }
                    machine.end();
                    let may = self.running.lock().unwrap()[node].may_fail;
                    self.failed(node, &error, may);
                    break;
                }
                () = sleep(WATCH) => {
                    if machine.has_ended() {
                        return;
                    }
                    self.terms(node, number, &process);
                }
            }
        }
        let mut host = self.host(node).lock().await;
        if host.node().is_some() {
            // Whoever brought the fault about has seen to it.
            return;
        }
        self.down(node);
        host.kill();
        sleep(Duration::from_millis(500)).await;
        self.may_fail(node, false);
        self.start(node, &mut host).await;
    }

    fn terms(&self, node: usize, number: u64, process: &Node) {
        for status in process.status().shards {
            let (shard, term) = (status.shard.0, status.replica.map_or(0, |replica| replica.term));
            let leads = status.leader == Some(id(node));
            let known = self.running.lock().unwrap()[node].known.insert(shard, (term, leads));
            if known == Some((term, leads)) {
                continue;
            }
            if leads {
                self.history.add(What::Leads { shard, term, node, process: number });
            }
        }
    }

    fn failed(&self, node: usize, error: &cluster::StartError, expected: bool) {
        let error = error.to_string();
        self.history.add(What::Failed { node, error, expected });
    }

    /// Starts every node that is down.
    pub(crate) async fn start_all(&self) {
        for node in 0..NODES {
            let mut host = self.host(node).lock().await;
            if host.node().is_none() {
                self.start(node, &mut host).await;
            }
        }
    }

    /// Waits until every node can get claims decided, for so long.
    pub(crate) async fn ready(&self, patience: Duration) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let unready = (0..NODES).find_map(|node| match self.process(node) {
                None => Some(format!("node {node} is down")),
                Some((_, process)) => match process.readiness() {
                    Readiness::Ready => None,
                    Readiness::NotReady(reason) => Some(format!("node {node}: {reason}")),
                },
            });
            match unready {
                None => return Ok(()),
                Some(reason) if begin.elapsed() > patience => return Err(reason),
                Some(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Writes down every replica's digest once all have applied the same.
    pub(crate) async fn digests(&self, patience: Duration) {
        let begin = Instant::now();
        for shard in 0..SHARDS {
            loop {
                let mut digests = Vec::new();
                for node in 0..NODES {
                    let Some((machine, process)) = self.process(node) else { continue };
                    let digest = machine.spawn(async move { process.digest(ShardId(shard)).await });
                    if let Ok(Ok(Some(digest))) = digest.await {
                        digests.push((node, digest));
                    }
                }
                let first = digests.first().map_or(0, |(_, digest)| digest.applied_index);
                let equal = digests.iter().all(|(_, digest)| digest.applied_index == first);
                if digests.len() == NODES && equal || begin.elapsed() > patience {
                    for (node, digest) in digests {
                        let (applied, sha256) = (digest.applied_index, digest.digest);
                        let sha256 = [sha256[0], sha256[1], sha256[2], sha256[3]];
                        self.history.add(What::Digest { shard, node, applied, sha256 });
                    }
                    break;
                }
                sleep(Duration::from_millis(37)).await;
            }
        }
    }
}

/// As [`World::watch`]; a type that can be named, since it starts what it then watches.
fn watched(
    world: World,
    node: usize,
    number: u64,
    machine: Machine,
    process: Node,
) -> BoxFuture<'static, ()> {
    Box::pin(async move { world.watch(node, number, machine, process).await })
}

pub(crate) fn id(node: usize) -> NodeId {
    NodeId(node as u64 + 1)
}

fn config(node: usize) -> NodeConfig {
    let peer = |node: usize| Peer {
        id: id(node),
        addr: ([127, 0, 0, 1], 1000 + node as u16).into(),
        region: "here".to_owned(),
    };
    NodeConfig {
        cluster: "simulated".to_owned(),
        id: id(node),
        data_dir: format!("/simulated/{node}").into(),
        peers: (0..NODES).map(peer).collect(),
        shards: SHARDS,
        secret: Secret::new(b"a secret of the simulation".to_vec()).unwrap(),
        naming: [0; 32],
        quotas: Default::default(),
    }
}

/// A generator of its own for each part of a run, so that one part's draws do not move another's.
pub(crate) fn generator(seed: u64, part: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(part))
}
