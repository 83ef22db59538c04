//! Quotas: who has no room left gets no new keys, and keeps what it has.

use super::*;

/// A quota of so many records for the tenant of [`name`].
fn at_most(records: u64) -> HashMap<String, Quota> {
    HashMap::from([("acme".to_owned(), Quota { records: Some(records), bytes: None })])
}

fn refused_for_quota(answer: Result<Decided, SubmitError>) -> bool {
    match answer {
        Ok(Decided { outcome: Outcome::Granted { .. }, .. }) => false,
        Err(SubmitError::QuotaExceeded) => true,
        other => panic!("neither granted nor refused: {other:?}"),
    }
}

async fn is_refused_for_quota(node: &Node, key: &str) -> bool {
    let deadline = Instant::now() + PATIENCE;
    refused_for_quota(node.submit(claim(node, key, "one"), deadline).await)
}

#[tokio::test]
async fn a_tenant_with_no_room_left_gets_no_new_keys_and_keeps_those_it_has() {
    let mut cluster = Cluster::new(3, 4);
    cluster.quotas = at_most(40);
    for index in 0..3 {
        cluster.start(index).await.unwrap();
    }
    cluster.ready().await;
    let mut number = 0;
    while !is_refused_for_quota(cluster.node(number % 3), &format!("key-{number}")).await {
        number += 1;
        assert!(number < 100, "nothing was refused");
    }
    assert!(number >= 40, "{number} records, and 40 are allowed");
    // The first refusal may come late, since a node hears of the others' shards a moment later.
    // From then on every new key is refused, by every node, also after a restart.
    for index in 0..3 {
        cluster.stop(index).await;
        cluster.start(index).await.unwrap();
        cluster.ready().await;
        for node in 0..3 {
            let (node, key) = (cluster.node(node), format!("new-{index}-{node}"));
            assert!(is_refused_for_quota(node, &key).await, "{key}");
        }
    }
    for number in 0..number {
        let (node, key) = (cluster.node(number % 3), format!("key-{number}"));
        complete(node, &key, b"done".to_vec()).await;
        let outcome = submit(node, claim(node, &key, "two")).await.outcome;
        assert!(matches!(outcome, Outcome::Replay(_)), "{key}: {outcome:?}");
    }
    assert!(is_refused_for_quota(cluster.node(0), "one-more").await);
}

#[tokio::test]
async fn what_a_tenant_gives_back_it_may_use_again() {
    let mut cluster = Cluster::new(1, 2);
    cluster.quotas = at_most(2);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    let node = cluster.node(0);
    granted(node, "one").await;
    let grant = granted(node, "two").await;
    assert!(is_refused_for_quota(node, "three").await);
    let release = Command::Release { name: name("two"), grant };
    assert_eq!(submit(node, release).await.outcome, Outcome::Released);
    assert!(!is_refused_for_quota(node, "three").await);
    // A key that was given back is a new one, too.
    assert!(is_refused_for_quota(node, "two").await);
}

#[tokio::test]
async fn large_answers_use_up_a_quota_of_bytes() {
    let mut cluster = Cluster::new(1, 2);
    let quota = Quota { records: None, bytes: Some(100_000) };
    cluster.quotas = HashMap::from([("acme".to_owned(), quota)]);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    let node = cluster.node(0);
    complete(node, "small", vec![1; 1000]).await;
    complete(node, "large", vec![1; 200_000]).await;
    assert!(is_refused_for_quota(node, "another").await);
    assert_eq!(body_of(node, "large").await.len(), 200_000);
}

/// Claims that come together are counted together.
#[tokio::test]
async fn a_burst_in_one_entry_keeps_to_the_quota() {
    let mut cluster = Cluster::new(1, 1);
    cluster.quotas = at_most(10);
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    let node = cluster.node(0);
    let claims = (0..50).map(|number| claim(node, &format!("key-{number}"), "one"));
    let answers = claims.map(|claim| node.submit(claim, Instant::now() + PATIENCE));
    let answers = futures_util::future::join_all(answers).await;
    let granted = answers.into_iter().filter(|answer| !refused_for_quota(answer.clone()));
    assert_eq!(granted.count(), 10);
}
