//! What failed closed is settled by an operator, with the command line, on the real cluster.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::Order;
use crate::support::policy::{SHORT_LEASES, admin, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = [SHORT_LEASES, &admin("ops", "operator"), &admin("eye", "viewer")].concat();
    let cluster = Setup::new(policy(&["a", "b"], &rest), upstream.address).start().await;
    (cluster, upstream)
}

/// `oncegate records` with these arguments, as this admin; `input` on standard input.
fn records(api: SocketAddr, admin: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .arg("records")
        .args(arguments)
        .args(["--api", &api.to_string(), "--json"])
        .env("ONCEGATE_TOKEN", admin)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn fine(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(output: &Output, words: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(words), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
}

/// A request whose upstream dies in the middle: nobody can tell whether it was executed.
async fn fail_closed(cluster: &Cluster, order: &Order) {
    let answer = order.post(cluster.gateway(0)).await;
    assert_eq!(answer.code(), "outcome-unknown", "{}", answer.text());
    let again = order.clone();
    until("the key fails closed", || async {
        again.post(cluster.gateway(1)).await.code() == "outcome-indeterminate"
    })
    .await;
}

fn only(list: &Value, key: &str) -> Value {
    let records = list["records"].as_array().unwrap();
    let mut ours = records.iter().filter(|record| record["key"] == key);
    let record = ours.next().unwrap_or_else(|| panic!("{key} is not in {list}")).clone();
    assert!(ours.next().is_none());
    record
}

#[test]
fn an_operator_settles_what_failed_closed_and_every_node_replays_it() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key()).path("/orders?drop=after");
        fail_closed(&cluster, &order).await;

        let list = fine(&records(cluster.api(2), "eye", &["list"], ""));
        let record = only(&list, &order.key);
        assert_eq!((&record["tenant"], &record["state"]), (&"a".into(), &"indeterminate".into()));
        let (id, fence) = (record["record"].as_str().unwrap(), record["fence"].to_string());

        let response = r#"{"status":201,"headers":[["Location","/orders/7"]],"json":{"id":7}}"#;
        let arguments = |reason| {
            ["resolve", "--record", id, "--fence", &fence, "--completed", "-", "--reason", reason]
        };
        let viewer = records(cluster.api(0), "eye", &arguments("looked it up"), response);
        refused(&viewer, "forbidden");
        refused(&records(cluster.api(0), "a stranger", &["list"], ""), "unauthenticated");
        let settled = fine(&records(cluster.api(0), "ops", &arguments("looked it up"), response));
        assert_eq!(settled["state"], "completed");
        refused(&records(cluster.api(1), "ops", &arguments("again"), response), "stale-fence");

        for node in [0, 1, 2] {
            let replay = order.post(cluster.gateway(node)).await;
            assert_eq!((replay.status.as_u16(), replay.is_replay()), (201, true));
            assert_eq!(replay.header("location"), Some("/orders/7"));
            assert_eq!(replay.json(), serde_json::json!({ "id": 7 }));
        }
        assert_eq!(upstream.executions(&order.key), 1, "settling executes nothing");
        let names = ["get", "--tenant", "a", "--operation", "POST /orders", "--key", &order.key];
        let shown = fine(&records(cluster.api(1), "eye", &names, ""));
        assert_eq!(shown["history"][0]["by"], "ops");
        assert_eq!(shown["history"][0]["reason"], "looked it up");
        let list = fine(&records(cluster.api(1), "eye", &["list"], ""));
        assert_eq!(list["records"], serde_json::json!([]));
    });
}

#[test]
fn a_released_key_runs_once_more_and_a_forgotten_one_begins_anew() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key()).path("/orders?drop=after");
        fail_closed(&cluster, &order).await;
        let record = only(&fine(&records(cluster.api(0), "ops", &["list"], "")), &order.key);
        let (id, fence) = (record["record"].as_str().unwrap(), record["fence"].to_string());
        let release =
            ["resolve", "--record", id, "--fence", &fence, "--released", "--reason", "not there"];
        refused(&records(cluster.api(0), "ops", &release, ""), "may still be executing");
        let forced = [&release[..], &["--force"]].concat();
        assert_eq!(fine(&records(cluster.api(0), "ops", &forced, ""))["state"], "released");

        let order = Order { path: "/orders".into(), ..order };
        let again = order.post(cluster.gateway(2)).await;
        assert_eq!((again.status.as_u16(), again.is_replay()), (201, false), "{}", again.text());
        assert_eq!(upstream.executions(&order.key), 2, "once before, and once as released");

        let names = ["get", "--record", id];
        let shown = fine(&records(cluster.api(1), "eye", &names, ""));
        let fence = shown["fence"].to_string();
        let forget = ["forget", "--record", id, "--fence", &fence, "--reason", "a test order"];
        assert_eq!(fine(&records(cluster.api(1), "ops", &forget, ""))["state"], "forgotten");
        until("the key is free", || async {
            let answer = order.post(cluster.gateway(0)).await;
            assert!(!answer.is_replay(), "a forgotten outcome is replayed");
            answer.status.as_u16() == 201
        })
        .await;
        assert_eq!(upstream.executions(&order.key), 3);
    });
}

#[test]
fn c29_forget_reaches_one_record_of_one_tenant_and_none_in_flight() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key());
        let theirs = order.clone().tenant("b").body(r#"{"item":"their book"}"#);
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        let forget = |tenant: &str, key: &str, fence: &str| {
            let names = ["--tenant", tenant, "--operation", "POST /orders", "--key", key];
            let rest = ["--fence", fence, "--reason", "asked for"];
            let arguments = [&["forget"], &names[..], &rest[..]].concat();
            records(cluster.api(1), "ops", &arguments, "")
        };
        refused(&forget("b", &order.key, "1"), "not-found");
        refused(&forget("a", &fresh_key(), "1"), "not-found");
        assert_eq!(theirs.post(cluster.gateway(0)).await.status, 201);

        let slow = Order::new(&fresh_key()).path("/orders?delay=4000");
        let running = tokio::spawn({
            let (slow, gateway) = (slow.clone(), cluster.gateway(0));
            async move { slow.post(gateway).await }
        });
        let slow = slow.path("/orders");
        until("it runs", || async {
            let names = ["--tenant", "a", "--operation", "POST /orders", "--key", &slow.key];
            let shown = [&["get"], &names[..]].concat();
            records(cluster.api(1), "eye", &shown, "").status.success()
        })
        .await;
        refused(&forget("a", &slow.key, "1"), "invalid-request");
        assert_eq!(running.await.unwrap().status, 201);

        fine(&forget("a", &order.key, "1"));
        until("the key is free", || async {
            let answer = order.post(cluster.gateway(2)).await;
            assert!(!answer.is_replay(), "a forgotten outcome is replayed");
            answer.status.as_u16() == 201
        })
        .await;
        assert!(theirs.post(cluster.gateway(2)).await.is_replay(), "the other tenant's stays");
        assert_eq!(upstream.executions(&order.key), 3, "twice for one tenant, once for the other");
    });
}
