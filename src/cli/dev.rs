//! `oncegate dev`: a whole durable cluster in one process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use clap::Args;
use cluster::{Node, NodeConfig, NodeId, Peer, Readiness, Secret};
use http::Uri;
use http::uri::Scheme;
use protocol::policy::AnswersFrom;
use tracing::Level;

use super::banner::{self, Banner};
use super::hosting::{
    Front, HostedNode, NodePlan, Shared, gateway_runtime, run_until_stopped, start_nodes,
    stop_nodes,
};
use super::{Failure, LogArgs, bind, hex, print_warnings};
use crate::config::{GatewaySettings, Policy, UpstreamTls, parse_upstream};
use crate::sample::SampleApi;
use crate::shutdown::{self, Signals};
use crate::telemetry::{self, LogFormat};

/// The cluster's name, of which its data directories are.
const CLUSTER: &str = "dev";

/// Number of shards, the default of every cluster.
const SHARDS: u16 = 16;

/// The policy without `--policy`.
const POLICY: &str = include_str!("dev.toml");

/// The region of everything: one machine is one.
const REGION: &str = "local";

/// The largest request body of a protected request, the default of every gateway.
const REQUEST_BODY_MAX: ByteSize = ByteSize::mib(1);

/// Bytes of the random secret with which the nodes prove themselves to each other.
const SECRET_BYTES: usize = 32;

/// How long the cluster may take to become ready: elections take seconds, a long log to be read
/// some more.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How often the nodes are asked whether they are ready.
const READY_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    oncegate dev\n  \
    oncegate dev --upstream http://127.0.0.1:3000 --policy policy.toml")]
pub(super) struct DevArgs {
    /// How many nodes: 3 survive the loss of one, 1 uses less
    #[arg(long, default_value_t = 3, value_parser = parse_nodes)]
    nodes: u64,
    /// Where clients reach the gateway
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where node 1 serves the claims API, health and metrics; the other nodes use the next ports
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7201")]
    api: SocketAddr,
    /// Where everything is kept; a later start with it goes on where this one ends
    #[arg(long, value_name = "DIR", default_value = ".oncegate")]
    data_dir: PathBuf,
    /// The API to put the gateway in front of [a built-in sample orders API]
    #[arg(long, value_name = "URL", value_parser = parse_upstream_arg)]
    upstream: Option<Uri>,
    /// A policy of your own [tenant "dev" with the API key "dev"]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn run(args: DevArgs) -> Result<(), Failure> {
    let (policy, warnings) = match &args.policy {
        Some(file) => Policy::load(file)?,
        None => Policy::parse(Path::new("the built-in policy"), POLICY)?,
    };
    print_warnings(&warnings);
    let ports = Ports::bind(&args)?;
    telemetry::logs(
        args.log.log.unwrap_or(LogFormat::Text),
        args.log.log_level.unwrap_or(Level::ERROR),
    )?;
    gateway_runtime()?.block_on(serve(args, Arc::new(policy), ports))
}

async fn serve(args: DevArgs, policy: Arc<Policy>, ports: Ports) -> Result<(), Failure> {
    let (edge, stop) = shutdown::channel();
    let Ports { gateway, nodes } = ports;
    let apis: Vec<SocketAddr> =
        nodes.iter().filter_map(|ports| ports.api.local_addr().ok()).collect();
    let plans = plans(&args.data_dir, nodes, &policy)?;
    let metrics = telemetry::metrics()?;
    let shared = Shared { policy: Arc::clone(&policy), metrics, edge: stop.clone() };
    let nodes = start_nodes(plans, &shared)?;
    // From here on a signal stops in order; before, it just ends the process.
    let mut signals = Signals::install().map_err(failed_to("take signals over"))?;
    let ready = tokio::select! {
        () = signals.next() => None,
        ready = all_ready(nodes.iter().map(HostedNode::node).cloned().collect()) => Some(ready),
    };
    if !matches!(ready, Some(Ok(()))) {
        edge.stop();
        stop_nodes(nodes);
        return ready.unwrap_or(Ok(()));
    }
    let sample = match args.upstream {
        Some(_) => None,
        None => Some(SampleApi::start().await.map_err(failed_to("serve the sample API"))?),
    };
    let upstream = args.upstream.or_else(|| sample.as_ref().and_then(sample_uri));
    let upstream = upstream.expect("there is an upstream, or the sample API stands in for it");
    let listen = gateway.local_addr().map_err(failed_to("look at the gateway's port"))?;
    let settings = GatewaySettings {
        listen,
        upstream_tls: upstream_tls(&upstream)?,
        upstream: upstream.clone(),
        region: REGION.to_owned(),
        answers_from: AnswersFrom::Application,
        max_request_body: REQUEST_BODY_MAX,
    };
    let front = Front::start(nodes[0].node().clone(), policy, gateway, settings, stop)?;
    banner::print(&Banner {
        gateway: listen,
        apis: &apis,
        data_dir: &args.data_dir,
        upstream: &upstream,
        sample: sample.is_some(),
        own_policy: args.policy.is_some(),
    });
    run_until_stopped(nodes, Some(front), edge, signals).await
}

/// Every port of the cluster, taken before anything is written.
struct Ports {
    gateway: TcpListener,
    nodes: Vec<NodePorts>,
}

struct NodePorts {
    peers: TcpListener,
    api: TcpListener,
}

impl Ports {
    fn bind(args: &DevArgs) -> Result<Self, Failure> {
        let gateway = bind(args.listen, "--listen")?;
        let mut nodes = Vec::new();
        for index in 0..args.nodes {
            let api = match index {
                0 => bind(args.api, "--api")?,
                _ => bind_next_api(args.api, index)?,
            };
            let peers = bind((Ipv4Addr::LOCALHOST, 0).into(), "a node's peers")?;
            nodes.push(NodePorts { peers, api });
        }
        Ok(Self { gateway, nodes })
    }
}

/// The API of a further node: on the port that many after node 1's, or else on a free one.
fn bind_next_api(first: SocketAddr, index: u64) -> Result<TcpListener, Failure> {
    let wanted = u64::from(first.port()) + index;
    let next = u16::try_from(wanted).ok().filter(|_| first.port() != 0);
    let taken = next.and_then(|port| TcpListener::bind((first.ip(), port)).ok());
    taken.map_or_else(|| bind(SocketAddr::new(first.ip(), 0), "a node's API"), Ok)
}

/// What every node is told.
fn plans(
    data_dir: &Path,
    ports: Vec<NodePorts>,
    policy: &Policy,
) -> Result<Vec<NodePlan>, Failure> {
    let peers = peers(&ports)?;
    check_node_count(data_dir, ports.len())?;
    let secret = secret(data_dir)?;
    let plan = |(ports, peer): (NodePorts, &Peer)| {
        let config = NodeConfig {
            cluster: CLUSTER.to_owned(),
            id: peer.id,
            data_dir: node_dir(data_dir, peer.id.0),
            peers: peers.clone(),
            shards: SHARDS,
            secret: secret.clone(),
            naming: policy.naming(),
            quotas: policy.quotas(),
        };
        NodePlan { config, peers: ports.peers, api: ports.api }
    };
    Ok(ports.into_iter().zip(&peers).map(plan).collect())
}

fn peers(ports: &[NodePorts]) -> Result<Vec<Peer>, Failure> {
    let mut peers = Vec::with_capacity(ports.len());
    for (ports, id) in ports.iter().zip(1..) {
        let addr = ports.peers.local_addr().map_err(failed_to("look at a node's port"))?;
        peers.push(Peer { id: NodeId(id), addr, region: REGION.to_owned() });
    }
    Ok(peers)
}

fn node_dir(data_dir: &Path, id: u64) -> PathBuf {
    data_dir.join(format!("node-{id}"))
}

/// Refuses a directory that was made for another number of nodes: some of its shards' replicas
/// would be missing.
fn check_node_count(data_dir: &Path, nodes: usize) -> Result<(), Failure> {
    let made_for = (1..=3).filter(|id| node_dir(data_dir, *id).exists()).count();
    if made_for == 0 || made_for == nodes {
        return Ok(());
    }
    Err(Failure::Says(format!(
        "{} was made for {made_for} node(s); use --nodes {made_for} or another --data-dir",
        data_dir.display()
    )))
}

/// The cluster's secret: made at the first start, readable by its owner only.
fn secret(data_dir: &Path) -> Result<Secret, Failure> {
    let path = data_dir.join("cluster.secret");
    let at_path = |error: io::Error| Failure::Says(format!("{}: {error}", path.display()));
    fs::create_dir_all(data_dir).map_err(at_path)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made {
        Ok(mut file) => {
            let random: [u8; SECRET_BYTES] = rand::random();
            file.write_all(hex(&random).as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(at_path)?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at_path(error)),
    }
    let bytes = fs::read(&path).map_err(at_path)?;
    Secret::new(bytes.trim_ascii().to_vec()).ok_or_else(|| {
        let remedy = "remove it, so that a new one is made";
        Failure::Says(format!("{}: too short to be a secret; {remedy}", path.display()))
    })
}

/// Resolves once every node sees a leader of every shard.
async fn all_ready(nodes: Vec<Node>) -> Result<(), Failure> {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        let unready = nodes.iter().find_map(|node| match node.readiness() {
            Readiness::Ready => None,
            Readiness::NotReady(reason) => Some(reason),
        });
        match unready {
            None => return Ok(()),
            Some(reason) if Instant::now() >= deadline => {
                let within = READY_WITHIN.as_secs();
                let message = format!("the cluster was not ready within {within} s: {reason}");
                return Err(Failure::Says(message));
            }
            Some(_) => tokio::time::sleep(READY_POLL).await,
        }
    }
}

fn sample_uri(sample: &SampleApi) -> Option<Uri> {
    parse_upstream(&format!("http://{}", sample.address())).ok()
}

fn parse_nodes(text: &str) -> Result<u64, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("must be 1 or 3".to_owned()),
    }
}

/// Whom to believe to be an upstream over TLS: whom the system believes.
fn upstream_tls(upstream: &Uri) -> Result<Option<UpstreamTls>, Failure> {
    let secure = upstream.scheme() == Some(&Scheme::HTTPS);
    let tls = secure.then(UpstreamTls::of_system).transpose();
    tls.map_err(|error| Failure::Says(format!("--upstream: {error}")))
}

fn parse_upstream_arg(text: &str) -> Result<Uri, String> {
    parse_upstream(text).map_err(str::to_owned)
}

fn failed_to(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Says(format!("cannot {what}: {error}"))
}
