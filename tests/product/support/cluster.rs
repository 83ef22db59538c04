//! A cluster of real processes in a temporary folder, killed when the test ends.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use ::http::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::{http, until};

/// How a cluster is set up.
pub(crate) struct Setup {
    pub(crate) policy: String,
    pub(crate) upstream: Option<SocketAddr>,
    pub(crate) nodes: usize,
    /// Appended to the `[gateway]` section.
    pub(crate) gateway: String,
}

impl Setup {
    /// Three nodes under `policy` in front of `upstream`.
    pub(crate) fn new(policy: String, upstream: SocketAddr) -> Self {
        Self { policy, upstream: Some(upstream), nodes: 3, gateway: String::new() }
    }

    /// One node, which is a whole cluster, for what no second node has a part in.
    pub(crate) fn single(policy: String, upstream: SocketAddr) -> Self {
        Self { nodes: 1, ..Self::new(policy, upstream) }
    }

    pub(crate) async fn start(self) -> Cluster {
        let cluster = self.prepare();
        let mut cluster = cluster;
        for node in 0..cluster.nodes.len() {
            cluster.start(node, &[]);
        }
        cluster.ready().await;
        cluster
    }

    /// Everything but the processes.
    pub(crate) fn prepare(self) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let nodes: Vec<_> = (0..self.nodes).map(|_| Node::reserve()).collect();
        fs::write(folder.path().join("policy.toml"), &self.policy).unwrap();
        let secret = folder.path().join("cluster.secret");
        fs::write(&secret, "a secret of the tests, long enough").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let regions = ["eu-west", "us-east", "ap-south"];
        let peers: String = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let (id, region) = (index + 1, regions[index % 3]);
                format!("{{ id = {id}, addr = \"{}\", region = \"{region}\" }}, ", node.peer)
            })
            .collect();
        for (index, node) in nodes.iter().enumerate() {
            let id = index + 1;
            let mut text = format!(
                "[cluster]\nname = \"test\"\nsecret_file = \"cluster.secret\"\npeers = [{peers}]\n\
                 [node]\nid = {id}\ndata_dir = \"data/{id}\"\npeer_listen = \"{}\"\n\
                 [api]\nlisten = \"{}\"\n",
                node.peer, node.api
            );
            if let Some(upstream) = self.upstream {
                text += &format!(
                    "[gateway]\nlisten = \"{}\"\nupstream = \"http://{upstream}\"\n{}",
                    node.gateway, self.gateway
                );
            }
            fs::write(folder.path().join(format!("{id}.toml")), text).unwrap();
        }
        Cluster { folder, nodes }
    }
}

pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    pub(crate) nodes: Vec<Node>,
}

pub(crate) struct Node {
    pub(crate) peer: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) gateway: SocketAddr,
    process: Option<Child>,
}

impl Node {
    /// Addresses that nobody else uses: a loopback address drawn at random, and ports that were
    /// free on it a moment ago.
    fn reserve() -> Self {
        let [a, b, c] = rand::random::<[u8; 3]>();
        let ip = IpAddr::V4(Ipv4Addr::new(127, a.max(1), b, c.clamp(1, 254)));
        let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind((ip, 0)).unwrap()).collect();
        let address = |index: usize| listeners[index].local_addr().unwrap();
        Self { peer: address(0), api: address(1), gateway: address(2), process: None }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.as_ref().expect("the node runs").id().try_into().unwrap())
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_none())
    }
}

impl Cluster {
    /// The gateway of the node at `index`, counted round.
    pub(crate) fn gateway(&self, index: usize) -> SocketAddr {
        self.nodes[index % self.nodes.len()].gateway
    }

    /// The claims API of the node at `index`, counted round.
    pub(crate) fn api(&self, index: usize) -> SocketAddr {
        self.nodes[index % self.nodes.len()].api
    }

    fn file(&self, name: String) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the process of a node, with more arguments.
    pub(crate) fn start(&mut self, index: usize, more: &[&str]) {
        self.start_under("policy.toml", index, more);
    }

    /// Starts the process of a node under a policy of its own.
    pub(crate) fn start_under(&mut self, policy_file: &str, index: usize, more: &[&str]) {
        let id = index + 1;
        let log =
            File::options().create(true).append(true).open(self.file(format!("{id}.log"))).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_oncegate"))
            .arg("serve")
            .arg("--config")
            .arg(self.file(format!("{id}.toml")))
            .arg("--policy")
            .arg(self.file(policy_file.to_owned()))
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.nodes[index].process = Some(process);
    }

    /// Kills a node as a crash would.
    pub(crate) fn kill(&mut self, index: usize) {
        let mut process = self.nodes[index].process.take().expect("the node runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks a node to stop and waits until it has ended; the exit status.
    pub(crate) async fn stop(&mut self, index: usize) -> Option<i32> {
        let pid = self.nodes[index].pid();
        let mut process = self.nodes[index].process.take().expect("the node runs");
        kill(pid, Signal::SIGTERM).unwrap();
        let ended = tokio::task::spawn_blocking(move || process.wait().unwrap());
        ended.await.unwrap().code()
    }

    /// Makes a running node believe that its disk has so many bytes free. The file appears as a
    /// whole: the node may look at any moment.
    pub(crate) fn pretend_free_bytes(&self, index: usize, free: u64) {
        let written = self.file("free-bytes".to_owned());
        fs::write(&written, free.to_string()).unwrap();
        fs::rename(written, self.file(format!("data/{}/free-bytes", index + 1))).unwrap();
    }

    /// What a node has logged, all its lives together.
    pub(crate) fn log(&self, index: usize) -> String {
        fs::read_to_string(self.file(format!("{}.log", index + 1))).unwrap_or_default()
    }

    /// Waits until every node that runs can get claims decided.
    pub(crate) async fn ready(&mut self) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].process.is_some() {
                self.node_ready(index).await;
            }
        }
    }

    pub(crate) async fn node_ready(&mut self, index: usize) {
        let api = self.api(index);
        for _ in 0..600 {
            let ready = http::send(api, Method::GET, "/readyz", &[], "").await;
            if ready.is_ok_and(|ready| ready.status == 200) {
                return;
            }
            let runs = self.nodes[index].runs();
            assert!(runs, "node {} ended:\n{}", index + 1, self.log(index));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("node {} is not ready:\n{}", index + 1, self.log(index));
    }

    /// Waits until a node's process has ended by itself.
    pub(crate) async fn ended(&mut self, index: usize) {
        let process = std::sync::Mutex::new(self.nodes[index].process.take().unwrap());
        until("the node has ended", || {
            let ended = process.lock().unwrap().try_wait().unwrap().is_some();
            async move { ended }
        })
        .await;
    }

    /// How a node's process has ended by itself, if it has; it may be started again then.
    pub(crate) fn has_ended(&mut self, index: usize) -> Option<ExitStatus> {
        let status = self.nodes[index].process.as_mut()?.try_wait().unwrap()?;
        self.nodes[index].process = None;
        Some(status)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if let Some(mut process) = node.process.take() {
                drop(process.kill());
                drop(process.wait());
            }
            if std::thread::panicking() {
                let path = self.folder.path().join(format!("{}.log", index + 1));
                let log = fs::read_to_string(path).unwrap_or_default();
                let tail: Vec<_> = log.lines().rev().take(30).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                eprintln!("-- node {}\n{}", index + 1, tail.join("\n"));
            }
        }
    }
}
