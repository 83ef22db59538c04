//! Claims of fresh keys.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use super::{ClaimsArgs, Latency, fresh_key, latency, print, record, summary};
use crate::cli::client::Client;

pub(super) async fn run(args: &ClaimsArgs) -> Result<(), String> {
    let begin = Instant::now() + Duration::from_secs(args.load.warm_up);
    let end = begin + Duration::from_secs(args.load.seconds);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..usize::from(args.load.connections) {
        let address = args.api[number % args.api.len()];
        let client = Client::connect(address).await?;
        clients.spawn(claim_until(client, args.api_key.clone(), begin, end));
    }
    let mut all = latency();
    while let Some(measured) = clients.join_next().await {
        let measured = measured.map_err(|error| error.to_string())??;
        all.add(measured).map_err(|error| error.to_string())?;
    }
    let name = format!("claims, {} connections", args.load.connections);
    print(args.json, &summary(&name, &all, args.load.seconds));
    Ok(())
}

/// The body of a claim that nobody has made before. Its lease is the longest that the default
/// settings allow: a run of less than a minute measures no settling of leases with it.
pub(super) fn claim_body(key: &str, attempt: &str) -> Bytes {
    let claim = format!(r#""operation":"bench","key":"{key}","attempt":"{attempt}""#);
    format!(r#"{{{claim},"lease":"60s","fingerprint":"bench"}}"#).into()
}

async fn claim_until(
    mut client: Client,
    api_key: String,
    begin: Instant,
    end: Instant,
) -> Result<Latency, String> {
    let authorization = format!("Bearer {api_key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let mut measured = latency();
    loop {
        let sent = Instant::now();
        if sent >= end {
            return Ok(measured);
        }
        let body = claim_body(&fresh_key(), &fresh_key());
        let (status, answer) = client.post("/v1/claims", &headers, body).await?;
        if status != StatusCode::CREATED {
            return Err(format!("claim: {status}: {}", String::from_utf8_lossy(&answer)));
        }
        if sent >= begin {
            record(&mut measured, sent.elapsed());
        }
    }
}
