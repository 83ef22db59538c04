//! Looks at the cluster, and moves leaderships.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use cluster::{MemberStatus, NodeId, NodeStatus, NotMoved, ShardId, ShardStatus};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Call;
use crate::api::Api;
use crate::api::claims::answer::rendered;
use crate::api::claims::body::parse;
use crate::config::Role;
use crate::judge::Judge;
use crate::problem::{Code, Executed, Problem};

/// The cluster as the asked node sees it.
#[derive(Serialize)]
struct Shown<'a> {
    /// Which node that is; `null` for a gateway without one.
    node: Option<u64>,
    nodes: Vec<ShownNode<'a>>,
    shards: Vec<ShownShard<'a>>,
    clock: ShownClock,
}

#[derive(Serialize)]
struct ShownNode<'a> {
    id: u64,
    region: &'a str,
    addr: String,
    connected: bool,
    fit: bool,
    /// How many shards it leads.
    leads: usize,
}

#[derive(Serialize)]
struct ShownShard<'a> {
    id: u16,
    leader: Option<u64>,
    /// Where the leader stands.
    region: Option<&'a str>,
    /// The asked node's own replica; a gateway has none.
    #[serde(flatten)]
    replica: Option<ShownReplica>,
}

#[derive(Serialize)]
struct ShownReplica {
    term: u64,
    last_index: u64,
    applied_index: u64,
    purged_index: u64,
}

#[derive(Serialize)]
struct ShownClock {
    trusted: bool,
    /// `null` while no majority was heard.
    offset_ms: Option<i64>,
}

/// The body of `transfer`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferBody {
    shard: u16,
    to: u64,
}

/// `GET /v1/admin/cluster`: nodes, shards and their leaders, as the asked node sees them.
pub(in crate::api) async fn status<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    api.admins.authenticate(request.headers(), Role::Viewer)?;
    Ok(rendered(&shown(&api.judge.status())))
}

/// `POST /v1/admin/cluster/transfer`: another node leads a shard.
pub(in crate::api) async fn transfer<J: Judge>(
    State(api): State<Arc<Api<J>>>,
    request: Request,
) -> Result<Response, Problem> {
    let call = Call::receive(&api, request, Role::Operator).await?;
    let TransferBody { shard, to } = parse(&call.body)?;
    let moved = api.judge.transfer(ShardId(shard), NodeId(to)).await;
    tracing::info!(admin = call.admin.name, shard, to, moved = moved.is_ok(), "transfer asked for");
    moved.map_err(not_moved)?;
    Ok(rendered(&json!({ "shard": shard, "leader": to })))
}

fn shown(status: &NodeStatus) -> Shown<'_> {
    let leads = |id| status.shards.iter().filter(|shard| shard.leader == Some(id)).count();
    let nodes = status.members.iter().map(|MemberStatus { peer, connected, fit }| ShownNode {
        id: peer.id.0,
        region: &peer.region,
        addr: peer.addr.to_string(),
        connected: *connected,
        fit: *fit,
        leads: leads(peer.id),
    });
    let region = |leader: NodeId| {
        let member = status.members.iter().find(|member| member.peer.id == leader);
        member.map(|member| member.peer.region.as_str())
    };
    let shard = |shard: &ShardStatus| ShownShard {
        id: shard.shard.0,
        leader: shard.leader.map(|leader| leader.0),
        region: shard.leader.and_then(region),
        replica: shard.replica.map(|replica| ShownReplica {
            term: replica.term,
            last_index: replica.last_index,
            applied_index: replica.applied_index,
            purged_index: replica.purged_index,
        }),
    };
    Shown {
        node: status.id.map(|node| node.0),
        nodes: nodes.collect(),
        shards: status.shards.iter().map(shard).collect(),
        clock: ShownClock { trusted: status.clock_trusted, offset_ms: status.clock_offset_ms },
    }
}

fn not_moved(reason: NotMoved) -> Problem {
    let detail = reason.to_string();
    match reason {
        NotMoved::NoShard => Problem::new(Code::NotFound, detail),
        NotMoved::NoReplica => Problem::invalid(detail),
        NotMoved::UnderWay | NotMoved::Behind => {
            Problem::new(Code::StateConflict, detail).with_executed(Executed::No)
        }
        NotMoved::NotLeader => Problem::unavailable(detail),
        NotMoved::NotElected => Problem::unavailable(detail).with_executed(Executed::Unknown),
    }
}
