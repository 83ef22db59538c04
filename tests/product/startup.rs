//! Starting and stopping: what is refused with one clear line, and what a stop leaves behind.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::Order;
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

fn oncegate(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The process refused: status 1, nothing on stdout, one line on stderr that holds all of `words`.
fn assert_refused(output: &Output, words: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let errors: Vec<_> = stderr.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(errors.len(), 1, "one clear line: {stderr}");
    for word in words {
        assert!(errors[0].contains(word), "`{word}` is not in: {}", errors[0]);
    }
}

fn one_node(upstream: std::net::SocketAddr) -> Cluster {
    Setup { nodes: 1, ..Setup::new(policy(&["a"], SHORT_LEASES), upstream) }.prepare()
}

const SERVE: [&str; 5] = ["serve", "--config", "1.toml", "--policy", "policy.toml"];

fn replace(cluster: &Cluster, file: &str, old: &str, new: &str) {
    let path = cluster.folder.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{file} has no {old}");
    fs::write(&path, text.replace(old, new)).unwrap();
}

#[test]
fn a_taken_port_is_named_and_nothing_is_written() {
    run(async {
        let cluster = one_node("127.0.0.1:9".parse().unwrap());
        let folder = cluster.folder.path();
        for address in [cluster.nodes[0].peer, cluster.nodes[0].api, cluster.nodes[0].gateway] {
            let _taken = TcpListener::bind(address).unwrap();
            assert_refused(&oncegate(&SERVE, folder), &[&address.to_string(), "in use"]);
            assert!(!folder.join("data").exists(), "something was written");
        }
    });
}

#[test]
fn configuration_mistakes_name_file_line_and_rule() {
    run(async {
        let cluster = one_node("127.0.0.1:9".parse().unwrap());
        let folder = cluster.folder.path();
        replace(&cluster, "1.toml", "data_dir", "data_dri");
        let output = oncegate(&SERVE, folder);
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("1.toml:7") && stderr.contains("data_dri"), "{stderr}");
        replace(&cluster, "1.toml", "data_dri", "data_dir");

        replace(&cluster, "policy.toml", "lease = \"2s\"", "lease = \"2 apples\"");
        let output = oncegate(&SERVE, folder);
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("policy.toml:") && stderr.contains("lease"), "{stderr}");
        let check = oncegate(&["config", "check", "policy.toml"], folder);
        assert_eq!(check.status.code(), Some(1));
        assert!(!folder.join("data").exists(), "something was written");
    });
}

#[test]
fn a_data_directory_of_another_node_or_cluster_is_refused() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = one_node(upstream.address);
        cluster.start(0, &[]);
        cluster.ready().await;
        assert_eq!(cluster.stop(0).await, Some(0));
        let folder = cluster.folder.path().to_owned();
        replace(&cluster, "1.toml", "name = \"test\"", "name = \"other\"");
        assert_refused(&oncegate(&SERVE, &folder), &["data/1", "test"]);
        replace(&cluster, "1.toml", "name = \"other\"", "name = \"test\"\nshards = 4");
        assert_refused(&oncegate(&SERVE, &folder), &["data/1", "shards"]);
        replace(&cluster, "1.toml", "\nshards = 4", "");
        replace(&cluster, "1.toml", "id = 1", "id = 2");
        assert_refused(&oncegate(&SERVE, &folder), &["data/1", "node"]);
    });
}

#[test]
fn a_damaged_log_is_refused_with_file_offset_and_remedy() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = one_node(upstream.address);
        cluster.start(0, &[]);
        cluster.ready().await;
        for _ in 0..20 {
            assert_eq!(Order::new(&fresh_key()).post(cluster.gateway(0)).await.status, 201);
        }
        assert_eq!(cluster.stop(0).await, Some(0));
        let folder = cluster.folder.path().to_owned();
        let log = folder.join("data/1/wal");
        let mut segments: Vec<_> =
            fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        let used = |path: &&std::path::PathBuf| fs::read(path).unwrap().iter().any(|b| *b != 0);
        let segment = segments.iter().find(used).unwrap();
        let mut bytes = fs::read(segment).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[end / 2] ^= 0x40;
        fs::write(segment, &bytes).unwrap();
        let name = segment.file_name().unwrap().to_str().unwrap();
        assert_refused(&oncegate(&SERVE, &folder), &[name, "damaged", "remove this node"]);
    });
}

#[test]
fn a_stop_is_graceful_and_a_restart_remembers() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.start().await;
        let slow = Order::new(&fresh_key()).path("/orders?delay=1000");
        let client = tokio::spawn({
            let (slow, gateway) = (slow.clone(), cluster.gateway(0));
            async move { slow.post(gateway).await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        // The node that executes is asked to stop: it finishes first.
        assert_eq!(cluster.stop(0).await, Some(0));
        assert_eq!(client.await.unwrap().status, 201);
        cluster.start(0, &[]);
        cluster.ready().await;
        for node in [1, 2] {
            assert_eq!(cluster.stop(node).await, Some(0));
            cluster.start(node, &[]);
            cluster.ready().await;
        }
        assert!(slow.post(cluster.gateway(0)).await.is_replay());
        assert_eq!(upstream.executions(&slow.key), 1);
    });
}

#[test]
fn a_wiped_node_does_not_come_back_under_its_old_id() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.start().await;
        assert_eq!(cluster.stop(2).await, Some(0));
        fs::remove_dir_all(cluster.folder.path().join("data/3")).unwrap();
        cluster.start(2, &[]);
        cluster.ended(2).await;
        let log = cluster.log(2);
        assert!(log.contains("refuses this node"), "{log}");
    });
}

#[test]
fn two_wiped_nodes_form_no_new_cluster_beside_the_third() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let mut cluster = setup.start().await;
        let order = Order::new(&fresh_key());
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        for node in 0..3 {
            assert_eq!(cluster.stop(node).await, Some(0));
        }
        for node in ["data/1", "data/2"] {
            fs::remove_dir_all(cluster.folder.path().join(node)).unwrap();
        }
        for node in 0..3 {
            cluster.start(node, &[]);
        }
        // Both wiped nodes learn from the third that they are not the members it knows.
        cluster.ended(0).await;
        cluster.ended(1).await;
        let again = order.post(cluster.gateway(2)).await;
        assert_eq!((again.status.as_u16(), again.code().as_str()), (503, "shard-unavailable"));
        assert_eq!(upstream.executions(&order.key), 1);
    });
}
