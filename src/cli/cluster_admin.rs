//! `oncegate cluster`: looks at the cluster and moves leaderships.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Failure;
use super::admin_api::ApiArgs;

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show nodes, shards and who leads them, as the asked node sees it
    #[command(after_help = "Example:\n  \
        ONCEGATE_TOKEN=... oncegate cluster status --api 127.0.0.1:7201")]
    Status(StatusArgs),
    /// Let another node lead a shard; no request is lost with the leadership
    #[command(after_help = "Example:\n  \
        oncegate cluster transfer --token-file token --shard 3 --to 2")]
    Transfer(TransferArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    api: ApiArgs,
}

#[derive(Debug, Args)]
struct TransferArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// The shard
    #[arg(long, value_name = "SHARD")]
    shard: u16,
    /// The node that is to lead it
    #[arg(long, value_name = "NODE")]
    to: u64,
}

pub(super) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    match &args.command {
        ClusterCommand::Status(args) => status(args),
        ClusterCommand::Transfer(args) => transfer(args),
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let status = args.api.get("/v1/admin/cluster", &Map::new())?;
    if args.api.json {
        println!("{status}");
    } else {
        print!("{}", table(&status));
    }
    Ok(())
}

fn transfer(args: &TransferArgs) -> Result<(), Failure> {
    let mut body = Map::new();
    body.insert("shard".into(), args.shard.into());
    body.insert("to".into(), args.to.into());
    let moved = args.api.post("/v1/admin/cluster/transfer", body)?;
    if args.api.json {
        println!("{moved}");
    } else {
        println!("node {} leads shard {}", moved["leader"], moved["shard"]);
    }
    Ok(())
}

/// The status as lines for people.
fn table(status: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut lines = match &status["node"] {
        Value::Null => "as a gateway sees it\n".to_owned(),
        node => format!("as node {} sees it\n", text(node)),
    };
    for node in status["nodes"].as_array().into_iter().flatten() {
        let state = match (node["connected"].as_bool(), node["fit"].as_bool()) {
            (Some(true), Some(true)) => "in order",
            (Some(true), _) => "not fit to lead",
            _ => "not reached",
        };
        lines += &format!(
            "node {:<4} {:<22} region {:<12} leads {:<5} {state}\n",
            text(&node["id"]),
            text(&node["addr"]),
            text(&node["region"]),
            text(&node["leads"]),
        );
    }
    for shard in status["shards"].as_array().into_iter().flatten() {
        lines += &format!(
            "shard {:<5} leader {:<4} region {:<12} term {:<5} applied {} of {}\n",
            text(&shard["id"]),
            text(&shard["leader"]),
            text(&shard["region"]),
            text(&shard["term"]),
            text(&shard["applied_index"]),
            text(&shard["last_index"]),
        );
    }
    let clock = &status["clock"];
    let trusted = if clock["trusted"] == true { "trusted" } else { "NOT trusted" };
    lines += &format!("clock {trusted}, {} ms off the median\n", text(&clock["offset_ms"]));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_tells_who_is_away_and_who_leads() {
        let table = table(&json!({
            "node": 1,
            "nodes": [
                { "id": 1, "addr": "127.0.0.1:7101", "region": "eu", "leads": 0, "connected": true,
                  "fit": true },
                { "id": 2, "addr": "127.0.0.1:7102", "region": "us", "leads": 1, "connected": true,
                  "fit": false },
                { "id": 3, "addr": "127.0.0.1:7103", "region": "ap", "leads": 0,
                  "connected": false, "fit": false },
            ],
            "shards": [
                { "id": 0, "leader": null, "region": null, "term": 4, "applied_index": 2,
                  "last_index": 3 },
                { "id": 1, "leader": 2, "region": "us", "term": 4, "applied_index": 3,
                  "last_index": 3 },
            ],
            "clock": { "trusted": false, "offset_ms": null },
        }));
        let words: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1].join(" "), "node 1 127.0.0.1:7101 region eu leads 0 in order");
        assert!(words[2].join(" ").ends_with("leads 1 not fit to lead"), "{table}");
        assert!(words[3].join(" ").ends_with("not reached"), "{table}");
        assert_eq!(words[4].join(" "), "shard 0 leader - region - term 4 applied 2 of 3");
        assert_eq!(words[5].join(" "), "shard 1 leader 2 region us term 4 applied 3 of 3");
        assert_eq!(words[6].join(" "), "clock NOT trusted, - ms off the median");
    }
}
