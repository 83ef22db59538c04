//! Whole nodes in one process: real logs, real records, real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

use std::collections::{BTreeSet, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{
    Node, NodeConfig, NodeId, Peer, Quota, Readiness, ReplicaStatus, Secret, StartError,
    SubmitError, SystemClock,
};
use protocol::command::{Claim, Grant};
use protocol::record::{OnUnknown, Retention, State, Terms};
use protocol::response::StoredBody;
use protocol::{
    Basis, Command, Decided, Fingerprint, HolderId, IdempotencyKey, Millis, Outcome, Record,
    RecordName, Scope, StoredResponse, Token,
};
use tempfile::TempDir;

#[path = "nodes/leading.rs"]
mod leading;
#[path = "nodes/quota.rs"]
mod quota;
#[path = "nodes/remote.rs"]
mod remote;

const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster whose nodes can be stopped and started again.
struct Cluster {
    folder: TempDir,
    shards: u16,
    quotas: HashMap<String, Quota>,
    addresses: Vec<SocketAddr>,
    listeners: Vec<Option<TcpListener>>,
    nodes: Vec<Option<Node>>,
}

impl Cluster {
    fn new(nodes: usize, shards: u16) -> Self {
        let listeners: Vec<_> =
            (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        Self {
            folder: tempfile::tempdir().unwrap(),
            shards,
            quotas: HashMap::new(),
            addresses,
            listeners: listeners.into_iter().map(Some).collect(),
            nodes: (0..nodes).map(|_| None).collect(),
        }
    }

    async fn started(nodes: usize, shards: u16) -> Self {
        let mut cluster = Self::new(nodes, shards);
        for index in 0..nodes {
            cluster.start(index).await.unwrap();
        }
        cluster.ready().await;
        cluster
    }

    fn config(&self, index: usize) -> NodeConfig {
        let peer = |(index, addr): (usize, &SocketAddr)| Peer {
            id: NodeId(index as u64 + 1),
            addr: *addr,
            region: "here".to_owned(),
        };
        NodeConfig {
            cluster: "test".to_owned(),
            id: NodeId(index as u64 + 1),
            data_dir: self.folder.path().join(index.to_string()),
            peers: self.addresses.iter().enumerate().map(peer).collect(),
            shards: self.shards,
            secret: Secret::new(b"a secret of the tests, long enough".to_vec()).unwrap(),
            naming: [0; 32],
            quotas: self.quotas.clone(),
        }
    }

    async fn start(&mut self, index: usize) -> Result<(), StartError> {
        let listener = match self.listeners[index].take() {
            Some(listener) => listener,
            None => TcpListener::bind(self.addresses[index]).unwrap(),
        };
        let begin = Instant::now();
        loop {
            let listener = listener.try_clone().unwrap();
            let node = Node::start(self.config(index), listener, Arc::new(SystemClock)).await;
            match node {
                // What a stopped node has handed to threads lets go of the files a moment later.
                Err(StartError::InUse { .. }) if begin.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                node => {
                    self.nodes[index] = Some(node?);
                    return Ok(());
                }
            }
        }
    }

    async fn stop(&mut self, index: usize) {
        self.nodes[index].take().expect("the node runs").stop().await;
    }

    fn node(&self, index: usize) -> &Node {
        self.nodes[index].as_ref().expect("the node runs")
    }

    async fn ready(&self) {
        for node in self.nodes.iter().flatten() {
            until("the node is ready", || node.readiness() == Readiness::Ready).await;
        }
    }
}

/// A node's replica of the first shard.
fn replica(node: &Node) -> ReplicaStatus {
    node.status().shards[0].replica.expect("a node has replicas")
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn name(key: &str) -> RecordName {
    let scope = Scope {
        tenant: "acme".to_owned(),
        sub_account: vec![],
        credential: None,
        operation: Some("orders".to_owned()),
    };
    RecordName::new(&scope, &IdempotencyKey::from_text(key, 255).unwrap())
}

fn claim(node: &Node, key: &str, attempt: &str) -> Command {
    claim_as(node.seen(&name(key)).expect("the clock is trusted"), key, attempt)
}

fn claim_as(seen: Basis, key: &str, attempt: &str) -> Command {
    let name = name(key);
    Command::Claim(Claim {
        operation: None,
        seen,
        name,
        holder: HolderId::of(b"test", attempt.as_bytes()),
        print: Fingerprint { version: 1, digest: [7; 32] }.into(),
        lease: Millis::from_secs(10),
        terms: Terms {
            retention: Retention::For(Millis::from_secs(86_400)),
            on_unknown: OnUnknown::FailClosed,
            max_execution: Millis::from_secs(60),
        },
        token: Token::new(rand::random()),
    })
}

/// Has a command decided; every command may be repeated after an error that leaves its fate open.
async fn submit(node: &Node, command: Command) -> Decided {
    let begin = Instant::now();
    loop {
        match node.submit(command.clone(), Instant::now() + PATIENCE).await {
            Ok(decided) => return decided,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

async fn granted(node: &Node, key: &str) -> Grant {
    match submit(node, claim(node, key, "one")).await.outcome {
        Outcome::Granted { grant, .. } => grant,
        other => panic!("{key}: {other:?}"),
    }
}

fn response(body: Vec<u8>) -> StoredResponse {
    StoredResponse { status: 201, headers: vec![], body: StoredBody::Whole(body) }
}

async fn complete(node: &Node, key: &str, body: Vec<u8>) {
    let grant = granted(node, key).await;
    let command = Command::Complete { name: name(key), grant, response: response(body) };
    assert_eq!(submit(node, command).await.outcome, Outcome::Completed);
}

async fn body_of(node: &Node, key: &str) -> Vec<u8> {
    let found = node.read(&name(key), Instant::now() + PATIENCE).await.unwrap();
    match found.record {
        Some(Record::Live(generation)) => match generation.state {
            State::Done { revisions, .. } => match revisions[0].response.body.clone() {
                StoredBody::Whole(body) => body,
                _ => panic!("{key}: the body was kept"),
            },
            other => panic!("{key}: {other:?}"),
        },
        other => panic!("{key}: {other:?}"),
    }
}

/// What no record store could hold never gets into the log, whoever lets it through.
#[tokio::test]
async fn a_name_that_is_too_long_is_refused_before_anything_is_proposed() {
    let cluster = Cluster::started(3, 2).await;
    let long = RecordName::from_bytes(vec![b'a'; 70_000]);
    let deadline = || Instant::now() + PATIENCE;
    for node in 0..3 {
        let node = cluster.node(node);
        let expire = Command::Expire { name: long.clone() };
        assert_eq!(node.submit(expire, deadline()).await, Err(SubmitError::NameTooLong));
        assert_eq!(node.read(&long, deadline()).await, Err(SubmitError::NameTooLong));
    }
    complete(cluster.node(0), "short", b"x".to_vec()).await;
}

#[tokio::test]
async fn one_node_alone_decides_and_remembers_after_a_restart() {
    let mut cluster = Cluster::started(1, 4).await;
    for number in 0..20 {
        complete(cluster.node(0), &format!("key-{number}"), vec![number; 10]).await;
    }
    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    for number in 0..20 {
        assert_eq!(body_of(cluster.node(0), &format!("key-{number}")).await, vec![number; 10]);
    }
}

/// It may have sent entries that its own disk never had: in the same term it would propose others
/// under their ids.
#[tokio::test]
async fn a_leader_that_comes_back_does_not_go_on_in_its_old_term() {
    let mut cluster = Cluster::started(1, 1).await;
    let term = |cluster: &Cluster| replica(cluster.node(0)).term;
    let before = term(&cluster);
    cluster.stop(0).await;
    cluster.start(0).await.unwrap();
    cluster.ready().await;
    assert!(term(&cluster) > before, "it leads in term {before} again");
}

#[tokio::test]
async fn every_node_gives_the_same_verdict() {
    let cluster = Cluster::started(3, 16).await;
    for number in 0..30_usize {
        let key = format!("key-{number}");
        let grant = granted(cluster.node(number % 3), &key).await;
        for node in 0..3 {
            let node = cluster.node(node);
            let outcome = submit(node, claim(node, &key, "two")).await.outcome;
            assert!(matches!(outcome, Outcome::InProgress { .. }), "{outcome:?}");
            match submit(node, claim(node, &key, "one")).await.outcome {
                Outcome::Granted { grant: again, .. } => assert_eq!(again, grant),
                other => panic!("the same attempt gets its grant again: {other:?}"),
            }
        }
    }
}

/// What a node says to a claim by itself.
fn said_here(node: &Node, key: &str, fingerprint: u8) -> Option<Outcome> {
    let Command::Claim(mut claim) = claim(node, key, "two") else { unreachable!() };
    claim.print.fingerprint.digest = [fingerprint; 32];
    node.answer_applied(&claim).map(|decided| decided.outcome)
}

fn replays_here(node: &Node, key: &str) -> bool {
    matches!(said_here(node, key, 7), Some(Outcome::Replay(_)))
}

#[tokio::test]
async fn every_node_replays_by_itself_while_it_hears_of_a_majority() {
    let mut cluster = Cluster::started(3, 4).await;
    for number in 0..8_u8 {
        complete(cluster.node(0), &format!("key-{number}"), vec![number]).await;
    }
    granted(cluster.node(0), "running").await;
    for node in 0..3 {
        let node = cluster.node(node);
        for number in 0..8_u8 {
            let key = format!("key-{number}");
            until("the node replays by itself", || replays_here(node, &key)).await;
            let other = said_here(node, &key, 8);
            assert!(matches!(other, Some(Outcome::Reused { .. })), "{other:?}");
        }
        // Only what is final may be said without the log.
        assert_eq!(said_here(node, "running", 7), None);
        assert_eq!(said_here(node, "running", 8), None);
        assert_eq!(said_here(node, "unknown", 7), None);
    }
    cluster.stop(1).await;
    cluster.stop(2).await;
    let alone = cluster.node(0);
    until("the last node is silent", || !replays_here(alone, "key-0")).await;
    cluster.start(1).await.unwrap();
    let alone = cluster.node(0);
    until("a majority is heard again", || replays_here(alone, "key-0")).await;
}

#[tokio::test]
async fn nobody_replays_a_forgotten_record() {
    let cluster = Cluster::started(3, 1).await;
    complete(cluster.node(0), "key", b"old".to_vec()).await;
    for node in 0..3 {
        until("the node replays by itself", || replays_here(cluster.node(node), "key")).await;
    }
    let found = cluster.node(0).read(&name("key"), Instant::now() + PATIENCE).await.unwrap();
    let Some(Record::Live(generation)) = found.record else { panic!("the record is there") };
    let forget = Command::Forget { name: name("key"), fence: generation.fence };
    let forgotten = submit(cluster.node(1), forget).await.outcome;
    assert!(matches!(forgotten, Outcome::Forgotten { .. }), "{forgotten:?}");
    for node in 0..3 {
        assert!(!replays_here(cluster.node(node), "key"), "told after it was forgotten");
    }
    let begin = Instant::now();
    loop {
        let node = cluster.node(2);
        match submit(node, claim(node, "key", "new")).await.outcome {
            Outcome::Granted { .. } => break,
            Outcome::Forgetting { .. } | Outcome::Superseded => {}
            other => panic!("a forgotten outcome is told: {other:?}"),
        }
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for node in 0..3 {
        assert!(!replays_here(cluster.node(node), "key"));
    }
}

#[tokio::test]
async fn when_the_leader_stops_the_others_go_on() {
    let mut cluster = Cluster::started(3, 8).await;
    for number in 0..20 {
        complete(cluster.node(number % 3), &format!("key-{number}"), vec![1]).await;
    }
    let leaders: BTreeSet<_> =
        cluster.node(0).status().shards.iter().filter_map(|shard| shard.leader).collect();
    let leader = leaders.first().expect("a ready node knows leaders").0 as usize - 1;
    cluster.stop(leader).await;
    let other = (leader + 1) % 3;
    for number in 0..20 {
        assert_eq!(body_of(cluster.node(other), &format!("key-{number}")).await, [1]);
    }
    complete(cluster.node(other), "after", vec![2]).await;
    cluster.start(leader).await.unwrap();
    cluster.ready().await;
    assert_eq!(body_of(cluster.node(leader), "after").await, [2]);
}

/// Enough entries and bytes that the log is purged behind whoever was away.
const AWAY_ENTRIES: usize = 700;
const AWAY_BYTES: usize = 16 << 10;

#[tokio::test]
async fn a_node_that_was_away_for_longer_than_the_log_catches_up_by_snapshot() {
    let mut cluster = Cluster::started(3, 1).await;
    complete(cluster.node(0), "before", vec![1]).await;
    cluster.stop(2).await;
    for number in 0..AWAY_ENTRIES / 2 {
        complete(cluster.node(0), &format!("key-{number}"), vec![9; AWAY_BYTES]).await;
    }
    let last = replica(cluster.node(0)).last_index;
    // Checkpoints follow within a second or so; what shows that the log is gone is that the node
    // needs a snapshot.
    until("the log was purged", || replica(cluster.node(0)).purged_index > 2).await;
    until("the log was purged", || replica(cluster.node(1)).purged_index > 2).await;
    cluster.start(2).await.unwrap();
    until("the node caught up", || replica(cluster.node(2)).applied_index >= last).await;
    assert!(replica(cluster.node(2)).purged_index > 2, "it took a snapshot");

    // What it caught up with is its own: with one of the others gone, it is needed for every
    // majority.
    cluster.stop(0).await;
    for number in [0, 1, AWAY_ENTRIES / 2 - 1] {
        let body = body_of(cluster.node(2), &format!("key-{number}")).await;
        assert_eq!(body, vec![9; AWAY_BYTES]);
    }
    assert_eq!(body_of(cluster.node(2), "before").await, [1]);
    complete(cluster.node(2), "after", vec![3]).await;
}

#[tokio::test]
async fn without_a_majority_nothing_is_decided() {
    let mut cluster = Cluster::started(3, 2).await;
    complete(cluster.node(0), "before", vec![1]).await;
    cluster.stop(1).await;
    cluster.stop(2).await;
    let node = cluster.node(0);
    until("the node notices", || node.readiness() != Readiness::Ready).await;
    let claim = claim(node, "alone", "one");
    let decided = node.submit(claim, Instant::now() + Duration::from_secs(2)).await;
    assert!(decided.is_err(), "{decided:?}");
    cluster.start(1).await.unwrap();
    cluster.ready().await;
    assert_eq!(body_of(cluster.node(1), "before").await, [1]);
}

#[tokio::test]
async fn a_cluster_forms_only_when_every_first_member_is_there() {
    let mut cluster = Cluster::new(3, 2);
    cluster.start(0).await.unwrap();
    cluster.start(1).await.unwrap();
    // Two of three are a majority, but the third might be the last member of an older cluster.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(cluster.node(0).status().shards.iter().all(|shard| shard.leader.is_none()));
    }
    cluster.start(2).await.unwrap();
    cluster.ready().await;
    complete(cluster.node(2), "key", vec![1]).await;
}

#[tokio::test]
async fn expired_leases_are_settled_without_anybody_asking() {
    let cluster = Cluster::started(1, 1).await;
    let node = cluster.node(0);
    let Command::Claim(mut short) = claim(node, "key", "one") else { unreachable!() };
    short.lease = Millis::from_secs(2);
    let outcome = submit(node, Command::Claim(short)).await.outcome;
    assert!(matches!(outcome, Outcome::Granted { .. }), "{outcome:?}");
    let before = replica(node).applied_index;
    until("the expiry was proposed", || replica(node).applied_index > before).await;
    let found = node.read(&name("key"), Instant::now() + PATIENCE).await.unwrap();
    let Some(Record::Live(generation)) = found.record else { panic!("{found:?}") };
    assert!(matches!(generation.state, State::Indeterminate { .. }), "{generation:?}");
}

/// Nobody reads while they end: whatever is asked of a shard moves its log.
#[tokio::test]
async fn c61_what_has_ended_is_removed_without_anybody_asking() {
    const KEYS: usize = 300;
    let cluster = Cluster::started(1, 1).await;
    let node = cluster.node(0);
    let keys: Vec<_> = (0..KEYS).map(|nth| format!("key {nth}")).collect();
    for key in &keys {
        let Command::Claim(mut short) = claim(node, key, "one") else { unreachable!() };
        short.terms.retention = Retention::For(Millis::from_secs(2));
        let decided = submit(node, Command::Claim(short)).await;
        let Outcome::Granted { grant, .. } = decided.outcome else { panic!("{decided:?}") };
        let response = response(b"done".to_vec());
        submit(node, Command::Complete { name: name(key), grant, response }).await;
    }
    assert_eq!(body_of(node, &keys[KEYS - 1]).await, b"done");
    let applied = || replica(node).applied_index;
    let before = applied();
    // Quiet for longer than any of them is kept: the last has ended.
    let mut seen = (before, Instant::now());
    until("the log is quiet again", || {
        if applied() != seen.0 {
            seen = (applied(), Instant::now());
        }
        seen.0 > before && seen.1.elapsed() > Duration::from_secs(3)
    })
    .await;
    let entries = applied() - before;
    assert!((1..KEYS as u64 / 2).contains(&entries), "{entries} entries for {KEYS} records");
    for key in &keys {
        let found = node.read(&name(key), Instant::now() + PATIENCE).await.unwrap();
        assert!(!matches!(found.record, Some(Record::Live(_))), "{key} is still kept: {found:?}");
    }
}
