//! Spreads the leaderships of shards over the nodes, one at a time and only in calm times.
//!
//! Every node sees who leads what. The one with the most leaderships gives one to the one with the
//! fewest, until they differ by at most one; nobody has to be asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::Inner;
use crate::clock;
use crate::config::NodeId;
use crate::placement::ShardId;

/// Between two looks; so at most so often a leadership moves.
const ROUND: Duration = Duration::from_millis(250);

/// How long everything must have been in order: a node that comes and goes is given nothing, and a
/// cluster in trouble is not troubled.
const CALM: Duration = Duration::from_secs(5);

/// Since when everything has been in order, but for what this module moved.
#[derive(Default)]
struct Calm {
    since: Option<Instant>,
    nodes: Vec<NodeId>,
}

impl Calm {
    /// Whether all of `members` have been fit for long enough, `fit` of them now, and every shard
    /// has had a leader.
    fn lasts(&mut self, now: Instant, members: usize, fit: &[NodeId], all_led: bool) -> bool {
        if fit.len() < members || !all_led || self.nodes != fit {
            self.since = None;
            self.nodes = fit.to_vec();
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= CALM
    }
}

/// Gives leaderships away while this node has too many.
pub(super) async fn run(inner: Arc<Inner>) {
    let mut calm = Calm::default();
    let mut round = interval(ROUND);
    round.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        round.tick().await;
        let leaders = inner.leaders();
        let mut fit = inner.router.fit_peers();
        fit.extend(inner.router.is_fit().then_some(inner.config.id));
        fit.sort_unstable();
        let members = inner.config.peers.len();
        let all_led = leaders.iter().all(Option::is_some);
        if !calm.lasts(clock::now(), members, &fit, all_led) {
            continue;
        }
        let Some((shard, to)) = next_move(inner.config.id, &fit, &leaders) else { continue };
        match inner.router.hand_over(shard, to).await {
            Ok(()) => {
                tracing::info!(shard = shard.0, to = to.0, "moved a leadership to spread them")
            }
            // Whatever the reason, another try at once would do no better.
            Err(reason) => {
                tracing::info!(shard = shard.0, to = to.0, %reason, "could not spread leaderships");
                calm = Calm::default();
            }
        }
    }
}

/// Which shard `own` should let which node lead; `None` when another node has more, or all have
/// about the same.
fn next_move(
    own: NodeId,
    nodes: &[NodeId],
    leaders: &[Option<NodeId>],
) -> Option<(ShardId, NodeId)> {
    let led_by = |node: NodeId| leaders.iter().filter(|leader| **leader == Some(node)).count();
    // Of several with as many, the first in both cases, so that all nodes agree.
    let fewest = nodes.iter().copied().min_by_key(|node| (led_by(*node), *node))?;
    let most = nodes.iter().copied().min_by_key(|node| (usize::MAX - led_by(*node), *node))?;
    if most != own || led_by(own) < led_by(fewest) + 2 {
        return None;
    }
    // The last one: a cluster forms with all leaders on one node, and so the first node keeps the
    // first shards.
    let shard = leaders.iter().rposition(|leader| *leader == Some(own))?;
    Some((ShardId(shard as u16), fewest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    /// Who leads after every node has moved what it should; panics when that never ends.
    fn settled(mut leaders: Vec<Option<NodeId>>, nodes: &[NodeId]) -> Vec<Option<NodeId>> {
        for _ in 0..=leaders.len() {
            let moves: Vec<_> =
                nodes.iter().filter_map(|own| next_move(*own, nodes, &leaders)).collect();
            assert!(moves.len() <= 1, "one at a time: {moves:?}");
            let Some((shard, to)) = moves.first() else { return leaders };
            leaders[usize::from(shard.0)] = Some(*to);
        }
        panic!("leaderships keep moving: {leaders:?}");
    }

    #[test]
    fn leaderships_end_up_spread_and_then_stay() {
        for shards in [1, 2, 3, 16, 48] {
            for nodes in [&NODES[..1], &NODES[..2], &NODES] {
                for first in nodes {
                    let leaders = settled(vec![Some(*first); shards], nodes);
                    let counts = nodes.iter().map(|node| {
                        leaders.iter().filter(|leader| **leader == Some(*node)).count()
                    });
                    let (least, most) =
                        counts.fold((usize::MAX, 0), |(l, m), count| (l.min(count), m.max(count)));
                    assert!(most - least <= 1, "{shards} shards: {leaders:?}");
                }
            }
        }
    }

    #[test]
    fn a_node_that_is_not_fit_is_given_nothing_and_nothing_is_taken_from_it() {
        let leaders = vec![Some(NodeId(3)); 6];
        assert_eq!(next_move(NodeId(3), &NODES[..2], &leaders), None);
        assert!(
            settled(vec![Some(NodeId(1)); 6], &NODES[..2]).iter().all(|l| *l != Some(NodeId(3)))
        );
    }

    #[test]
    fn nothing_moves_until_everything_was_in_order_for_a_while() {
        let (mut calm, begin) = (Calm::default(), Instant::now());
        let at = |ms: u64| begin + Duration::from_millis(ms);
        assert!(!calm.lasts(at(0), 3, &NODES, true));
        assert!(!calm.lasts(at(4999), 3, &NODES, true));
        assert!(calm.lasts(at(5000), 3, &NODES, true));
        assert!(!calm.lasts(at(5001), 3, &NODES[..2], true), "a node is not fit");
        assert!(!calm.lasts(at(5002), 3, &NODES, true), "it is back just now");
        assert!(!calm.lasts(at(9000), 3, &NODES, false), "a shard has no leader");
        assert!(!calm.lasts(at(13_999), 3, &NODES, true));
        assert!(calm.lasts(at(14_000), 3, &NODES, true));
    }
}
