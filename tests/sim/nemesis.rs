//! Faults, one after the other: each is installed, lasts for a while, and is taken away again.

use std::time::Duration;

use cluster::simulation::Host;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{sleep, timeout};

use super::history::What;
use super::world::{NODES, World, id};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Kill,
    KillAll,
    PowerCut,
    PowerCutInOperation,
    PowerCutInElection,
    PowerCutAll,
    Isolate,
    OneWay,
    Bridge,
    Severed,
    Delay,
    Loss,
    ClockJump,
    ClockSkew,
    Pause,
    FailedSync,
    SlowDisk,
    Restart,
    BitFlip,
    LongAbsence,
}

impl Fault {
    pub(crate) const ALL: [Self; 20] = [
        Self::Kill,
        Self::KillAll,
        Self::PowerCut,
        Self::PowerCutInOperation,
        Self::PowerCutInElection,
        Self::PowerCutAll,
        Self::Isolate,
        Self::OneWay,
        Self::Bridge,
        Self::Severed,
        Self::Delay,
        Self::Loss,
        Self::ClockJump,
        Self::ClockSkew,
        Self::Pause,
        Self::FailedSync,
        Self::SlowDisk,
        Self::Restart,
        Self::BitFlip,
        Self::LongAbsence,
    ];

    /// The fault's name in the history.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillAll => "kill all",
            Self::PowerCut => "power cut",
            Self::PowerCutInOperation => "power cut within a disk operation",
            Self::PowerCutInElection => "power cut in an election",
            Self::PowerCutAll => "power cut of all",
            Self::Isolate => "isolated node",
            Self::OneWay => "one-way cut",
            Self::Bridge => "bridge",
            Self::Severed => "severed node",
            Self::Delay => "delay",
            Self::Loss => "loss",
            Self::ClockJump => "clock jump",
            Self::ClockSkew => "clock skew",
            Self::Pause => "pause",
            Self::FailedSync => "failed sync",
            Self::SlowDisk => "slow disk",
            Self::Restart => "restart in order",
            Self::BitFlip => "bit flip",
            Self::LongAbsence => "long absence",
        }
    }
}

/// Brings faults about. Several may work at the same time; a node's process is one's alone.
pub(crate) struct Nemesis {
    pub(crate) world: World,
    pub(crate) random: StdRng,
}

impl Nemesis {
    /// One fault after the other, until it is dropped or `until` is over. Ends between two faults.
    pub(crate) async fn run(mut self, until: Duration) {
        while self.world.history.now() < until {
            self.pause(20..400).await;
            let fault = Fault::ALL[self.random.random_range(0..Fault::ALL.len())];
            let node = self.random.random_range(0..NODES);
            self.world.history.add(What::Fault(format!("{} of node {node}", fault.name())));
            if self.bring(fault, node).await {
                self.world.history.add(What::Installed(fault.name()));
            }
        }
    }

    /// Whether the fault was really there.
    async fn bring(&mut self, fault: Fault, node: usize) -> bool {
        match fault {
            Fault::Kill => self.with_host(node, Self::kill).await,
            Fault::PowerCut => self.with_host(node, Self::cut_power).await,
            Fault::PowerCutInOperation => self.with_host(node, Self::cut_power_within).await,
            Fault::PowerCutInElection => self.with_host(node, Self::cut_power_in_election).await,
            Fault::FailedSync => self.with_host(node, Self::fail_sync).await,
            Fault::Restart => self.with_host(node, Self::restart).await,
            Fault::BitFlip => self.with_host(node, Self::flip_bit).await,
            Fault::LongAbsence => self.with_host(node, Self::stay_away).await,
            Fault::KillAll => self.all(false).await,
            Fault::PowerCutAll => self.all(true).await,
            Fault::Isolate | Fault::OneWay | Fault::Bridge | Fault::Severed => {
                self.part(fault, node).await
            }
            Fault::Delay | Fault::Loss => self.worsen(fault, node).await,
            Fault::ClockJump | Fault::ClockSkew => self.set_clock(fault, node).await,
            Fault::Pause => self.stand_still(node).await,
            Fault::SlowDisk => self.slow_disk(node).await,
        }
    }

    async fn pause(&mut self, range_ms: std::ops::Range<u64>) {
        sleep(Duration::from_millis(self.random.random_range(range_ms))).await;
    }

    /// Has a node's place to itself while `fault` is about it; `false` when another fault has it.
    async fn with_host(
        &mut self,
        node: usize,
        fault: impl AsyncFnOnce(&mut Self, usize, &mut Host) -> bool,
    ) -> bool {
        let world = self.world.clone();
        let Ok(mut host) = world.host(node).try_lock() else { return false };
        if host.node().is_none() {
            return false;
        }
        let installed = fault(self, node, &mut host).await;
        if host.node().is_none() {
            self.world.start(node, &mut host).await;
        }
        installed
    }

    async fn kill(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.down(node);
        host.kill();
        self.pause(1..2500).await;
        true
    }

    async fn stay_away(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.down(node);
        host.kill();
        self.pause(5000..9000).await;
        true
    }

    async fn cut_power(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.down(node);
        host.cut_power();
        self.pause(1..2500).await;
        true
    }

    async fn cut_power_within(&mut self, node: usize, host: &mut Host) -> bool {
        host.cut_power_within(self.random.random_range(0..8));
        let gone = async {
            while host.node().is_some() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let in_operation = timeout(Duration::from_secs(2), gone).await.is_ok();
        self.cut_power(node, host).await;
        in_operation
    }

    /// Waits until the node tells a peer that it voted, and takes the power away at once.
    async fn cut_power_in_election(&mut self, node: usize, host: &mut Host) -> bool {
        let before = host.promises();
        let voted = async {
            while host.promises() == before {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let voted = timeout(Duration::from_secs(4), voted).await.is_ok();
        self.cut_power(node, host).await;
        voted
    }

    async fn fail_sync(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.may_fail(node, true);
        host.fail_next_sync();
        self.pause(1500..2500).await;
        // The process has given up; whoever watches it waits for this place to end it.
        let gave_up = host.node().is_none();
        self.world.down(node);
        host.cut_power();
        self.world.may_fail(node, false);
        gave_up
    }

    async fn restart(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.down(node);
        host.stop().await;
        self.pause(1..500).await;
        true
    }

    /// A flipped bit in a stopped node's log keeps it from starting, or does no harm. Its operator
    /// then brings the disk back as it was.
    async fn flip_bit(&mut self, node: usize, host: &mut Host) -> bool {
        self.world.down(node);
        host.stop().await;
        let Some(flip) = host.flip_bit() else { return false };
        self.world.may_fail(node, true);
        let started = self.world.start(node, host).await;
        self.world.may_fail(node, false);
        if !started {
            host.undo(flip);
        }
        !started
    }

    async fn all(&mut self, power: bool) -> bool {
        let world = self.world.clone();
        let mut hosts = Vec::new();
        for node in 0..NODES {
            let Ok(host) = world.host(node).try_lock() else { return false };
            hosts.push(host);
        }
        for (node, host) in hosts.iter_mut().enumerate() {
            world.down(node);
            match power {
                true => host.cut_power(),
                false => host.kill(),
            }
        }
        self.pause(1..1000).await;
        for (node, host) in hosts.iter_mut().enumerate() {
            world.start(node, host).await;
            self.pause(0..300).await;
        }
        true
    }

    async fn part(&mut self, fault: Fault, node: usize) -> bool {
        let network = self.world.network.clone();
        let others: Vec<_> = (0..NODES).filter(|other| *other != node).collect();
        match fault {
            Fault::Isolate => {
                for other in &others {
                    network.cut(id(node), id(*other));
                    network.cut(id(*other), id(node));
                }
            }
            Fault::OneWay => {
                let outwards = self.random.random::<bool>();
                for other in &others {
                    let (from, to) = if outwards { (node, *other) } else { (*other, node) };
                    network.cut(id(from), id(to));
                }
            }
            // The node reaches both of the others, who do not reach each other.
            Fault::Bridge => network.sever(id(others[0]), id(others[1])),
            _ => others.iter().for_each(|other| network.sever(id(node), id(*other))),
        }
        self.pause(300..3500).await;
        self.heal();
        true
    }

    /// Joins all nodes again. It ends what another nemesis has parted too.
    fn heal(&self) {
        for one in 0..NODES {
            for other in one + 1..NODES {
                self.world.network.heal(id(one), id(other));
            }
        }
    }

    async fn worsen(&mut self, fault: Fault, node: usize) -> bool {
        let slowest = [30, 80, 300][self.random.random_range(0..3)];
        let share = [0.01, 0.05, 0.2][self.random.random_range(0..3)];
        for other in (0..NODES).filter(|other| *other != node) {
            for (from, to) in [(node, other), (other, node)] {
                let (from, to) = (id(from), id(to));
                if fault == Fault::Delay {
                    let slow = Duration::from_millis(slowest);
                    self.world.network.delay(from, to, slow / 2..=slow);
                } else {
                    self.world.network.lose(from, to, share);
                }
            }
        }
        self.pause(500..3500).await;
        (0..NODES).for_each(|from| self.world.usual_ways(from));
        true
    }

    async fn set_clock(&mut self, fault: Fault, node: usize) -> bool {
        let error_ms = match fault {
            Fault::ClockSkew => self.random.random_range(-450..=450),
            _ => [-3_600_000, -5_000, -900, 900, 5_000, 3_600_000][self.random.random_range(0..6)],
        };
        let Ok(clock) = self.world.host(node).try_lock().map(|host| host.clock().clone()) else {
            return false;
        };
        clock.jump_to(error_ms);
        self.pause(500..3500).await;
        clock.jump_to(self.random.random_range(-200..=200));
        true
    }

    async fn stand_still(&mut self, node: usize) -> bool {
        let Some((machine, _)) = self.world.process(node) else { return false };
        machine.stand_still();
        self.pause(50..5000).await;
        machine.go_on();
        true
    }

    async fn slow_disk(&mut self, node: usize) -> bool {
        let factor = [10, 50, 200][self.random.random_range(0..3)];
        let Ok(host) = self.world.host(node).try_lock() else { return false };
        host.slow_down(factor);
        drop(host);
        self.pause(500..4000).await;
        self.world.host(node).lock().await.slow_down(1);
        true
    }
}
