//! What `oncegate dev` prints once it runs: where everything is, and what to try.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use http::Uri;

/// What the banner tells.
pub(super) struct Banner<'a> {
    pub(super) gateway: SocketAddr,
    /// The API of every node, in the order of their ids.
    pub(super) apis: &'a [SocketAddr],
    pub(super) data_dir: &'a Path,
    pub(super) upstream: &'a Uri,
    /// Whether the upstream is the built-in sample API.
    pub(super) sample: bool,
    /// Whether the policy is the user's, whose keys are not known here.
    pub(super) own_policy: bool,
}

pub(super) fn print(banner: &Banner<'_>) {
    let text = text(banner, &format!("try-{:016x}", rand::random::<u64>()));
    // Nobody may be reading, as behind `| head`: the cluster runs all the same.
    let _ = writeln!(io::stdout(), "{text}");
}

/// The banner; `key` is a new one for every start, so that pasting the lines works after a restart
/// as well.
fn text(banner: &Banner<'_>, key: &str) -> String {
    let Banner { gateway, apis, data_dir, .. } = banner;
    let nodes = apis.len();
    let kind = if banner.sample { "sample orders API" } else { "upstream" };
    let upstream = banner.upstream.authority().map_or("", |it| it.as_str());
    let mut text = format!("oncegate runs: {nodes} node(s), durable in {}\n\n", data_dir.display());
    text += &format!("  gateway     http://{gateway}  ->  {kind} at http://{upstream}\n");
    for (api, id) in apis.iter().zip(1..) {
        text += &format!("  claims API  http://{api}  (node {id})\n");
    }
    if !banner.own_policy {
        text += "  tenant      dev, API key dev\n";
        text += "  admin       dev, token dev-admin (for `oncegate records`)\n";
    }
    let path = if banner.sample { "/orders" } else { "/your/path" };
    let api_key = if banner.own_policy { "YOUR-API-KEY" } else { "dev" };
    let line = |amount: u32| {
        format!(
            "curl -i http://{gateway}{path} -H 'Authorization: Bearer {api_key}' \
             -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' \
             -d '{{\"item\":\"book\",\"amount\":{amount}}}'\n"
        )
    };
    text += "\nTry it. A first request is executed:\n\n";
    text += &line(1200);
    text += "\nThe same again is not executed again, but answered with the first one's answer \
             (Idempotent-Replayed: true):\n\n";
    text += &line(1200);
    text += "\nThe same key with another body is refused (422 key-reused):\n\n";
    text += &line(9900);
    text += "\nCtrl-C stops.";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_lines_show_a_first_request_its_repeat_and_a_changed_body() {
        let upstream = Uri::from_static("http://127.0.0.1:4000");
        let banner = Banner {
            gateway: "127.0.0.1:8080".parse().unwrap(),
            apis: &["127.0.0.1:7201".parse().unwrap(), "127.0.0.1:7202".parse().unwrap()],
            data_dir: Path::new(".oncegate"),
            upstream: &upstream,
            sample: true,
            own_policy: false,
        };
        let text = text(&banner, "try-1");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("curl ")).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], lines[1]);
        assert_ne!(lines[1], lines[2]);
        assert!(lines.iter().all(|line| line.contains("Idempotency-Key: try-1")));
        assert!(text.contains("http://127.0.0.1:7202  (node 2)"));
    }
}
