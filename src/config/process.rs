//! Reads `oncegate.toml`.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use cluster::placement::SLOTS;
use cluster::{NodeId, Peer, Secret};
use http::Uri;
use http::uri::Scheme;
use protocol::policy::AnswersFrom;

use super::address::{address, distinct, parse_upstream};
use super::file::document;
use super::finding::{Finding, Findings, Refused};
use super::section::{Located, Section};
use super::{
    ApiSettings, ClusterSettings, GatewaySettings, NodeSettings, Process, UpstreamTls, lint,
};

/// The default number of shards: fewer win on few cores, more spread leaders better.
const SHARDS_DEFAULT: u64 = 16;

/// The largest request body that may be configured: it is held in memory whole.
const REQUEST_BODY_MAX: ByteSize = ByteSize::mib(64);

/// Permission bit of a file that everybody may read.
const WORLD_READABLE: u32 = 0o004;

impl Process {
    /// Reads a process file and the secret that it names; the findings are warnings. Relative paths
    /// in the file are relative to it.
    ///
    /// # Errors
    /// When the file cannot be read, or for anything in it that is wrong.
    pub fn load(file: &Path) -> Result<(Self, Vec<Finding>), Refused> {
        let text = fs::read_to_string(file)
            .map_err(|error| Finding::of_file(file, "unreadable", error.to_string()))?;
        let findings = Findings::new(file, &text);
        let process = document(&findings, &text).and_then(|(table, at)| {
            let section = Section::new(&findings, "the file", at, &table, None);
            read(&section)
        });
        findings.conclude(process)
    }
}

fn read(section: &Section<'_>) -> Option<Process> {
    let cluster = section.require("cluster", section.table("cluster"));
    let cluster = cluster.and_then(|table| cluster_settings(&table));
    if !section.has("node") && !section.has("gateway") {
        let message = "a process needs [node], [gateway] or both";
        section.findings.error_of_file("nothing-to-run", message);
    }
    section.refuse("peer_tls");
    let node = section.table("node").map(|table| node_settings(&table, cluster.as_ref()));
    let api = match section.table("api") {
        Some(table) => api_settings(&table),
        None => (!section.has("api")).then(|| default_api(section)),
    };
    let region = match (&cluster, &node) {
        (Some(cluster), Some(Some(node))) => {
            let own = cluster.peers.iter().find(|peer| peer.id == node.settings.id);
            own.map_or_else(String::new, |peer| peer.region.clone())
        }
        _ => String::new(),
    };
    let gateway = section.table("gateway").map(|table| gateway_settings(&table, region));
    section.finish();
    let listeners = [
        node.as_ref().and_then(|node| node.as_ref()).map(|node| &node.listen),
        api.as_ref(),
        gateway.as_ref().and_then(|gateway| gateway.as_ref()).map(|gateway| &gateway.listen),
    ];
    distinct(section.findings, &listeners);
    let (node, gateway) = (node.flatten(), gateway.flatten());
    let broken = [("node", node.is_none()), ("gateway", gateway.is_none())];
    if broken.into_iter().any(|(part, is_unread)| is_unread && section.has(part)) {
        return None;
    }
    Some(Process {
        cluster: cluster?,
        node: node.map(|node| node.settings),
        api: ApiSettings { listen: api?.value },
        gateway: gateway.map(|gateway| gateway.settings),
    })
}

fn cluster_settings(section: &Section<'_>) -> Option<ClusterSettings> {
    let name = section.require("name", section.text("name"));
    if name.as_ref().is_some_and(|name| {
        name.value.is_empty() || name.value.len() > lint::NAME_MAX || !lint::is_plain(name.value)
    }) {
        section.wrong_value("name", &lint::name_rule());
    }
    let shards = section.number("shards", 1..=u64::from(SLOTS));
    let shards = section.settled("shards", shards, SHARDS_DEFAULT);
    let secret = section.require("secret_file", section.text("secret_file"));
    let secret = secret.and_then(|path| secret_file(section, &path));
    let peers = section.require("peers", section.tables("peers", "peer", None));
    let peers = peers.and_then(|tables| peers_settings(section, &tables));
    let policy = section.text("policy");
    let unread = policy.is_none() && section.has("policy");
    section.finish();
    if unread {
        return None;
    }
    Some(ClusterSettings {
        name: name?.value.to_owned(),
        shards: shards?.value as u16,
        secret: secret?,
        peers: peers?,
        policy: policy.map(|path| beside(section.findings.file(), path.value)),
    })
}

/// Reads the secret: the file's bytes without white space around them.
fn secret_file(section: &Section<'_>, name: &Located<&str>) -> Option<Secret> {
    let path = beside(section.findings.file(), name.value);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            section.wrong_value("secret_file", &format!("({}): {error}", path.display()));
            return None;
        }
    };
    let mode = fs::metadata(&path).map(|metadata| metadata.permissions().mode());
    if mode.is_ok_and(|mode| mode & WORLD_READABLE != 0) {
        let message = format!("everybody may read {}: chmod 600 it", path.display());
        section.findings.warn(&name.at, "secret-world-readable", message);
    }
    let secret = Secret::new(bytes.trim_ascii().to_vec());
    if secret.is_none() {
        let message =
            format!("({}) must hold at least {} bytes", path.display(), Secret::BYTES_MIN);
        section.wrong_value("secret_file", &message);
    }
    secret
}

fn peers_settings(section: &Section<'_>, tables: &[Section<'_>]) -> Option<Vec<Peer>> {
    let mut ids = HashMap::new();
    let mut addrs = HashMap::new();
    let mut peers = Vec::with_capacity(tables.len());
    for table in tables {
        let id = table.require("id", table.number("id", 1..=u64::MAX));
        let addr = table.require("addr", address(table, "addr"));
        let region = table.settled("region", table.text("region"), "");
        table.finish();
        if let Some(id) = &id
            && ids.insert(id.value, ()).is_some()
        {
            let message = format!("two peers have the id {}", id.value);
            section.findings.error(&id.at, "duplicate", message);
        }
        if let Some(addr) = &addr
            && addrs.insert(addr.value, ()).is_some()
        {
            let message = format!("two peers have the address {}", addr.value);
            section.findings.error(&addr.at, "duplicate", message);
        }
        peers.push(id.zip(addr).zip(region).map(|((id, addr), region)| Peer {
            id: NodeId(id.value),
            addr: addr.value,
            region: region.value.to_owned(),
        }));
    }
    if !matches!(tables.len(), 1 | 3 | 5) {
        section.wrong_value("peers", "must be one, three or five: an even number adds no safety");
        return None;
    }
    peers.into_iter().collect()
}

/// A node's settings and where its listener stands in the file.
struct ReadNode {
    settings: NodeSettings,
    listen: Located<SocketAddr>,
}

fn node_settings(section: &Section<'_>, cluster: Option<&ClusterSettings>) -> Option<ReadNode> {
    let id = section.require("id", section.number("id", 1..=u64::MAX));
    let data_dir = section.require("data_dir", section.text("data_dir"));
    let listen = section.require("peer_listen", address(section, "peer_listen"));
    section.finish();
    if let (Some(id), Some(cluster)) = (&id, cluster)
        && !cluster.peers.iter().any(|peer| peer.id.0 == id.value)
    {
        let message = format!("node {} is not one of the peers in [cluster]", id.value);
        section.findings.error(&id.at, "not-a-peer", message);
    }
    let listen = listen?;
    Some(ReadNode {
        settings: NodeSettings {
            id: NodeId(id?.value),
            data_dir: beside(section.findings.file(), data_dir?.value),
            peer_listen: listen.value,
        },
        listen,
    })
}

fn api_settings(section: &Section<'_>) -> Option<Located<SocketAddr>> {
    let listen = section.require("listen", address(section, "listen"));
    section.finish();
    listen
}

fn default_api(section: &Section<'_>) -> Located<SocketAddr> {
    let value = SocketAddr::from(([127, 0, 0, 1], 7201));
    Located { value, at: section.at.clone(), own: false }
}

/// A gateway's settings and where its listener stands in the file.
struct ReadGateway {
    settings: GatewaySettings,
    listen: Located<SocketAddr>,
}

fn gateway_settings(section: &Section<'_>, region: String) -> Option<ReadGateway> {
    let listen = section.require("listen", address(section, "listen"));
    let upstream = section.require("upstream", section.text("upstream"));
    let upstream = upstream.and_then(|text| match parse_upstream(text.value) {
        Ok(uri) => Some(text.map(|_| uri)),
        Err(message) => {
            section.wrong_value("upstream", message);
            None
        }
    });
    let tls = upstream.as_ref().and_then(|upstream| upstream_tls(section, &upstream.value));
    let own_region = section.text("region");
    let choices = [("application", AnswersFrom::Application), ("proxy", AnswersFrom::Proxy)];
    let answers_from = section.choice("answers_from", &choices);
    let answers_from = section.settled("answers_from", answers_from, AnswersFrom::Application);
    let body = section.size("max_request_body", REQUEST_BODY_MAX);
    let body = section.settled("max_request_body", body, ByteSize::mib(1));
    section.finish();
    if let (Some(listen), Some(upstream)) = (&listen, &upstream)
        && upstream.value.authority().is_some_and(|it| it.as_str() == listen.value.to_string())
    {
        let message = "\"upstream\" is this gateway itself";
        section.findings.error(&upstream.at, "upstream-is-gateway", message);
    }
    let listen = listen?;
    Some(ReadGateway {
        settings: GatewaySettings {
            listen: listen.value,
            upstream: upstream?.value,
            upstream_tls: tls?,
            region: own_region.map_or(region, |own| own.value.to_owned()),
            answers_from: answers_from?.value,
            max_request_body: body?.value,
        },
        listen,
    })
}

/// Whom to believe to be an upstream over TLS: the authorities of a file, or else the system's.
fn upstream_tls(section: &Section<'_>, upstream: &Uri) -> Option<Option<UpstreamTls>> {
    let secure = upstream.scheme() == Some(&Scheme::HTTPS);
    let read = match section.text("upstream_ca_file") {
        None if section.has("upstream_ca_file") => return None,
        Some(_) if !secure => {
            section.wrong_value("upstream_ca_file", "needs an \"upstream\" with https");
            return None;
        }
        None if !secure => return Some(None),
        None => UpstreamTls::of_system().map_err(|error| ("upstream", error.to_string())),
        Some(text) => {
            let path = beside(section.findings.file(), text.value);
            UpstreamTls::of_file(&path)
                .map_err(|error| ("upstream_ca_file", format!("({}) {error}", path.display())))
        }
    };
    match read {
        Ok(tls) => Some(Some(tls)),
        Err((setting, message)) => {
            section.wrong_value(setting, &message);
            None
        }
    }
}

/// A path in a file, relative to that file.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}
