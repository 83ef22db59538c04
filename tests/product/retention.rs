//! Retention: counted from completion, exact on every path, and gone afterwards.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::Order;
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// A retention that a test can outlive.
fn kept_for(seconds: u64) -> String {
    format!(
        "[defaults]\nlease = \"2s\"\nretention = \"{seconds}s\"\nshort_retention = true\n\
         retry_budget = {{ attempts = 1, max_backoff = \"500ms\" }}\n"
    )
}

async fn start(seconds: u64) -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = policy(&["a"], &kept_for(seconds));
    (Setup::new(rest, upstream.address).start().await, upstream)
}

#[test]
fn c05_across_the_end_of_retention_nothing_runs_unclaimed() {
    run(async {
        let (cluster, upstream) = start(1).await;
        let order = Order::new(&fresh_key());
        let end = Instant::now() + Duration::from_secs(8);
        let hammer = |node: usize| {
            let (order, gateway) = (order.clone(), cluster.gateway(node));
            async move {
                let mut executed = 0;
                while Instant::now() < end {
                    let answer = order.post(gateway).await;
                    match (answer.status.as_u16(), answer.is_replay()) {
                        (201, false) => executed += 1,
                        (201, true) => {}
                        (409, _) => assert_eq!(answer.code(), "key-in-progress"),
                        _ => panic!("{answer:?}"),
                    }
                }
                executed
            }
        };
        let (one, two, three) = tokio::join!(hammer(0), hammer(1), hammer(2));
        let ledger = upstream.ledger();
        let fences: HashSet<u64> = ledger.iter().map(|execution| execution.fence).collect();
        // One execution a generation, each under a grant of its own, and each told to one client.
        assert_eq!(fences.len(), ledger.len());
        assert_eq!(one + two + three, ledger.len());
        assert!((4..=9).contains(&ledger.len()), "{} generations in 8 s", ledger.len());
    });
}

#[test]
fn c62_c64_the_end_of_retention_is_exact_on_every_node() {
    run(async {
        let (cluster, upstream) = start(4).await;
        let order = Order::new(&fresh_key());
        let first = order.post(cluster.gateway(0)).await;
        let stored = Instant::now();
        assert_eq!(first.header("idempotency-expires"), Some("4"));
        let other = order.clone().body(r#"{"item":"another book"}"#);
        // A second before the end every node still replays, and says for how long.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        for node in 0..3 {
            let asked = stored.elapsed();
            let again = order.post(cluster.gateway(node)).await;
            assert!(again.is_replay(), "node {node}");
            let expires: u64 = again.header("idempotency-expires").unwrap().parse().unwrap();
            let left = Duration::from_secs(4).saturating_sub(asked);
            assert!(expires <= left.as_secs(), "{expires} s left, at most {left:?} are");
            assert_eq!(other.post(cluster.gateway(node)).await.code(), "key-reused");
        }
        // A moment after it the key is new, for another request too.
        tokio::time::sleep(Duration::from_millis(4_300).saturating_sub(stored.elapsed())).await;
        let anew = other.post(cluster.gateway(1)).await;
        assert_eq!((anew.status.as_u16(), anew.is_replay()), (201, false), "{anew:?}");
        for node in 0..3 {
            assert!(other.post(cluster.gateway(node)).await.is_replay(), "node {node}");
            assert_eq!(order.post(cluster.gateway(node)).await.code(), "key-reused");
        }
        assert_eq!(upstream.executions(&order.key), 2);
    });
}

#[test]
fn c71_two_regions_never_run_one_key_apart() {
    run(async {
        let (cluster, upstream) = start(60).await;
        let done = Order::new(&fresh_key());
        assert_eq!(done.post(cluster.gateway(0)).await.status, 201);
        // One region hears nothing of the others any more; they are as good as cut off.
        for node in [0, 1] {
            kill(cluster.nodes[node].pid(), Signal::SIGSTOP).unwrap();
        }
        let order = Order::new(&fresh_key());
        for order in [&order, &done] {
            let begin = Instant::now();
            let alone = order.try_post(cluster.gateway(2)).await.unwrap();
            // Either it still knows the answer, or it says that it cannot tell.
            if alone.status == 201 {
                assert!(alone.is_replay(), "{alone:?}");
            } else {
                assert_eq!(alone.code(), "shard-unavailable", "{alone:?}");
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        }
        assert_eq!(upstream.executions(&order.key), 0, "without a majority nothing runs");
        for node in [0, 1] {
            kill(cluster.nodes[node].pid(), Signal::SIGCONT).unwrap();
        }
        // Healed, all regions at once: it runs in one, and every region replays.
        let race = |node: usize| {
            let (order, gateway) = (order.clone(), cluster.gateway(node));
            async move { order.post(gateway).await.status.as_u16() }
        };
        let (one, two, three) = tokio::join!(race(0), race(1), race(2));
        assert!([one, two, three].iter().all(|status| [201, 409].contains(status)));
        // A claim of the lonely region may come through late; its holder gives it back unused.
        until("it has run", || async { order.post(cluster.gateway(0)).await.is_replay() }).await;
        for node in 0..3 {
            assert!(order.post(cluster.gateway(node)).await.is_replay(), "node {node}");
            assert!(done.post(cluster.gateway(node)).await.is_replay(), "node {node}");
        }
        assert_eq!((upstream.executions(&order.key), upstream.executions(&done.key)), (1, 1));
    });
}
