//! Crashes, resets and time-outs while the upstream works: fail closed, never run twice, never lock
//! a key for a day.

use std::time::Duration;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order};
use crate::support::policy::{SHORT_LEASES, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

async fn start(rest: &str) -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let cluster = Setup::new(policy(&["a"], rest), upstream.address).start().await;
    (cluster, upstream)
}

/// Posts until the answer is none of those that say "later".
async fn settled(order: &Order, cluster: &Cluster, node: usize) -> Answer {
    for _ in 0..300 {
        let answer = order.post(cluster.gateway(node)).await;
        if !matches!(answer.code().as_str(), "key-in-progress" | "shard-unavailable") {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} is never settled", order.key);
}

fn assert_indeterminate(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, "outcome-indeterminate"));
    let problem = answer.json();
    assert_eq!(problem["retryable"], false);
    assert_eq!(problem["executed"], "unknown");
    assert!(problem["type"].as_str().unwrap().ends_with("outcome-indeterminate"));
}

/// Begins an execution at node 1 that hangs, waits until the upstream has it, and kills the node.
async fn kill_the_front(cluster: &mut Cluster, upstream: &Upstream, order: &Order) {
    let (posting, gateway) = (order.clone(), cluster.gateway(0));
    let client = tokio::spawn(async move { posting.try_post(gateway).await });
    until("the upstream has executed", || async { upstream.executions(&order.key) == 1 }).await;
    cluster.kill(0);
    assert!(client.await.unwrap().is_err(), "the front node died under its client");
}

#[test]
fn c10_c11_c13_when_the_front_dies_the_key_fails_closed_soon() {
    run(async {
        let (mut cluster, upstream) = start(SHORT_LEASES).await;
        let order = Order::new(&fresh_key()).path("/orders?hold=60000");
        kill_the_front(&mut cluster, &upstream, &order).await;
        let died = std::time::Instant::now();
        let answer = settled(&order, &cluster, 1).await;
        assert_indeterminate(&answer);
        // A lease of 2 s, a retention of a day: the key is not locked for the longer of the two.
        assert!(died.elapsed() < Duration::from_secs(6), "after {:?}", died.elapsed());
        for node in [1, 2, 1] {
            assert_indeterminate(&order.post(cluster.gateway(node)).await);
        }
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c10_with_an_idempotent_downstream_it_runs_again() {
    run(async {
        let rest = format!(
            "{SHORT_LEASES}\non_unknown = \"takeover\"\n\
             downstream = [{{ idempotent = true, retention = \"24h\" }}]\n"
        );
        let (mut cluster, upstream) = start(&rest).await;
        let order = Order::new(&fresh_key()).path("/orders?hold=4000");
        kill_the_front(&mut cluster, &upstream, &order).await;
        let answer = settled(&order, &cluster, 1).await;
        assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
        let ledger = upstream.ledger();
        assert_eq!(ledger.len(), 2);
        // On a busy machine a grant may come too late to be used; it is given back, unused, and the
        // next attempt runs.
        assert!(ledger[0].attempt == 1 && ledger[1].attempt >= 2, "{ledger:?}");
        assert!(ledger[1].fence > ledger[0].fence, "{ledger:?}");
        assert!(order.post(cluster.gateway(2)).await.is_replay());
    });
}

#[test]
fn c14_retention_counts_from_completion() {
    run(async {
        let rest = "
            [defaults]
            lease = \"10s\"
            max_execution = \"10s\"
            answer_within = \"10s\"
            retention = \"1s\"
            short_retention = true
            retry_budget = { attempts = 1, max_backoff = \"100ms\" }
        ";
        let (cluster, upstream) = start(rest).await;
        let order = Order::new(&fresh_key()).path("/orders?delay=3000");
        let first = tokio::spawn({
            let (order, gateway) = (order.clone(), cluster.gateway(0));
            async move { order.post(gateway).await }
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        let second = order.post(cluster.gateway(1)).await;
        assert_eq!((second.status.as_u16(), second.code().as_str()), (409, "key-in-progress"));
        assert_eq!(first.await.unwrap().status, 201);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c16_the_outcome_is_kept_when_it_cannot_be_stored_at_once() {
    run(async {
        let (mut cluster, upstream) = start(SHORT_LEASES).await;
        let order = Order::new(&fresh_key()).path("/orders?hold=1500");
        let client = tokio::spawn({
            let (order, gateway) = (order.clone(), cluster.gateway(0));
            async move { order.post(gateway).await }
        });
        until("the upstream has executed", || async { upstream.executions(&order.key) == 1 }).await;
        cluster.kill(1);
        cluster.kill(2);
        let answer = client.await.unwrap();
        let said = (answer.status.as_u16(), answer.code());
        assert!(
            matches!((said.0, said.1.as_str()), (504, "outcome-unknown" | "outcome-pending")),
            "{answer:?}"
        );
        cluster.start(1, &[]);
        cluster.start(2, &[]);
        cluster.ready().await;
        let again = settled(&order, &cluster, 1).await;
        if again.status == 201 {
            assert!(again.is_replay(), "{again:?}");
        } else {
            assert_indeterminate(&again);
        }
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c17_a_client_that_hangs_up_changes_nothing() {
    run(async {
        let (cluster, upstream) = start(SHORT_LEASES).await;
        let order = Order::new(&fresh_key()).path("/orders?delay=2000");
        order.post_and_leave(cluster.gateway(0), Duration::from_millis(500)).await;
        let again = settled(&order, &cluster, 0).await;
        assert!(again.status == 201 && again.is_replay(), "{again:?}");
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c19_a_reset_after_the_work_is_not_a_free_key() {
    run(async {
        let (cluster, upstream) = start(SHORT_LEASES).await;
        let order = Order::new(&fresh_key()).path("/orders?drop=after");
        let first = order.post(cluster.gateway(0)).await;
        assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
        assert_eq!(first.json()["executed"], "unknown");
        assert_indeterminate(&settled(&order, &cluster, 1).await);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c20_a_time_out_is_neither_replayed_nor_run_again() {
    run(async {
        let rest = "
            [defaults]
            lease = \"2s\"
            answer_within = \"2s\"
            max_execution = \"2s\"
        ";
        let (cluster, upstream) = start(rest).await;
        let order = Order::new(&fresh_key()).path("/orders?hold=60000");
        let first = order.post(cluster.gateway(0)).await;
        assert_eq!(first.status, 504, "{first:?}");
        assert!(matches!(first.code().as_str(), "outcome-unknown" | "outcome-pending"));
        assert_indeterminate(&settled(&order, &cluster, 1).await);
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c20_an_answer_that_is_late_for_the_client_becomes_the_stored_response() {
    run(async {
        let rest = "
            [defaults]
            lease = \"5s\"
            answer_within = \"1s\"
            max_execution = \"10s\"
        ";
        let (cluster, upstream) = start(rest).await;
        let order = Order::new(&fresh_key()).path("/orders?hold=2000");
        let first = order.post(cluster.gateway(0)).await;
        assert_eq!((first.status.as_u16(), first.code().as_str()), (504, "outcome-pending"));
        let again = settled(&order, &cluster, 1).await;
        assert!(again.status == 201 && again.is_replay(), "{again:?}");
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

#[test]
fn c22_no_resend_on_dead_keepalive() {
    run(async {
        let (cluster, upstream) = start(SHORT_LEASES).await;
        for _ in 0..10 {
            // Leaves an idle connection in the gateway's pool.
            let kept = Order::new(&fresh_key());
            assert_eq!(kept.post(cluster.gateway(0)).await.status, 201);
            // Goes out on that connection; the upstream reads it whole, works, and closes.
            let order = Order::new(&fresh_key()).path("/orders?drop=after");
            let first = order.post(cluster.gateway(0)).await;
            assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
            assert_eq!(upstream.executions(&order.key), 1);
            // The same before the work: the gateway cannot know, so it does not send again either.
            let order = Order::new(&fresh_key()).path("/orders?drop=before");
            let first = order.post(cluster.gateway(0)).await;
            assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
            assert_eq!(upstream.executions(&order.key), 0);
        }
    });
}

#[test]
fn an_upstream_that_is_not_there_frees_the_key() {
    run(async {
        let upstream = Upstream::start().await;
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let cluster = Setup::new(policy(&["a"], SHORT_LEASES), nobody).start().await;
        let order = Order::new(&fresh_key());
        for _ in 0..2 {
            let answer = order.post(cluster.gateway(0)).await;
            let said = (answer.status.as_u16(), answer.code());
            assert_eq!((said.0, said.1.as_str()), (502, "upstream-unreachable"), "{answer:?}");
            assert_eq!(answer.json()["executed"], "no");
        }
        assert!(upstream.ledger().is_empty());
    });
}

#[test]
fn a_busy_answer_is_passed_on_and_the_key_stays_free() {
    run(async {
        let (cluster, upstream) = start(SHORT_LEASES).await;
        let order = Order::new(&fresh_key());
        let busy = order.clone().path("/orders?status=429").post(cluster.gateway(0)).await;
        assert_eq!((busy.status.as_u16(), busy.is_replay()), (429, false));
        let served = order.post(cluster.gateway(1)).await;
        assert_eq!((served.status.as_u16(), served.is_replay()), (201, false));
        assert_eq!(upstream.executions(&order.key), 2);
    });
}
