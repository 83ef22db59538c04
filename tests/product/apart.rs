//! Gateways without a node: many of them before the same cluster.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Order, claims, send};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// A gateway that runs; it is killed when the test ends.
struct Gateway {
    listen: SocketAddr,
    api: SocketAddr,
    process: Child,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Ended already where a test has stopped it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Gateway {
    /// Starts one beside `cluster`, in front of `upstream`.
    async fn start(cluster: &Cluster, upstream: &Upstream, name: &str) -> Self {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [listen, api] = listeners.map(|listener| listener.local_addr().unwrap());
        let peers: String = cluster
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| format!("{{ id = {}, addr = \"{}\" }}, ", index + 1, node.peer))
            .collect();
        let text = format!(
            "[cluster]\nname = \"test\"\nsecret_file = \"cluster.secret\"\npeers = [{peers}]\n\
             policy = \"policy.toml\"\n[api]\nlisten = \"{api}\"\n\
             [gateway]\nlisten = \"{listen}\"\nupstream = \"http://{}\"\nregion = \"eu-west\"\n",
            upstream.address
        );
        let file = cluster.folder.path().join(format!("{name}.toml"));
        fs::write(&file, text).unwrap();
        let log = File::create(cluster.folder.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.arg("gateway").arg("--config").arg(&file).stdin(Stdio::null());
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let gateway = Self { listen, api, process };
        until("the gateway is ready", || gateway.answers("/readyz", 200)).await;
        gateway
    }

    async fn answers(&self, path: &str, status: u16) -> bool {
        let answer = send(self.api, Method::GET, path, &[], "").await;
        answer.is_ok_and(|answer| answer.status == status)
    }
}

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    // The nodes have no gateway of their own.
    let mut setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
    setup.upstream = None;
    (setup.start().await, upstream)
}

#[test]
fn gateways_without_a_node_share_one_judge() {
    run(async {
        let (cluster, upstream) = start().await;
        let one = Gateway::start(&cluster, &upstream, "one").await;
        let other = Gateway::start(&cluster, &upstream, "other").await;
        let order = Order::new(&fresh_key());
        let (first, second) = tokio::join!(order.post(one.listen), order.post(other.listen));
        let statuses = [first.status.as_u16(), second.status.as_u16()];
        assert!(statuses.contains(&201), "{first:?} {second:?}");
        assert_eq!(upstream.executions(&order.key), 1);
        for gateway in [&one, &other] {
            until("a repeat is a replay", || async {
                order.post(gateway.listen).await.is_replay()
            })
            .await;
            let changed = order.clone().body("{}").post(gateway.listen).await;
            assert_eq!(changed.code(), "key-reused");
        }
        let claim =
            json!({ "operation": "charge", "key": "k", "attempt": "1", "fingerprint": "f" });
        let granted = claims(one.api, "a", "/v1/claims", &claim).await.unwrap();
        assert_eq!(granted.status, 201, "{}", granted.text());
        let again =
            json!({ "operation": "charge", "key": "k", "attempt": "2", "fingerprint": "f" });
        let refused = claims(other.api, "a", "/v1/claims", &again).await.unwrap();
        assert_eq!(refused.code(), "key-in-progress");
    });
}

#[test]
fn nodes_may_die_behind_a_gateway_and_without_a_majority_nothing_runs() {
    run(async {
        let (mut cluster, upstream) = start().await;
        let mut gateway = Gateway::start(&cluster, &upstream, "one").await;
        let orders: Vec<_> = (0..12).map(|_| Order::new(&fresh_key())).collect();
        cluster.kill(0);
        for order in &orders {
            assert_eq!(order.post(gateway.listen).await.status, 201);
        }
        cluster.kill(1);
        until("the gateway sees that there is no majority", || gateway.answers("/readyz", 503))
            .await;
        let begin = Instant::now();
        let late = Order::new(&fresh_key());
        let answer = late.try_post(gateway.listen).await.unwrap();
        assert_eq!(answer.code(), "shard-unavailable", "{}", answer.text());
        assert_eq!(answer.json()["executed"], "no");
        assert!(begin.elapsed() < Duration::from_secs(10), "after {:?}", begin.elapsed());
        assert_eq!(upstream.executions(&late.key), 0);
        for node in [0, 1] {
            cluster.start(node, &[]);
        }
        until("there is a majority again", || gateway.answers("/readyz", 200)).await;
        for order in &orders {
            assert!(order.post(gateway.listen).await.is_replay());
            assert_eq!(upstream.executions(&order.key), 1);
        }

        // It stops in order: what runs is finished.
        let slow = Order::new(&fresh_key()).path("/orders?hold=1000");
        let listen = gateway.listen;
        let running = tokio::spawn({
            let slow = slow.clone();
            async move { slow.try_post(listen).await }
        });
        until("it runs", || std::future::ready(upstream.executions(&slow.key) == 1)).await;
        kill(Pid::from_raw(gateway.process.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(running.await.unwrap().unwrap().status, 201);
        let ended = tokio::task::spawn_blocking(move || gateway.process.wait().unwrap().code());
        assert_eq!(ended.await.unwrap(), Some(0));
    });
}
