//! What outlives the processes of a node: its disk, its records, its clock and its place in the
//! network.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::machine::Promises;
use super::{Machine, Network};
use crate::clock::SimulatedClock;
use crate::config::{NodeConfig, NodeId};
use crate::error::StartError;
use crate::node::{Ground, Node};
use crate::placement::ShardId;
use crate::raft::Checkpoints;
use crate::storage::disk::faulty::FaultyDisk;
use crate::storage::identity::Directory;
use crate::storage::records::{MemoryEngine, Records};
use crate::storage::wal::{Driver, Wal, WalOptions};
use crate::{random, task};

/// How large and how fast things are: small enough that a short run meets every edge.
#[derive(Clone, Debug)]
pub struct Pace {
    /// How long the disk takes to write and sync, in microseconds.
    pub sync_us: RangeInclusive<u64>,
    /// Size of a segment of the log.
    pub segment_bytes: u64,
    /// Log entries between two checkpoints.
    pub checkpoint_entries: u64,
    /// Log entries that a checkpoint leaves.
    pub keep_entries: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            sync_us: 200..=3000,
            segment_bytes: 32 << 10,
            checkpoint_entries: 60,
            keep_entries: 20,
        }
    }
}

/// A node's place, with or without a process that runs there.
pub struct Host {
    config: NodeConfig,
    pace: Pace,
    network: Network,
    clock: SimulatedClock,
    random: StdRng,
    disk: FaultyDisk,
    records: MemoryEngine,
    slowness: Arc<AtomicU32>,
    promises: Promises,
    running: Option<Running>,
}

struct Running {
    machine: Machine,
    node: Node,
}

impl Host {
    /// A place with an empty disk. All that is random follows from `seed`.
    pub fn new(
        config: NodeConfig,
        pace: Pace,
        network: Network,
        clock: SimulatedClock,
        seed: u64,
    ) -> Self {
        Self {
            config,
            pace,
            network,
            clock,
            random: StdRng::seed_from_u64(seed),
            disk: FaultyDisk::default(),
            records: MemoryEngine::default(),
            slowness: Arc::new(AtomicU32::new(1)),
            promises: Promises::default(),
            running: None,
        }
    }

    /// The node's id.
    pub fn id(&self) -> NodeId {
        self.config.id
    }

    /// The machine's clock, whose error can be set.
    pub fn clock(&self) -> &SimulatedClock {
        &self.clock
    }

    /// The process that runs here, unless it has ended.
    pub fn node(&self) -> Option<(&Machine, &Node)> {
        let running = self.running.as_ref()?;
        (!running.machine.has_ended()).then_some((&running.machine, &running.node))
    }

    /// The latest term of each shard in which this node told a peer that it voted.
    pub fn promises(&self) -> BTreeMap<ShardId, u64> {
        self.promises.lock().expect("nothing panics while it holds them").clone()
    }

    /// Starts a process on what the last one left behind.
    ///
    /// # Errors
    /// See [`StartError`]; also when the power went meanwhile.
    pub async fn start(&mut self) -> Result<(), StartError> {
        let machine = Machine::new(self.random.random(), self.clock.clone(), self.promises.clone());
        let site = Site {
            machine: machine.clone(),
            config: self.config.clone(),
            pace: self.pace.clone(),
            network: self.network.clone(),
            disk: self.disk.clone(),
            records: self.records.clone(),
            slowness: self.slowness.clone(),
        };
        let started = machine.spawn(site.start()).await;
        let gone = |_| StartError::Engine("the machine ended while it started".to_owned());
        match started.map_err(gone).and_then(|node| node) {
            Ok(node) => {
                self.running = Some(Running { machine, node });
                Ok(())
            }
            Err(error) => {
                // A process that refuses to start leaves the disk to the next one.
                machine.end();
                self.disk = self.disk.kill();
                self.records = self.records.crash(self.random.random());
                self.network.0.leave(self.config.id);
                Err(error)
            }
        }
    }

    /// Ends the process as SIGKILL does. What it wrote is there for the next one.
    pub fn kill(&mut self) {
        self.end();
        self.disk = self.disk.kill();
        self.records = self.records.crash(self.random.random());
        self.network.0.leave(self.config.id);
    }

    /// Takes the power away. What was not synced is lost, or a part of it. Peers hear nothing of
    /// it.
    pub fn cut_power(&mut self) {
        self.end();
        self.disk = self.disk.crash(self.random.random());
        self.records = self.records.crash(self.random.random());
    }

    /// Has the power go in the middle of the disk operation that is `operations` away. When it has,
    /// [`Host::node`] says that nothing runs, and [`Host::cut_power`] must follow.
    pub fn cut_power_within(&self, operations: u64) {
        self.disk.halt_after(operations);
    }

    /// Stops the process in order.
    pub async fn stop(&mut self) {
        let Some(Running { machine, node }) = self.running.take() else { return };
        let stopped = machine.spawn(async move { node.stop().await }).await;
        drop(stopped);
        // The log's last step comes after a sync's time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        machine.end();
        self.disk = self.disk.kill();
        self.records = self.records.crash(self.random.random());
        self.network.0.leave(self.config.id);
    }

    /// Has the next sync of a file fail.
    pub fn fail_next_sync(&self) {
        self.disk.fail_sync_after(0);
    }

    /// Makes the disk so many times slower.
    pub fn slow_down(&self, factor: u32) {
        self.slowness.store(factor.max(1), Ordering::Relaxed);
    }

    /// Flips a bit of what is written in the log of a process that was stopped in order, and says
    /// where. The bit is drawn from the frames, not from the room behind them.
    pub fn flip_bit(&mut self) -> Option<Flip> {
        let mut files = self.disk.files();
        let segments = files.iter_mut().filter(|(path, _)| is_segment(path));
        let mut written: Vec<_> = segments.filter(|(_, bytes)| end_of(bytes) > 0).collect();
        if written.is_empty() {
            return None;
        }
        let chosen = self.random.random_range(0..written.len());
        let (path, bytes) = &mut written[chosen];
        let offset = self.random.random_range(0..end_of(bytes));
        bytes[offset] ^= 1 << self.random.random_range(0..8);
        let flip = Flip { path: path.to_path_buf(), offset, before: self.disk.clone() };
        self.disk = FaultyDisk::with_files(&files);
        Some(flip)
    }

    /// Puts the disk back to where it was before the flip.
    pub fn undo(&mut self, flip: Flip) {
        self.disk = flip.before.as_after_kill();
    }

    fn end(&mut self) {
        if let Some(Running { machine, .. }) = self.running.take() {
            machine.end();
        }
    }
}

/// A bit that was flipped.
pub struct Flip {
    /// The file.
    pub path: PathBuf,
    /// The byte.
    pub offset: usize,
    before: FaultyDisk,
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wal")
}

/// Where the zeros behind what is written begin.
fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// What a process starts with.
struct Site {
    machine: Machine,
    config: NodeConfig,
    pace: Pace,
    network: Network,
    disk: FaultyDisk,
    records: MemoryEngine,
    slowness: Arc<AtomicU32>,
}

impl Site {
    /// Starts the node, as [`Node::start`] does on a machine of metal.
    async fn start(self) -> Result<Node, StartError> {
        let Self { machine, config, pace, network, disk, records, slowness } = self;
        let instance = random::draw();
        let (files, dir) = (Box::new(disk.clone()), &config.data_dir);
        let directory =
            Directory::simulated(files, dir, &config.cluster, config.id, config.shards, instance)?;
        let options = WalOptions {
            segment_bytes: pace.segment_bytes,
            ..WalOptions::new(dir.join("wal"), directory.may_create_log())
        };
        let (wal, driver) = Wal::open_driven(Arc::new(disk.clone()), options)?;
        let clock = Arc::new(machine.clock().clone());
        task::spawn(write(driver, disk.clone(), machine, pace.sync_us, slowness));
        let records = Records::simulated(records)?;
        let checkpoints = Checkpoints {
            entries: pace.checkpoint_entries,
            keep_entries: pace.keep_entries,
            ..Checkpoints::default()
        };
        let ground = Ground { directory, files: Arc::new(disk), wal, records, clock, checkpoints };
        let id = config.id;
        Node::start_on(ground, config, |_, _, guard, service| {
            Ok(Arc::new(network.0.join(id, guard, service)))
        })
        .await
    }
}

/// The log's thread, as a task: each sync takes its time. When the power goes in the middle of a
/// step, nothing on the machine hears of it any more.
async fn write(
    mut driver: Driver,
    disk: FaultyDisk,
    machine: Machine,
    sync_us: RangeInclusive<u64>,
    slowness: Arc<AtomicU32>,
) {
    loop {
        driver.wanted().await;
        let took = Duration::from_micros(random::rng().random_range(sync_us.clone()));
        tokio::time::sleep(took * slowness.load(Ordering::Relaxed)).await;
        let goes_on = driver.step();
        if disk.is_halted() {
            return machine.end();
        }
        if !goes_on {
            return;
        }
    }
}
