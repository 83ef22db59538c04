//! `oncegate serve`: one node of a cluster, with or without a gateway.

use std::net::TcpListener;
use std::sync::Arc;

use clap::Args;
use cluster::NodeConfig;
use tracing::Level;
use tracing::field::display;

use super::hosting::{Front, NodePlan, Shared, gateway_runtime, run_until_stopped, start_nodes};
use super::{Failure, Files, LogArgs, bind};
use crate::config::{GatewaySettings, Policy};
use crate::shutdown::{self, Signals};
use crate::telemetry::{self, LogFormat};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  oncegate serve --config oncegate.toml --policy policy.toml")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    log: LogArgs,
    /// Dies at a named point of the engine after so many passes: NAME:PASSES, in test builds only
    #[arg(long, hide = true)]
    failpoint: Option<String>,
}

pub(super) fn run(args: ServeArgs) -> Result<(), Failure> {
    if let Some(point) = &args.failpoint {
        arm(point)?;
    }
    let (process, policy) = args.files.load()?;

    // Every port is taken before the data directory is touched.
    let Some(node) = process.node else {
        return Err(Failure::Says(format!(
            "{} has no [node]: `oncegate gateway` runs a gateway without one",
            args.files.config.display()
        )));
    };
    let peers = bind(node.peer_listen, "peer_listen of [node]")?;
    let api = bind(process.api.listen, "listen of [api]")?;
    let gateway = match process.gateway {
        Some(settings) => Some((bind(settings.listen, "listen of [gateway]")?, settings)),
        None => None,
    };
    telemetry::logs(
        args.log.log.unwrap_or(LogFormat::Json),
        args.log.log_level.unwrap_or(Level::INFO),
    )?;
    let config = NodeConfig {
        cluster: process.cluster.name,
        id: node.id,
        data_dir: node.data_dir,
        peers: process.cluster.peers,
        shards: process.cluster.shards,
        secret: process.cluster.secret,
        naming: policy.naming(),
        quotas: policy.quotas(),
    };
    gateway_runtime()?.block_on(serve(NodePlan { config, peers, api }, gateway, policy))
}

async fn serve(
    plan: NodePlan,
    gateway: Option<(TcpListener, GatewaySettings)>,
    policy: Arc<Policy>,
) -> Result<(), Failure> {
    let id = plan.config.id;
    let api_addr = plan.api.local_addr().ok().map(display);
    let gateway_addr = gateway.as_ref().and_then(|(it, _)| it.local_addr().ok()).map(display);
    let metrics = telemetry::metrics()?;
    let (edge, stop) = shutdown::channel();
    let shared = Shared { policy: Arc::clone(&policy), metrics, edge: stop.clone() };
    let nodes = start_nodes(vec![plan], &shared)?;
    // From here on a signal stops in order; before, it just ends the process.
    let signals = Signals::install().map_err(|error| Failure::Says(error.to_string()))?;
    let front = match gateway {
        Some((listener, settings)) => {
            Some(Front::start(nodes[0].node().clone(), policy, listener, settings, stop)?)
        }
        None => None,
    };
    tracing::info!(node = %id, api = api_addr, gateway = gateway_addr, "serving");
    run_until_stopped(nodes, front, edge, signals).await
}

/// Arms a failpoint, in a build that has them.
fn arm(point: &str) -> Result<(), Failure> {
    let (name, passes) = point.split_once(':').unwrap_or((point, "0"));
    let passes = passes.parse().map_err(|_| Failure::Says(format!("no number: {passes}")))?;
    if cluster::failpoint::arm(name, passes) {
        return Ok(());
    }
    Err(Failure::Says("this build has no failpoints".to_owned()))
}
