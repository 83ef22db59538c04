//! First-time protected POSTs beside the same requests passed through unprotected, in turn on the
//! same connections.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use super::{GatewayArgs, Latency, fresh_key, latency, print, record, summary};
use crate::cli::client::Client;

pub(super) async fn run(args: &GatewayArgs) -> Result<(), String> {
    let begin = Instant::now() + Duration::from_secs(args.load.warm_up);
    let end = begin + Duration::from_secs(args.load.seconds);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..args.load.connections {
        let client = Client::connect(args.gateway).await?;
        clients.spawn(post_until(client, args.api_key.clone(), begin, end));
    }
    let mut all = Measured::new();
    while let Some(measured) = clients.join_next().await {
        let measured = measured.map_err(|error| error.to_string())??;
        all.protected.add(measured.protected).map_err(|error| error.to_string())?;
        all.passed.add(measured.passed).map_err(|error| error.to_string())?;
    }
    print(args.json, &summary("protected", &all.protected, args.load.seconds));
    print(args.json, &summary("passed through", &all.passed, args.load.seconds));
    let added =
        all.protected.value_at_quantile(0.5) as f64 - all.passed.value_at_quantile(0.5) as f64;
    let added = serde_json::json!({ "what": "added", "p50_ms": added / 1000.0 });
    print(args.json, &added);
    Ok(())
}

struct Measured {
    protected: Latency,
    passed: Latency,
}

impl Measured {
    fn new() -> Self {
        Self { protected: latency(), passed: latency() }
    }
}

async fn post_until(
    mut client: Client,
    api_key: String,
    begin: Instant,
    end: Instant,
) -> Result<Measured, String> {
    let authorization = format!("Bearer {api_key}");
    let body = Bytes::from_static(br#"{"item":"bench","amount":1}"#);
    let mut measured = Measured::new();
    for protected in [true, false].into_iter().cycle() {
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        let key = fresh_key();
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key.as_str()),
        ];
        let headers = if protected { &headers[..] } else { &headers[..2] };
        let (status, answer) = client.post("/bench", headers, body.clone()).await?;
        if status != StatusCode::CREATED {
            return Err(format!("post: {status}: {}", String::from_utf8_lossy(&answer)));
        }
        if sent >= begin {
            let latency = if protected { &mut measured.protected } else { &mut measured.passed };
            record(latency, sent.elapsed());
        }
    }
    Ok(measured)
}
