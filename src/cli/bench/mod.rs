//! `oncegate bench`: measures a running cluster. Every load is bounded in connections and time.

mod claims;
mod failover;
mod gateway;
mod replays;
mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};
use hdrhistogram::Histogram;

/// Measures a running cluster.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Claims of fresh keys through the claims API: rate and latency.
    #[command(after_help = "Example:\n  \
        oncegate bench claims --api 127.0.0.1:7201 --connections 64 --seconds 10")]
    Claims(ClaimsArgs),
    /// First-time protected POSTs through a gateway, beside the same requests unprotected.
    #[command(after_help = "Example:\n  \
        oncegate bench gateway --gateway 127.0.0.1:8080 --connections 1")]
    Gateway(GatewayArgs),
    /// Replays through a gateway, beside the same requests unprotected: their rates.
    #[command(after_help = "Example:\n  \
        oncegate bench replays --gateway 127.0.0.1:8080 --connections 16")]
    Replays(GatewayArgs),
    /// Kills a process, then measures until every shard answers claims again.
    #[command(after_help = "Example:\n  \
        oncegate bench failover --api 127.0.0.1:7202 --kill 4711")]
    Failover(FailoverArgs),
    /// Serves the trivial upstream that the gateway measurement needs.
    #[command(after_help = "Example:\n  \
        oncegate bench upstream --listen 127.0.0.1:9999")]
    Upstream(UpstreamArgs),
}

/// A load: how many connections, for how long.
#[derive(Clone, Copy, Debug, Args)]
struct Load {
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Seconds that count.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Seconds of load before, which do not count.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=60))]
    warm_up: u64,
}

#[derive(Debug, Args)]
struct ClaimsArgs {
    /// The claims APIs, comma separated; connections are spread over them.
    #[arg(long, value_delimiter = ',', required = true)]
    api: Vec<SocketAddr>,
    /// An API key for `use = ["claims"]`.
    #[arg(long, default_value = "dev")]
    api_key: String,
    #[command(flatten)]
    load: Load,
    /// Prints one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct GatewayArgs {
    /// The gateway's listener, in front of `oncegate bench upstream`.
    #[arg(long)]
    gateway: SocketAddr,
    /// An API key for `use = ["gateway"]`.
    #[arg(long, default_value = "dev")]
    api_key: String,
    #[command(flatten)]
    load: Load,
    /// Prints one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct FailoverArgs {
    /// A claims API of a node that stays.
    #[arg(long)]
    api: SocketAddr,
    /// The process to kill, as by `kill -9`.
    #[arg(long)]
    kill: u32,
    /// An API key for `use = ["claims"]`.
    #[arg(long, default_value = "dev")]
    api_key: String,
    /// Keys that are claimed over and over; enough that every one of 16 shards has some.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1024))]
    probes: u16,
    /// Prints one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct UpstreamArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9999")]
    listen: SocketAddr,
}

/// Runs the measurement.
///
/// # Errors
/// A sentence that says what did not work.
pub(super) fn run(args: &BenchArgs) -> Result<(), String> {
    // The load shares the machine's processors with the cluster: one thread keeps its own cost low,
    // and the same each time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        match &args.what {
            What::Claims(args) => claims::run(args).await,
            What::Gateway(args) => gateway::run(args).await,
            What::Replays(args) => replays::run(args).await,
            What::Failover(args) => failover::run(args).await,
            What::Upstream(args) => upstream::run(args).await,
        }
    })
}

/// Latencies of one kind of request, in microseconds.
type Latency = Histogram<u64>;

/// Longest latency that is told apart, in microseconds: a minute.
const LATENCY_US_MAX: u64 = 60_000_000;

fn latency() -> Latency {
    Latency::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order")
}

fn record(latency: &mut Latency, took: Duration) {
    latency.saturating_record((took.as_micros() as u64).max(1));
}

/// What was measured of one kind of request.
fn summary(name: &str, latency: &Latency, seconds: u64) -> serde_json::Value {
    serde_json::json!({
        "what": name,
        "requests": latency.len(),
        "per_second": latency.len() as f64 / seconds as f64,
        "p50_ms": latency.value_at_quantile(0.5) as f64 / 1000.0,
        "p99_ms": latency.value_at_quantile(0.99) as f64 / 1000.0,
        "max_ms": latency.max() as f64 / 1000.0,
    })
}

fn print(json: bool, value: &serde_json::Value) {
    if json {
        println!("{value}");
        return;
    }
    let Some(fields) = value.as_object() else { return };
    let what = fields.get("what").and_then(serde_json::Value::as_str).unwrap_or_default();
    let figures = fields.iter().filter(|(name, _)| *name != "what");
    let figures: Vec<_> = figures.map(|(name, figure)| format!("{name} {figure}")).collect();
    println!("{what}: {}", figures.join("  "));
}

/// A key that no other run has used.
pub(super) fn fresh_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}
