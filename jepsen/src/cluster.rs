//! A cluster of real processes in a folder, as `scripts/cluster-up.sh` lays one out: for node *N*
//! there are `N.toml`, `N.pid`, `N.log` and `data/N`, so that the scripts find their way in it.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::client::{Endpoint, admin};
use crate::history::Digest;
use crate::http::{Ask, send};
use crate::policy::policy;
use crate::proxy::Links;
use crate::script::Scripts;

/// The regions of the nodes, in their order.
pub const REGIONS: [&str; 3] = ["eu-west", "us-east", "ap-south"];

/// How many nodes a cluster has.
pub const NODES: u8 = 3;

/// How long an idle node may take to say that it is ready.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// How a cluster is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The product's binary.
    pub binary: PathBuf,
    /// The folder of the product's scripts.
    pub scripts: PathBuf,
    /// A folder for everything of this cluster, which does not exist yet.
    pub folder: PathBuf,
    /// How many shards it has.
    pub shards: u16,
    /// The API behind its gateways.
    pub upstream: SocketAddr,
    /// From which whatever is random about its links is drawn.
    pub seed: u64,
    /// What every node's process finds in its environment, `{N}` being the node.
    pub environment: Vec<(String, String)>,
    /// Whether the nodes are in networks of their own, made by `scripts/netns.sh`, and not behind
    /// proxies.
    pub namespaces: bool,
}

/// A cluster; its processes are killed when it goes.
pub struct Cluster {
    /// The folder.
    pub folder: PathBuf,
    /// The links between its nodes.
    pub links: Links,
    /// The scripts, for this cluster.
    pub scripts: Scripts,
    /// How many shards it has.
    pub shards: u16,
    binary: PathBuf,
    endpoints: Arc<Vec<Endpoint>>,
    environment: Vec<(String, String)>,
    namespaces: bool,
    processes: [Option<Child>; NODES as usize],
}

impl Cluster {
    /// Lays out the files and starts the proxies, and no node yet.
    ///
    /// # Errors
    /// When a file or a port cannot be had.
    pub async fn prepare(setup: Setup) -> io::Result<Self> {
        let Setup { binary, scripts, folder, shards, upstream, seed, .. } = setup;
        fs::create_dir_all(folder.join("data"))?;
        let folder = folder.canonicalize()?;
        fs::write(folder.join("policy.toml"), policy())?;
        let secret = folder.join("cluster.secret");
        fs::write(&secret, format!("a secret of the fault tests, {seed}"))?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
        let links = Links::new(NODES, seed);
        let namespaces = setup.namespaces;
        let addresses = |node| if namespaces { Ok(in_namespace(node)) } else { reserve() };
        let addresses = (1..=NODES).map(addresses).collect::<io::Result<Vec<_>>>()?;
        for node in 1..=NODES {
            let peers = peers(node, &addresses, (!namespaces).then_some(&links)).await?;
            let [peer, api, gateway] = addresses[usize::from(node - 1)];
            let text = format!(
                "[cluster]\nname = \"faults\"\nshards = {shards}\n\
                 secret_file = \"cluster.secret\"\npeers = [{peers}]\n\
                 [node]\nid = {node}\ndata_dir = \"data/{node}\"\npeer_listen = \"{peer}\"\n\
                 [api]\nlisten = \"{api}\"\n\
                 [gateway]\nlisten = \"{gateway}\"\nupstream = \"http://{upstream}\"\n"
            );
            fs::write(folder.join(format!("{node}.toml")), text)?;
        }
        let endpoints =
            addresses.iter().map(|[_, api, gateway]| Endpoint { api: *api, gateway: *gateway });
        Ok(Self {
            links,
            scripts: Scripts::new(&scripts, &folder),
            shards,
            binary: binary.canonicalize()?,
            endpoints: Arc::new(endpoints.collect()),
            environment: setup.environment,
            namespaces,
            processes: Default::default(),
            folder,
        })
    }

    /// Where the nodes can be reached.
    pub fn endpoints(&self) -> Arc<Vec<Endpoint>> {
        self.endpoints.clone()
    }

    /// Where a node keeps its data.
    pub fn data(&self, node: u8) -> PathBuf {
        self.folder.join(format!("data/{node}"))
    }

    /// What a node has logged, all its lives together.
    pub fn log(&self, node: u8) -> String {
        fs::read_to_string(self.folder.join(format!("{node}.log"))).unwrap_or_default()
    }

    /// Starts a node that does not run.
    ///
    /// # Errors
    /// When its process cannot be started.
    pub fn start(&mut self, node: u8) -> io::Result<()> {
        let file = |name: &str| self.folder.join(name);
        let log = File::options().create(true).append(true).open(file(&format!("{node}.log")))?;
        let mut command = if self.namespaces {
            // It becomes the node's process: the number is the node's.
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/run/netns/oncegate-{node}")).arg(&self.binary);
            command
        } else {
            Command::new(&self.binary)
        };
        command.arg("serve").arg("--config").arg(file(&format!("{node}.toml")));
        command.arg("--policy").arg(file("policy.toml"));
        for (name, value) in &self.environment {
            command.env(name, value.replace("{N}", &node.to_string()));
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        fs::write(file(&format!("{node}.pid")), child.id().to_string())?;
        self.processes[usize::from(node - 1)] = Some(child);
        Ok(())
    }

    /// Whether a node's process runs; a stopped one does.
    pub fn runs(&mut self, node: u8) -> bool {
        let process = &mut self.processes[usize::from(node - 1)];
        process.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }

    /// The number of a node's process, while it runs.
    pub fn pid(&mut self, node: u8) -> Option<u32> {
        self.runs(node).then(|| self.processes[usize::from(node - 1)].as_ref().map(Child::id))?
    }

    /// Kills a node as a crash would, by the script.
    ///
    /// # Errors
    /// When it does not run, or cannot be killed.
    pub async fn kill(&mut self, node: u8) -> Result<(), String> {
        self.scripts.run("kill.sh", &[&node.to_string()]).await?;
        self.reap(node);
        Ok(())
    }

    /// Takes note of a process that has ended.
    pub fn reap(&mut self, node: u8) {
        if let Some(mut child) = self.processes[usize::from(node - 1)].take() {
            // It has ended, or ends with the signal: nothing is waited for long.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Starts every node that does not run.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn start_missing(&mut self) -> io::Result<()> {
        for node in 1..=NODES {
            if !self.runs(node) {
                self.reap(node);
                self.start(node)?;
            }
        }
        Ok(())
    }

    /// Whether a node can get claims decided, as it says.
    pub async fn is_ready(&self, node: u8) -> bool {
        let api = self.endpoints[usize::from(node - 1)].api;
        let (headers, body) = (&[], String::new());
        let ask = Ask { method: Method::GET, target: "/readyz", headers, body };
        send(api, ask, ASK_PATIENCE).await.is_ok_and(|reply| reply.status == 200)
    }

    /// Waits until every node is ready; how long it took.
    ///
    /// # Errors
    /// Which node was not after `patience`, and the end of its log.
    pub async fn ready(&mut self, patience: Duration) -> Result<Duration, String> {
        let begin = Instant::now();
        for node in 1..=NODES {
            while !self.is_ready(node).await {
                let runs = self.runs(node);
                if !runs || begin.elapsed() > patience {
                    let what = if runs { "is not ready" } else { "has ended" };
                    return Err(format!("node {node} {what}:\n{}", tail(&self.log(node))));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(begin.elapsed())
    }

    /// The leader of a shard, as a majority of the nodes sees it; `None` where they do not agree.
    pub async fn leader(&self, shard: u16) -> Option<u8> {
        let mut votes = [0; NODES as usize + 1];
        for endpoint in self.endpoints.iter() {
            let target = "/v1/admin/cluster";
            let Ok(reply) = admin(endpoint.api, Method::GET, target, String::new()).await else {
                continue;
            };
            let document: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
            let leader = document["shards"][usize::from(shard)]["leader"].as_u64();
            if let Some(vote) = leader.and_then(|leader| votes.get_mut(leader as usize)) {
                *vote += 1;
            }
        }
        let majority = NODES / 2 + 1;
        (1..=NODES).find(|node| votes[usize::from(*node)] >= majority)
    }

    /// Digest of a shard's records at a node.
    ///
    /// # Errors
    /// When the node does not tell.
    pub async fn digest(&self, node: u8, shard: u16) -> Result<Digest, String> {
        let api = self.endpoints[usize::from(node - 1)].api;
        let target = format!("/v1/admin/cluster/digest?shard={shard}");
        let reply = admin(api, Method::GET, &target, String::new()).await;
        let reply = reply.map_err(|broken| broken.why)?;
        let document: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        match (document["applied_index"].as_u64(), document["digest"].as_str()) {
            (Some(index), Some(digest)) => {
                Ok(Digest { node, shard, index, digest: digest.to_owned() })
            }
            _ => Err(format!("{}: {document}", reply.status)),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in 1..=NODES {
            // One that is stopped must go on before it can end.
            if let Some(pid) = self.pid(node).and_then(|pid| i32::try_from(pid).ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
            }
            self.reap(node);
        }
    }
}

/// Three ports on an address that nobody else uses: a loopback address drawn at random, so that
/// no outgoing connection takes a port of it while its node is down.
fn reserve() -> io::Result<[SocketAddr; 3]> {
    let [a, b, c] = rand::random::<[u8; 3]>();
    let ip = IpAddr::V4(Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)));
    let port = || std::net::TcpListener::bind((ip, 0));
    let listeners = [port()?, port()?, port()?];
    let [peer, api, gateway] = &listeners;
    Ok([peer.local_addr()?, api.local_addr()?, gateway.local_addr()?])
}

/// The addresses of a node in a network of its own.
fn in_namespace(node: u8) -> [SocketAddr; 3] {
    let ip = Ipv4Addr::new(10, 77, 0, node);
    [7100, 7200, 7300].map(|port| SocketAddr::from((ip, port)))
}

/// The peers as `node` finds them: itself, and the others behind a proxy each, if there are any.
async fn peers(
    node: u8,
    addresses: &[[SocketAddr; 3]],
    links: Option<&Links>,
) -> io::Result<String> {
    let mut text = String::new();
    for peer in 1..=NODES {
        let index = usize::from(peer - 1);
        let mut address = addresses[index][0];
        if let Some(links) = links.filter(|_| peer != node) {
            let target = address;
            // Not on the node's own address, where its other ports wait to be taken.
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            address = listener.local_addr()?;
            tokio::spawn(links.clone().serve(listener, node, peer, target));
        }
        let region = REGIONS[index];
        text += &format!("{{ id = {peer}, addr = \"{address}\", region = \"{region}\" }}, ");
    }
    Ok(text)
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Whether a folder holds what a kept run does, so that it may be removed.
pub fn is_run(folder: &Path) -> bool {
    folder.join("history.ndjson").exists()
}
