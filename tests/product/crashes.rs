//! `kill -9` of any node, or of all, at random moments under load: nothing acknowledged is lost,
//! nothing runs twice.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// What clients were told: the first answer of each key that completed.
type Acknowledged = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Clients that post fresh keys, and sometimes old ones again, until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    acknowledged: Acknowledged,
}

impl Load {
    fn start(cluster: &Cluster, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Acknowledged::default();
        let gateways: Vec<_> = (0..3).map(|index| cluster.gateway(index)).collect();
        let mut clients = JoinSet::new();
        for client in 0..8 {
            let (stop, acknowledged, gateways) =
                (stop.clone(), acknowledged.clone(), gateways.clone());
            let mut random = StdRng::seed_from_u64(seed + client);
            clients.spawn(async move {
                let mut mine: Vec<String> = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let key = match mine.choose(&mut random) {
                        Some(old) if random.random_bool(0.4) => old.clone(),
                        _ => fresh_key(),
                    };
                    let gateway = *gateways.choose(&mut random).unwrap();
                    // A broken connection or a 5xx tells nothing: the key is tried again later.
                    if let Ok(answer) = Order::new(&key).try_post(gateway).await {
                        observe(&acknowledged, &key, &answer);
                    }
                    mine.push(key);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
        Self { stop, clients, acknowledged }
    }

    /// Waits until so many keys have completed: a crash of an idle cluster shows nothing.
    async fn completed(&self, count: usize) {
        until("enough keys have completed", || async {
            self.acknowledged.lock().unwrap().len() >= count
        })
        .await;
    }

    async fn end(self) -> BTreeMap<String, Bytes> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        self.acknowledged.lock().unwrap().clone()
    }
}

/// Every answer of a key must be the same as the first.
fn observe(acknowledged: &Acknowledged, key: &str, answer: &Answer) {
    if answer.status == 201 {
        let mut acknowledged = acknowledged.lock().unwrap();
        let first = acknowledged.entry(key.to_owned()).or_insert_with(|| answer.body.clone());
        assert_eq!(*first, answer.body, "{key} has two answers");
    } else {
        assert!(answer.status.as_u16() >= 409, "{key}: {answer:?}");
    }
}

/// Asks for every acknowledged key again, at every node.
async fn assert_nothing_lost(
    cluster: &Cluster,
    upstream: &Upstream,
    acknowledged: &BTreeMap<String, Bytes>,
) {
    for (index, (key, body)) in acknowledged.iter().enumerate() {
        let again = replayed(key, cluster, index).await;
        assert!(again.is_replay(), "{key} was acknowledged and is lost: {again:?}");
        assert_eq!(again.body, *body, "{key} has another answer");
    }
    let mut executions: BTreeMap<String, usize> = BTreeMap::new();
    for execution in upstream.ledger() {
        *executions.entry(execution.key).or_default() += 1;
    }
    for (key, count) in executions {
        assert_eq!(count, 1, "{key} ran {count} times");
    }
}

async fn replayed(key: &str, cluster: &Cluster, index: usize) -> Answer {
    for _ in 0..100 {
        let again = Order::new(key).post(cluster.gateway(index)).await;
        if again.status != 503 {
            return again;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{key} is not answered");
}

#[test]
fn kill_any_node_at_random_moments() {
    run(async {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.start().await;
        let load = Load::start(&cluster, seed);
        for round in 1..=6 {
            load.completed(30 * round).await;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..1000))).await;
            let node = random.random_range(0..3);
            cluster.kill(node);
            tokio::time::sleep(Duration::from_millis(random.random_range(0..1500))).await;
            cluster.start(node, &[]);
            cluster.node_ready(node).await;
        }
        let acknowledged = load.end().await;
        assert_nothing_lost(&cluster, &upstream, &acknowledged).await;
    });
}

#[test]
fn kill_all_nodes_at_random_moments() {
    run(async {
        let seed = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.start().await;
        let load = Load::start(&cluster, seed);
        for round in 1..=4 {
            load.completed(30 * round).await;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..1000))).await;
            for node in 0..3 {
                cluster.kill(node);
            }
            for node in 0..3 {
                cluster.start(node, &[]);
            }
            cluster.ready().await;
        }
        let acknowledged = load.end().await;
        assert_nothing_lost(&cluster, &upstream, &acknowledged).await;
    });
}

/// How often the leader dies between deciding a claim and answering it.
const LEADER_DEATHS: usize = 20;

#[test]
fn c23_the_leader_dies_between_the_decision_and_the_reply() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.prepare();
        let mut random = StdRng::seed_from_u64(rand::random());
        // Every node dies at some decision that it is about to answer; the others go on, and it
        // comes back to die again.
        let arm =
            |random: &mut StdRng| format!("decided-before-reply:{}", random.random_range(5..30));
        for node in 0..3 {
            let point = arm(&mut random);
            cluster.start(node, &["--failpoint", &point]);
        }
        let (mut deaths, mut keys) = (0, Vec::new());
        let begin = Instant::now();
        while deaths < LEADER_DEATHS {
            assert!(begin.elapsed() < Duration::from_secs(150), "only {deaths} leaders died");
            for node in 0..3 {
                if let Some(status) = cluster.has_ended(node) {
                    let aborted = status.signal() == Some(Signal::SIGABRT as i32);
                    assert!(aborted, "not by the failpoint: {status}: {}", cluster.log(node));
                    deaths += 1;
                    let point = arm(&mut random);
                    cluster.start(node, &["--failpoint", &point]);
                }
            }
            let mut posts = JoinSet::new();
            for node in 0..3 {
                let (key, gateway) = (fresh_key(), cluster.gateway(node));
                keys.push(key.clone());
                posts.spawn(async move { Order::new(&key).try_post(gateway).await });
            }
            for answer in posts.join_all().await.into_iter().flatten() {
                let typed = answer.status == 201 || !answer.code().is_empty();
                assert!(typed && answer.status != 409, "409 by itself: {answer:?}");
            }
        }
        for node in 0..3 {
            if cluster.nodes[node].runs() {
                cluster.kill(node);
            }
            cluster.start(node, &[]);
        }
        cluster.ready().await;
        // No key is stuck past its lease: each has run, or is free, or says that nobody knows.
        for (index, key) in keys.iter().enumerate() {
            until("the key is settled", || async {
                let answer = Order::new(key).post(cluster.gateway(index)).await;
                answer.status == 201 || answer.code() == "outcome-indeterminate"
            })
            .await;
            assert!(upstream.executions(key) <= 1, "{key} ran twice");
        }
    });
}
