//! Operators move leaderships and restart nodes while requests go on.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::Order;
use crate::support::policy::{admin, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// How long a node that is asked to stop may take to exit.
const STOP_MAX: Duration = Duration::from_secs(10);

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let admins = [admin("ops", "operator"), admin("eye", "viewer")].concat();
    let cluster = Setup::new(policy(&["a"], &admins), upstream.address).start().await;
    (cluster, upstream)
}

/// `oncegate cluster` with these arguments, as this admin: exit status, output, errors.
async fn cluster_command(
    api: SocketAddr,
    admin: &'static str,
    arguments: &str,
) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.arg("cluster").args(arguments.split(' ')).args(["--api", &api.to_string()]);
    command.env("ONCEGATE_TOKEN", admin);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn status(api: SocketAddr) -> Value {
    let (code, json, error) = cluster_command(api, "eye", "status --json").await;
    assert_eq!((code, error.as_str()), (Some(0), ""));
    serde_json::from_str(&json).unwrap()
}

#[test]
fn an_operator_sees_the_cluster_and_moves_a_leadership() {
    run(async {
        let (cluster, _upstream) = start().await;
        let seen = status(cluster.api(1)).await;
        assert_eq!(seen["node"], 2, "{seen}");
        let regions: Vec<_> =
            seen["nodes"].as_array().unwrap().iter().map(|node| &node["region"]).collect();
        assert_eq!(regions, ["eu-west", "us-east", "ap-south"]);
        let leader = seen["shards"][0]["leader"].as_u64().unwrap();
        let to = leader % 3 + 1;
        let transfer = format!("transfer --shard 0 --to {to}");
        let (code, _, error) = cluster_command(cluster.api(0), "eye", &transfer).await;
        assert_eq!(code, Some(1), "a viewer only looks");
        assert!(error.contains("forbidden"), "{error}");
        let (code, said, error) = cluster_command(cluster.api(0), "ops", &transfer).await;
        assert_eq!((code, error.as_str()), (Some(0), ""));
        assert_eq!(said, format!("node {to} leads shard 0\n"));
        until("every node knows", || async {
            status(cluster.api(2)).await["shards"][0]["leader"] == to
        })
        .await;
        let (code, _, error) =
            cluster_command(cluster.api(0), "ops", "transfer --shard 99 --to 1").await;
        assert_eq!(code, Some(1));
        assert!(error.contains("no such shard"), "{error}");
    });
}

/// Clients that post fresh keys at every gateway but one, and accept no failure.
struct Load {
    stop: Arc<AtomicBool>,
    /// Which gateway gets no new request; none when there is no such gateway.
    away: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
    clients: JoinSet<()>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (away, answered) = (Arc::new(AtomicUsize::new(3)), Arc::<AtomicUsize>::default());
        let gateways: Vec<_> = (0..3).map(|index| cluster.gateway(index)).collect();
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let (stop, away, answered) = (stop.clone(), away.clone(), answered.clone());
            let gateways = gateways.clone();
            clients.spawn(async move {
                let mut gateway = client;
                while !stop.load(Ordering::Relaxed) {
                    gateway = (gateway + 1) % 3;
                    if gateway == away.load(Ordering::Relaxed) {
                        continue;
                    }
                    let order = Order::new(&fresh_key());
                    let answer = order.try_post(gateways[gateway]).await;
                    let answer = match answer {
                        Ok(answer) => answer,
                        // Chosen just before it began to stop: it took no connection any more.
                        Err(error)
                            if error.contains("refused")
                                && gateway == away.load(Ordering::Relaxed) =>
                        {
                            continue;
                        }
                        Err(error) => panic!("at {gateway}: {error}"),
                    };
                    assert_eq!(answer.status, 201, "at {gateway}: {}", answer.text());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { stop, away, answered, clients }
    }

    async fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        let more = || self.answered.load(Ordering::Relaxed) > before + 20;
        until("requests are answered", || std::future::ready(more() || self.clients.is_empty()))
            .await;
    }

    async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("no request fails");
        }
    }
}

#[test]
fn a_rolling_restart_fails_no_request() {
    run(async {
        let (mut cluster, upstream) = start().await;
        let load = Load::start(&cluster);
        load.goes_on().await;
        for node in 0..3 {
            load.away.store(node, Ordering::Relaxed);
            let begin = Instant::now();
            assert_eq!(cluster.stop(node).await, Some(0), "{}", cluster.log(node));
            assert!(begin.elapsed() < STOP_MAX, "stopped after {:?}", begin.elapsed());
            load.goes_on().await;
            cluster.start(node, &[]);
            cluster.node_ready(node).await;
            load.away.store(3, Ordering::Relaxed);
            load.goes_on().await;
        }
        let answered = load.answered.clone();
        load.stop().await;
        assert_eq!(upstream.ledger().len(), answered.load(Ordering::Relaxed), "each ran once");
    });
}
