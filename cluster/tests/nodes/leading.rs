//! Who leads: leaderships move without a lost command, spread, and leave a node that stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::{Node, NodeId, NotMoved, ShardId};
use protocol::Outcome;
use tokio::task::JoinSet;

use super::{Cluster, claim, until};

/// How long one claim may wait while leaderships move: it waits, but it is not lost. How long a
/// hand-over takes is no matter for a test on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Claims without end, each of a new key, through one node.
struct Load {
    stop: Arc<AtomicBool>,
    decided: Arc<AtomicUsize>,
    tasks: JoinSet<Duration>,
}

impl Load {
    fn start(nodes: &[&Node]) -> Self {
        let (stop, decided) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for (client, node) in nodes.iter().enumerate() {
            let (node, stop) = (Node::clone(node), Arc::clone(&stop));
            let all = Arc::clone(&decided);
            tasks.spawn(async move {
                let (mut count, mut longest) = (0_usize, Duration::ZERO);
                while !stop.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let command = claim(&node, &format!("{client}-{count}"), "one");
                    // Once, and whatever the error: nothing may be lost with a leadership.
                    let decided = node.submit(command, begin + super::PATIENCE).await;
                    let outcome = decided.expect("every command is decided").outcome;
                    assert!(matches!(outcome, Outcome::Granted { .. }), "{outcome:?}");
                    longest = longest.max(begin.elapsed());
                    count += 1;
                    all.fetch_add(1, Ordering::Relaxed);
                }
                longest
            });
        }
        Self { stop, decided, tasks }
    }

    /// Waits until some more claims are decided.
    async fn goes_on(&self) {
        let before = self.decided.load(Ordering::Relaxed);
        until("claims are decided", || self.decided.load(Ordering::Relaxed) > before + 10).await;
    }

    /// Ends the load; the longest that a claim took.
    async fn stop(mut self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut longest = Duration::ZERO;
        while let Some(ended) = self.tasks.join_next().await {
            longest = longest.max(ended.expect("no claim fails"));
        }
        longest
    }
}

fn leaders(node: &Node) -> Vec<Option<NodeId>> {
    node.status().shards.iter().map(|shard| shard.leader).collect()
}

#[tokio::test]
async fn a_leadership_moves_under_load_without_a_lost_command() {
    let cluster = Cluster::started(3, 2).await;
    let nodes: Vec<_> = (0..3).map(|node| cluster.node(node)).collect();
    let load = Load::start(&nodes);
    for round in 0..9 {
        let (to, asked) = (NodeId(round % 3 + 1), nodes[(round as usize + 1) % 3]);
        // Nobody needs to know the leader: any node passes it on.
        match asked.transfer(ShardId(0), to).await {
            Ok(()) => until("it leads", || leaders(asked)[0] == Some(to)).await,
            Err(reason) => panic!("to node {to}: {reason}"),
        }
        load.goes_on().await;
    }
    let longest = load.stop().await;
    assert!(longest < WAIT_MAX, "a claim waited for {longest:?}");
}

#[tokio::test]
async fn a_leadership_goes_to_voters_that_can_have_it_only() {
    let mut cluster = Cluster::started(3, 1).await;
    let node = cluster.node(0);
    let leader = leaders(node)[0].expect("a ready node knows the leader");
    assert_eq!(node.transfer(ShardId(7), leader).await, Err(NotMoved::NoShard));
    assert_eq!(node.transfer(ShardId(0), NodeId(9)).await, Err(NotMoved::NoReplica));
    assert_eq!(node.transfer(ShardId(0), leader).await, Ok(()));
    let (leader, gone) = (leader.0 as usize - 1, leader.0 as usize % 3);
    cluster.stop(gone).await;
    let node = cluster.node(leader);
    let decided = node.submit(claim(node, "behind", "one"), Instant::now() + super::PATIENCE).await;
    assert!(decided.is_ok(), "{decided:?}");
    let to = NodeId(gone as u64 + 1);
    assert_eq!(node.transfer(ShardId(0), to).await, Err(NotMoved::Behind));
    let decided = node.submit(claim(node, "after", "one"), Instant::now() + super::PATIENCE).await;
    assert!(decided.is_ok(), "the leader goes on: {decided:?}");
}

#[tokio::test]
async fn leaderships_spread_by_themselves_and_return_to_a_node_that_was_away() {
    let mut cluster = Cluster::started(3, 6).await;
    let spread = |node: &Node| {
        let leaders = leaders(node);
        (1..=3).all(|id| leaders.iter().filter(|leader| **leader == Some(NodeId(id))).count() == 2)
    };
    until("leaderships are spread", || spread(cluster.node(0))).await;
    let load = Load::start(&[cluster.node(0), cluster.node(2)]);
    cluster.stop(1).await;
    cluster.start(1).await.unwrap();
    until("leaderships are spread again", || spread(cluster.node(0))).await;
    load.goes_on().await;
    let longest = load.stop().await;
    assert!(longest < WAIT_MAX, "a claim waited for {longest:?}");
}
