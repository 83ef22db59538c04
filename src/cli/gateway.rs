//! `oncegate gateway`: a gateway without a node; any number of them, in any region.

use std::net::TcpListener;
use std::sync::Arc;

use clap::Args;
use cluster::{Remote, RemoteConfig, SystemClock};
use tracing::Level;
use tracing::field::display;

use super::hosting::{Front, gateway_runtime, run_until_stopped, serve_api};
use super::{Failure, Files, LogArgs, bind};
use crate::config::{GatewaySettings, Policy};
use crate::shutdown::{self, Signals};
use crate::telemetry::{self, LogFormat};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  oncegate gateway --config gateway.toml --policy policy.toml")]
pub(super) struct GatewayArgs {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn run(args: GatewayArgs) -> Result<(), Failure> {
    let (process, policy) = args.files.load()?;
    let file = args.files.config.display();
    if process.node.is_some() {
        let message =
            format!("{file} has a [node]: `oncegate serve` runs it, its gateway included");
        return Err(Failure::Says(message));
    }
    let Some(settings) = process.gateway else {
        return Err(Failure::Says(format!("{file} has no [gateway]")));
    };
    let api = bind(process.api.listen, "listen of [api]")?;
    let gateway = bind(settings.listen, "listen of [gateway]")?;
    telemetry::logs(
        args.log.log.unwrap_or(LogFormat::Json),
        args.log.log_level.unwrap_or(Level::INFO),
    )?;
    let config = RemoteConfig {
        cluster: process.cluster.name,
        peers: process.cluster.peers,
        shards: process.cluster.shards,
        secret: process.cluster.secret,
        naming: policy.naming(),
    };
    gateway_runtime()?.block_on(serve(config, api, (gateway, settings), policy))
}

async fn serve(
    config: RemoteConfig,
    api: TcpListener,
    (gateway, settings): (TcpListener, GatewaySettings),
    policy: Arc<Policy>,
) -> Result<(), Failure> {
    let api_addr = api.local_addr().ok().map(display);
    let gateway_addr = gateway.local_addr().ok().map(display);
    let metrics = telemetry::metrics()?;
    let (edge, stop) = shutdown::channel();
    let signals = Signals::install().map_err(|error| Failure::Says(error.to_string()))?;
    let remote = Remote::start(config, Arc::new(SystemClock));
    let api = serve_api(api, remote.clone(), Arc::clone(&policy), metrics, stop.clone())?;
    let front = Front::start(remote.clone(), policy, gateway, settings, stop)?;
    tracing::info!(api = api_addr, gateway = gateway_addr, "serving as a gateway");
    let ended = run_until_stopped(Vec::new(), Some(front), edge, signals).await;
    // Bounded: the listener has been asked to stop.
    if api.await.is_ok_and(|finished| !finished) {
        tracing::warn!("some API requests were cut off");
    }
    remote.stop().await;
    ended
}
