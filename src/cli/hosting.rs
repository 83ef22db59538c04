//! Runs nodes and gateways on threads of their own, and stops them in order.

use std::io;
use std::net::TcpListener as StdListener;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cluster::{Node, NodeConfig, SystemClock};
use futures_util::future::select_all;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::Failure;
use crate::config::{GatewaySettings, Policy};
use crate::gateway::Gateway;
use crate::judge::Judge;
use crate::shutdown::{self, Signals, Stop, Stopper};
use crate::tenant::Tenants;
use crate::{api, listener, telemetry};

/// How long requests and executions may go on after a stop is asked for. With the seconds that
/// nodes take to hand over, this stays under the thirty that common supervisors wait.
const DRAIN: Duration = Duration::from_secs(20);

/// The most threads of a gateway's runtime: it waits for the network nearly all the time.
const GATEWAY_THREADS_MAX: usize = 8;

/// A node and its API. Both live on one thread with one runtime: on few cores every hand-over
/// between threads costs more than it gains.
pub(super) struct HostedNode {
    node: Node,
    stopper: Stopper,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<String>,
}

/// A node to be started: what it is told, and its listeners, bound before anything is written.
pub(super) struct NodePlan {
    pub(super) config: NodeConfig,
    pub(super) peers: StdListener,
    pub(super) api: StdListener,
}

/// What the nodes of a process share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) policy: Arc<Policy>,
    pub(super) metrics: PrometheusHandle,
    /// Stops the nodes' APIs.
    pub(super) edge: Stop,
}

/// A node whose thread runs, but which may still be recovering.
struct StartingNode {
    started: mpsc::Receiver<Result<Node, Failure>>,
    stopper: Stopper,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<String>,
}

/// Starts nodes side by side: all of them, or none. Once a node's own state is recovered, its API
/// is served.
pub(super) fn start_nodes(
    plans: Vec<NodePlan>,
    shared: &Shared,
) -> Result<Vec<HostedNode>, Failure> {
    let mut starting = Vec::with_capacity(plans.len());
    for plan in plans {
        starting.push(StartingNode::launch(plan, shared.clone())?);
    }
    let mut nodes = Vec::with_capacity(starting.len());
    let mut failure = None;
    for started in starting.into_iter().map(StartingNode::wait) {
        match started {
            Ok(node) => nodes.push(node),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(nodes),
        Some(failure) => {
            stop_nodes(nodes);
            Err(failure)
        }
    }
}

impl StartingNode {
    fn launch(plan: NodePlan, shared: Shared) -> Result<Self, Failure> {
        let (stopper, stop) = shutdown::channel();
        let (started_sender, started) = mpsc::sync_channel(1);
        let (ended_sender, ended) = oneshot::channel();
        let name = format!("node-{}", plan.config.id);
        let life = async move {
            match start(plan).await {
                Ok((node, api)) => {
                    // Whoever started the node waits for this message.
                    let _ = started_sender.send(Ok(node.clone()));
                    live(node, api, shared, stop, ended_sender).await;
                }
                Err(failure) => {
                    let _ = started_sender.send(Err(failure));
                }
            }
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(runtime_failed)?;
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(life))
            .map_err(|error| Failure::Says(format!("cannot start a thread: {error}")))?;
        Ok(Self { started, stopper, thread, ended })
    }

    fn wait(self) -> Result<HostedNode, Failure> {
        let Self { started, stopper, thread, ended } = self;
        let defect = || Failure::Says("the node met a defect at its start".to_owned());
        let node = started.recv().map_err(|_| defect())??;
        Ok(HostedNode { node, stopper, thread, ended })
    }
}

/// Starts a node on the current runtime; its API's listener comes back.
async fn start(plan: NodePlan) -> Result<(Node, TcpListener), Failure> {
    let api = tokio_listener(plan.api)?;
    let node = Node::start(plan.config, plan.peers, Arc::new(SystemClock)).await?;
    Ok((node, api))
}

impl HostedNode {
    /// The node.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// Resolves when the node can no longer take part, with the reason.
    pub(super) async fn failed(&mut self) -> Failure {
        match (&mut self.ended).await {
            Ok(reason) => Failure::Says(reason),
            Err(_closed) => Failure::Says("the node's thread met a defect".into()),
        }
    }
}

/// A gateway that is being served.
pub(super) struct Front<J> {
    gateway: Gateway<J>,
    served: tokio::task::JoinHandle<bool>,
}

impl<J: Judge> Front<J> {
    /// Serves a gateway on the current runtime until `edge` stops.
    pub(super) fn start(
        judge: J,
        policy: Arc<Policy>,
        listener: StdListener,
        settings: GatewaySettings,
        edge: Stop,
    ) -> Result<Self, Failure> {
        let listener = tokio_listener(listener)?;
        let tenants = Tenants::new(&policy);
        let gateway = Gateway::new(judge, policy, tenants, settings);
        let served = tokio::spawn(listener::serve(listener, gateway.router(), edge, DRAIN));
        Ok(Self { gateway, served })
    }

    /// Waits until requests and executions have ended, for as long as both may take.
    async fn drain(self) {
        let asked = Instant::now();
        let answered = self.served.await.is_ok_and(|finished| finished);
        if !(answered && self.gateway.drain(DRAIN.saturating_sub(asked.elapsed())).await) {
            tracing::warn!("some requests were cut off; their leases decide what becomes of them");
        }
    }
}

/// Runs until a signal or the failure of a node, then stops everything in order: no more requests
/// are accepted, those that run are finished, nodes hand over and close their files.
///
/// # Errors
/// When a node failed.
pub(super) async fn run_until_stopped<J: Judge>(
    mut nodes: Vec<HostedNode>,
    front: Option<Front<J>>,
    edge: Stopper,
    mut signals: Signals,
) -> Result<(), Failure> {
    let failure = tokio::select! {
        () = signals.next() => None,
        failure = any_failed(&mut nodes) => Some(failure),
    };
    exit_on(signals);
    edge.stop();
    if let (Some(front), None) = (front, &failure) {
        tracing::info!("stopping: finishing what runs");
        front.drain().await;
    }
    stop_nodes(nodes);
    failure.map_or(Ok(()), Err)
}

/// Resolves when one of the nodes has failed; never where there are none.
async fn any_failed(nodes: &mut [HostedNode]) -> Failure {
    if nodes.is_empty() {
        return std::future::pending().await;
    }
    select_all(nodes.iter_mut().map(|node| Box::pin(node.failed()))).await.0
}

/// Serves the API on the current runtime until `edge` stops; whether every request was finished
/// then.
pub(super) fn serve_api<J: Judge>(
    listener: StdListener,
    judge: J,
    policy: Arc<Policy>,
    metrics: PrometheusHandle,
    edge: Stop,
) -> Result<tokio::task::JoinHandle<bool>, Failure> {
    let listener = tokio_listener(listener)?;
    let router = api::router(judge, policy, metrics.clone());
    tokio::spawn(telemetry::upkeep(metrics));
    Ok(tokio::spawn(listener::serve(listener, router, edge, DRAIN)))
}

/// Stops nodes side by side, so that they wait for each other no longer than for one.
pub(super) fn stop_nodes(nodes: Vec<HostedNode>) {
    for node in &nodes {
        node.stopper.stop();
    }
    for node in nodes {
        if node.thread.join().is_err() {
            tracing::error!("a node's thread met a defect while it stopped");
        }
    }
}

/// A node's life from its start to its stop.
async fn live(
    node: Node,
    api: TcpListener,
    shared: Shared,
    mut stop: Stop,
    ended: oneshot::Sender<String>,
) {
    let router = api::router(node.clone(), shared.policy, shared.metrics.clone());
    let upkeep = tokio::spawn(telemetry::upkeep(shared.metrics));
    let serve = tokio::spawn(listener::serve(api, router, shared.edge, DRAIN));
    tokio::select! {
        () = stop.requested() => {
            if serve.await.is_ok_and(|finished| !finished) {
                tracing::warn!("some API requests were cut off");
            }
            node.stop().await;
        }
        error = node.failed() => {
            serve.abort();
            let _ = ended.send(error.to_string());
        }
    }
    upkeep.abort();
}

/// The runtime of a gateway, and of whatever else is not a node.
pub(super) fn gateway_runtime() -> Result<Runtime, Failure> {
    // One core is the node's.
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = cores.saturating_sub(1).clamp(1, GATEWAY_THREADS_MAX);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("gateway")
        .enable_all()
        .build()
        .map_err(runtime_failed)
}

/// A listener for the current runtime.
fn tokio_listener(listener: StdListener) -> Result<TcpListener, Failure> {
    listener
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(listener))
        .map_err(|error| Failure::Says(format!("cannot use a listener: {error}")))
}

/// Lets the next signal end the process at once: whoever asks twice does not want to wait.
fn exit_on(mut signals: Signals) {
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(1);
    });
}

fn runtime_failed(error: io::Error) -> Failure {
    Failure::Says(format!("cannot start a runtime: {error}"))
}
