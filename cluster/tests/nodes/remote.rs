//! A process without a node of its own gets the same verdicts, and no more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{NodeId, Peer, Readiness, Remote, RemoteConfig, Secret, SubmitError, SystemClock};
use protocol::{Command, Outcome};

use super::{Cluster, PATIENCE, claim_as, granted, name, response, until};

fn config(cluster: &Cluster) -> RemoteConfig {
    let peer = |(index, addr): (usize, &SocketAddr)| Peer {
        id: NodeId(index as u64 + 1),
        addr: *addr,
        region: "here".to_owned(),
    };
    RemoteConfig {
        cluster: "test".to_owned(),
        peers: cluster.addresses.iter().enumerate().map(peer).collect(),
        shards: cluster.shards,
        secret: Secret::new(b"a secret of the tests, long enough".to_vec()).unwrap(),
        naming: [0; 32],
    }
}

async fn connected(cluster: &Cluster) -> Remote {
    let remote = Remote::start(config(cluster), Arc::new(SystemClock));
    until("the gateway is ready", || remote.readiness() == Readiness::Ready).await;
    remote
}

async fn submit(remote: &Remote, command: Command) -> Outcome {
    let decided = remote.submit(command, Instant::now() + PATIENCE).await;
    decided.expect("every command is decided").outcome
}

async fn claimed(remote: &Remote, key: &str, attempt: &str) -> Outcome {
    let seen = remote.seen(&name(key)).expect("the clock is trusted");
    submit(remote, claim_as(seen, key, attempt)).await
}

#[tokio::test]
async fn a_gateway_without_a_node_gets_the_verdicts_that_nodes_get() {
    let cluster = Cluster::started(3, 8).await;
    let (one, other) = (connected(&cluster).await, connected(&cluster).await);
    for number in 0..16 {
        let key = format!("key-{number}");
        let Outcome::Granted { grant, .. } = claimed(&one, &key, "one").await else {
            panic!("{key} is free")
        };
        let outcome = claimed(&other, &key, "two").await;
        assert!(matches!(outcome, Outcome::InProgress { .. }), "{outcome:?}");
        let complete =
            Command::Complete { name: name(&key), grant, response: response(vec![number]) };
        assert_eq!(submit(&other, complete).await, Outcome::Completed);
        let outcome = claimed(&one, &key, "three").await;
        assert!(matches!(outcome, Outcome::Replay(_)), "{outcome:?}");
        let found = one.read(&name(&key), Instant::now() + PATIENCE).await.unwrap();
        assert!(found.record.is_some());
    }
    assert_eq!(
        granted(cluster.node(0), "of a node").await.fence,
        granted(cluster.node(1), "of a node").await.fence
    );
    assert_eq!(one.unsettled(None, 10, Instant::now() + PATIENCE).await, Ok(vec![]));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_gateway_follows_leaders_and_says_so_when_there_is_none() {
    let mut cluster = Cluster::started(3, 4).await;
    let remote = connected(&cluster).await;
    for shard in 0..4 {
        let to = NodeId(u64::from(shard) % 3 + 1);
        remote.transfer(cluster::ShardId(shard), to).await.expect("everybody is in order");
        until("the gateway knows", || {
            remote.status().shards[usize::from(shard)].leader == Some(to)
        })
        .await;
    }
    // The command goes where the leader is by now, without an error.
    cluster.stop(0).await;
    for number in 0..12 {
        let outcome = claimed(&remote, &format!("key-{number}"), "one").await;
        assert!(matches!(outcome, Outcome::Granted { .. }), "{outcome:?}");
    }
    cluster.stop(1).await;
    until("no majority is left", || remote.readiness() != Readiness::Ready).await;
    let begin = Instant::now();
    let seen = remote.seen(&name("late")).expect("the clock is trusted");
    let refused =
        remote.submit(claim_as(seen, "late", "one"), begin + Duration::from_secs(1)).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(begin.elapsed() < Duration::from_secs(2), "it waited for {:?}", begin.elapsed());
    cluster.start(1).await.unwrap();
    until("there is a majority again", || remote.readiness() == Readiness::Ready).await;
}

#[tokio::test]
async fn a_gateway_that_names_records_otherwise_or_lacks_the_secret_is_not_served() {
    let cluster = Cluster::started(3, 1).await;
    let other_names = RemoteConfig { naming: [1; 32], ..config(&cluster) };
    let remote = Remote::start(other_names, Arc::new(SystemClock));
    until("the nodes refuse it", || remote.seen(&name("k")) == Err(SubmitError::ConfigMismatch))
        .await;
    let Readiness::NotReady(reason) = remote.readiness() else { panic!("it is not served") };
    assert!(reason.contains("name records differently"), "{reason}");

    let secret = Secret::new(b"another secret, also long enough".to_vec()).unwrap();
    let stranger =
        Remote::start(RemoteConfig { secret, ..config(&cluster) }, Arc::new(SystemClock));
    let deadline = Instant::now() + Duration::from_millis(500);
    let read = stranger.read(&name("k"), deadline).await;
    assert_eq!(read, Err(SubmitError::NoLeader));
    assert!(matches!(stranger.readiness(), Readiness::NotReady(_)));
}
