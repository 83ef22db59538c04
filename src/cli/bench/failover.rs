//! Kills a node and measures until every shard answers claims again.

use std::process::Command;
use std::time::{Duration, Instant};

use http::StatusCode;

use super::claims::claim_body;

use super::{FailoverArgs, fresh_key, latency, print, record};
use crate::cli::client::Client;

/// A claim that is not answered so soon is sent again, as a client with a short time-out would.
const PATIENCE: Duration = Duration::from_millis(250);

/// A cluster that has not recovered by then has failed the measurement.
const GIVE_UP: Duration = Duration::from_secs(30);

pub(super) async fn run(args: &FailoverArgs) -> Result<(), String> {
    let killed = Command::new("kill").args(["-KILL", &args.kill.to_string()]).status();
    if !killed.map_err(|error| format!("kill: {error}"))?.success() {
        return Err(format!("no process {} to kill", args.kill));
    }
    let begin = Instant::now();
    let mut probes = tokio::task::JoinSet::new();
    for _ in 0..args.probes {
        probes.spawn(answered_after(args.api, args.api_key.clone(), begin));
    }
    let mut all = latency();
    while let Some(took) = probes.join_next().await {
        record(&mut all, took.map_err(|error| error.to_string())??);
    }
    let measured = serde_json::json!({
        "what": "claims answered again",
        "probes": all.len(),
        "p50_ms": all.value_at_quantile(0.5) as f64 / 1000.0,
        "slowest_ms": all.max() as f64 / 1000.0,
    });
    print(args.json, &measured);
    Ok(())
}

/// How long after `begin` a fresh key is granted.
async fn answered_after(
    api: std::net::SocketAddr,
    api_key: String,
    begin: Instant,
) -> Result<Duration, String> {
    let authorization = format!("Bearer {api_key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let (key, attempt) = (fresh_key(), fresh_key());
    while begin.elapsed() < GIVE_UP {
        let claim = async {
            let mut client = Client::connect(api).await?;
            client.post("/v1/claims", &headers, claim_body(&key, &attempt)).await
        };
        match tokio::time::timeout(PATIENCE, claim).await {
            Ok(Ok((StatusCode::CREATED, _))) => return Ok(begin.elapsed()),
            // Not yet: the same attempt may be sent again as often as needed.
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(_) => {}
        }
    }
    Err(format!("a shard did not answer within {} s", GIVE_UP.as_secs()))
}
