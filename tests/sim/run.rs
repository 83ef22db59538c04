//! A run: start, load with faults, heal, settle, final reads.

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use cluster::simulation::take_steps;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::history::{Event, History, Name, Told, What};
use super::nemesis::Nemesis;
use super::upstream::Upstream;
use super::workload::Users;
use super::world::{NODES, World, generator};

/// How long the load lasts.
const LOAD: Duration = Duration::from_secs(14);
/// How long the faults last; the load goes on for a moment, so that the end of each is met.
const FAULTS: Duration = Duration::from_secs(12);
/// How long a healed cluster may take to be ready.
const HEALED: Duration = Duration::from_secs(20);
/// From here on nothing is in flight any more.
const SETTLED: Duration = Duration::from_secs(9);

/// What a run left.
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    /// How many steps the machines took, and a digest of when.
    pub(crate) steps: (u64, u64),
    /// Tasks that panicked.
    pub(crate) panics: usize,
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Runs the simulation of a seed, on this thread.
pub(crate) fn simulate(seed: u64) -> Outcome {
    count_panics();
    PANICS.set(0);
    take_steps();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let events = runtime.block_on(run(seed));
    drop(runtime);
    Outcome { events, steps: take_steps(), panics: PANICS.get() }
}

/// A task's panic ends the task alone, so it is counted where it happens.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            usual(info);
        }));
    });
}

async fn run(seed: u64) -> Vec<Event> {
    let history = History::begin();
    let world = World::new(history.clone(), &mut generator(seed, 0));
    let upstream = Upstream::new(history.clone(), seed);
    let users = Users::new(world.clone(), upstream);
    world.start_all().await;
    if let Err(reason) = world.ready(HEALED).await {
        history.add(What::Unhealed(format!("never ready: {reason}")));
        return history.events();
    }
    load(&world, &users, seed).await;
    heal(&world).await;
    sleep(SETTLED).await;
    settle(&world, &users, seed).await;
    history.events()
}

async fn load(world: &World, users: &Users, seed: u64) {
    let begin = world.history.now();
    let mut tasks = JoinSet::new();
    for part in 0..6 {
        tasks.spawn(users.clone().client(generator(seed, 100 + part)));
    }
    for part in 0..5 {
        tasks.spawn(users.clone().worker(generator(seed, 200 + part)));
    }
    tasks.spawn(users.clone().reader(generator(seed, 300)));
    tasks.spawn(users.clone().operator(generator(seed, 301)));
    let mut faults = JoinSet::new();
    for part in 0..2 {
        let nemesis = Nemesis { world: world.clone(), random: generator(seed, 400 + part) };
        faults.spawn(nemesis.run(begin + FAULTS));
    }
    while faults.join_next().await.is_some() {}
    sleep(LOAD.saturating_sub(world.history.now() - begin)).await;
    tasks.shutdown().await;
}

/// Takes every fault away and waits until the cluster has got over it.
async fn heal(world: &World) {
    for from in 0..NODES {
        world.usual_ways(from);
    }
    world.start_all().await;
    if let Err(reason) = world.ready(HEALED).await {
        world.history.add(What::Unhealed(reason));
    }
}

/// Looks every key up on every node, and shows that the cluster is of use again.
async fn settle(world: &World, users: &Users, seed: u64) {
    let mut names: Vec<Name> = Vec::new();
    for event in world.history.events() {
        if let What::Asked { name, .. } = event.what {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.dedup();
    let mut random = generator(seed, 500);
    for node in 0..NODES {
        let name = Name { tenant: "acme", key: format!("plain-after-{node}") };
        for _ in 0..10 {
            let told = users.ask(node, name.clone(), 0, random.random()).await;
            if matches!(told, Told::Own { .. } | Told::Replay { .. } | Told::Indeterminate) {
                break;
            }
            sleep(Duration::from_millis(300)).await;
        }
    }
    world.history.add(What::Fault("final reads".to_owned()));
    for node in 0..NODES {
        for name in &names {
            match users.look(node, name, Duration::from_secs(5)).await {
                Some(seen) => {
                    let name = name.clone();
                    world.history.add(What::Final { name, node, seen });
                }
                None => world.history.add(What::Unhealed(format!("{name} is unreadable"))),
            }
        }
    }
    world.digests(Duration::from_secs(10)).await;
}
