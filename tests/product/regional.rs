//! oncegate behind the gateways that regions have: the real nginx and HAProxy, with the documented
//! configurations.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use tempfile::TempDir;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, send};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run, until};

/// How long a client goes on asking: an election and a gateway's checks take a few seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whom the documented configurations make oncegate believe.
const AUTH: &str = r#"
[auth.trusted_header]
name = "X-Tenant"
secret_header = "X-Gateway-Secret"
secret_sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"#;

/// A region's gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nginx,
    Haproxy,
}

/// A gateway that runs; it ends with the test.
struct Regional {
    address: SocketAddr,
    process: Child,
    folder: TempDir,
}

impl Drop for Regional {
    fn drop(&mut self) {
        // Gone already when the test failed because of that.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// The program; `None`, and said so, where it is not installed.
    fn installed(self) -> Option<PathBuf> {
        // Where Debian puts it is not on everybody's path.
        let found = ["", "/usr/sbin", "/usr/local/sbin"].into_iter().find_map(|folder| {
            let program = Path::new(folder).join(self.program());
            let output = Command::new(&program).arg("-v").output();
            output.is_ok_and(|output| output.status.success()).then_some(program)
        });
        if found.is_none() {
            // Past the capture of the test's output: a test that did not run must be seen.
            let line = format!("\nSKIPPED: {} is not installed\n", self.program());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        }
        found
    }

    /// The documented configuration, with a test's addresses in the place of its own.
    fn configuration(self, cluster: &Cluster, address: SocketAddr, folder: &Path) -> String {
        let file = match self {
            Self::Nginx => "nginx.conf",
            Self::Haproxy => "haproxy.cfg",
        };
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/gateways").join(file);
        let mut text = fs::read_to_string(file).unwrap();
        let mut put = |documented: &str, ours: String| {
            assert_eq!(text.matches(documented).count(), 1, "{documented}");
            text = text.replace(documented, &ours);
        };
        for (node, documented) in
            ["10.0.1.11:8080", "10.0.1.12:8080", "10.0.2.11:8080"].iter().enumerate()
        {
            let gateway = cluster.gateway(node);
            match self {
                Self::Nginx => put(documented, gateway.to_string()),
                Self::Haproxy => put(
                    &format!("{documented} port 7201"),
                    format!("{gateway} port {}", cluster.api(node).port()),
                ),
            }
        }
        match self {
            Self::Nginx => {
                put("listen 8000;", format!("listen {address};"));
                put("pid /run/nginx.pid;", format!("pid {}/pid;", folder.display()));
                let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|what| format!("{what}_temp_path {}/{what};", folder.display()))
                    .concat();
                put("http {", format!("http {{ access_log off; {temporary}"));
            }
            Self::Haproxy => put("bind 0.0.0.0:8000", format!("bind {address}")),
        }
        text
    }

    async fn start(self, program: &Path, cluster: &Cluster) -> Regional {
        let folder = tempfile::tempdir().unwrap();
        let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = reserved.local_addr().unwrap();
        drop(reserved);
        let file = folder.path().join("configuration");
        fs::write(&file, self.configuration(cluster, address, folder.path())).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program);
        match self {
            Self::Nginx => {
                let global = "daemon off; master_process off; error_log stderr;";
                command.arg("-p").arg(folder.path()).arg("-g").arg(global).arg("-c").arg(&file)
            }
            Self::Haproxy => command.arg("-db").arg("-f").arg(&file),
        };
        command.stdin(Stdio::null());
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut regional = Regional { address, process, folder };
        until("the gateway serves", || {
            let log = fs::read_to_string(regional.folder.path().join("log")).unwrap_or_default();
            assert!(regional.process.try_wait().unwrap().is_none(), "it ended: {log}");
            async move {
                // 401: it serves, and does not know who asks.
                let answer = send(address, Method::GET, "/", &[], "").await;
                answer.is_ok_and(|answer| answer.status == 401)
            }
        })
        .await;
        regional
    }
}

impl Regional {
    async fn post(&self, tenant: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let authorization = format!("Bearer key-of-{tenant}");
        let mut all =
            vec![("authorization", authorization.as_str()), ("content-type", "application/json")];
        all.extend(headers);
        send(self.address, Method::POST, path, &all, body.to_owned()).await.unwrap()
    }

    /// Posts as a client does that follows the rules: with the same key until there is an answer.
    async fn post_until_answered(&self, key: &str) -> Answer {
        let begin = Instant::now();
        loop {
            let answer = self.post("a", "/orders", &[("idempotency-key", key)], "{}").await;
            if answer.status.is_success() {
                return answer;
            }
            assert!(begin.elapsed() < PATIENCE, "no answer: {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let cluster = Setup::new(policy(&["a", "b"], AUTH), upstream.address).start().await;
    (cluster, upstream)
}

/// The region's gateway names the tenant, and nobody else; what passes it stays what it was.
fn tenants_and_keys_pass(kind: Kind) {
    run(async move {
        let Some(program) = kind.installed() else { return };
        let (cluster, upstream) = start().await;
        let regional = kind.start(&program, &cluster).await;
        let key = fresh_key();
        let keyed = [("idempotency-key", key.as_str())];
        let first = regional.post("a", "/orders", &keyed, "{\"n\":1}").await;
        assert_eq!(first.status, 201, "{}", first.text());
        let again = regional.post("a", "/orders", &keyed, "{\"n\":1}").await;
        assert!(again.is_replay(), "{again:?}");
        assert_eq!(again.body, first.body);
        let changed = regional.post("a", "/orders", &keyed, "{\"n\":2}").await;
        assert_eq!(changed.code(), "key-reused");

        // Who says that he is somebody else is who he proved to be.
        let lies = [("x-tenant", "a"), ("x-gateway-secret", "guess"), keyed[0]];
        let other = regional.post("b", "/orders", &lies, "{\"n\":1}").await;
        assert_eq!((other.status.as_u16(), other.is_replay()), (201, false), "{}", other.text());
        assert_eq!(upstream.executions(&key), 2, "one of each tenant");
        let nobody = regional.post("nobody", "/orders", &lies, "{\"n\":1}").await;
        assert_eq!(nobody.status, 401);
        // Past the gateway, nobody is believed.
        let past = send(cluster.gateway(0), Method::POST, "/orders", &lies, "{\"n\":1}").await;
        assert_eq!(past.unwrap().code(), "unauthenticated");

        let two = [("idempotency-key", "one"), ("idempotency-key", "two")];
        let two = regional.post("a", "/orders", &two, "{}").await;
        assert_eq!(two.code(), "key-malformed");
        let quoted = format!("\"{key}\"");
        let quoted = [("idempotency-key", quoted.as_str())];
        assert!(regional.post("a", "/orders", &quoted, "{\"n\":1}").await.is_replay());
    });
}

/// A gateway that dies is gone round, and nothing runs twice by that.
fn failover_runs_nothing_twice(kind: Kind) {
    run(async move {
        let Some(program) = kind.installed() else { return };
        let (mut cluster, upstream) = start().await;
        let regional = kind.start(&program, &cluster).await;
        let mut keys: Vec<String> = Vec::new();
        let first = fresh_key();
        assert_eq!(regional.post_until_answered(&first).await.status, 201);
        keys.push(first);
        // Both of the region's own, one after the other with time to come back.
        for node in [0, 1] {
            cluster.kill(node);
            for _ in 0..10 {
                let key = fresh_key();
                regional.post_until_answered(&key).await;
                keys.push(key);
            }
            let old = &keys[0];
            let replay = regional.post("a", "/orders", &[("idempotency-key", old)], "{}").await;
            assert!(replay.is_replay(), "another gateway answers: {}", replay.text());
            cluster.start(node, &[]);
            cluster.ready().await;
        }
        for key in &keys {
            assert_eq!(upstream.executions(key), 1, "{key}");
        }
    });
}

/// A request that may have arrived is not sent again: without a key nobody would notice.
fn a_post_is_not_sent_again(kind: Kind) {
    run(async move {
        let Some(program) = kind.installed() else { return };
        let (mut cluster, upstream) = start().await;
        let regional = kind.start(&program, &cluster).await;
        // Held after it was executed, so that a gateway dies with an answer outstanding.
        let post = regional.post("a", "/charges?hold=3000", &[], "{}");
        let kill = async {
            until("it was executed", || std::future::ready(upstream.executions("") > 0)).await;
            let mut holders = Vec::new();
            for node in 0..3 {
                let metrics = send(cluster.api(node), Method::GET, "/metrics", &[], "").await;
                let passed = |line: &str| line.starts_with("oncegate_gateway_passed_total 1");
                if metrics.unwrap().text().lines().any(passed) {
                    holders.push(node);
                }
            }
            assert_eq!(holders.len(), 1, "one gateway has the request: {holders:?}");
            cluster.kill(holders[0]);
        };
        let (answer, ()) = tokio::join!(post, kill);
        assert!(answer.status.is_server_error(), "{}", answer.text());
        assert_eq!(upstream.executions(""), 1, "it was sent again");
    });
}

#[test]
fn nginx_names_the_tenant_and_passes_keys_as_they_are() {
    tenants_and_keys_pass(Kind::Nginx);
}

#[test]
fn haproxy_names_the_tenant_and_passes_keys_as_they_are() {
    tenants_and_keys_pass(Kind::Haproxy);
}

#[test]
fn nginx_goes_round_a_dead_gateway_and_nothing_runs_twice() {
    failover_runs_nothing_twice(Kind::Nginx);
}

#[test]
fn haproxy_goes_round_a_dead_gateway_and_nothing_runs_twice() {
    failover_runs_nothing_twice(Kind::Haproxy);
}

#[test]
fn nginx_sends_no_post_again() {
    a_post_is_not_sent_again(Kind::Nginx);
}

#[test]
fn haproxy_sends_no_post_again() {
    a_post_is_not_sent_again(Kind::Haproxy);
}
