//! Replays beside the same requests passed through unprotected, in turn on the same connections.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;

use super::{GatewayArgs, Latency, fresh_key, latency, print, record, summary};
use crate::cli::client::Client;

/// How long one kind of request is sent before the other has its turn: a machine that gets slower
/// meanwhile slows both.
const TURN: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
struct Span {
    start: Instant,
    begin: Instant,
    end: Instant,
}

struct Measured {
    replayed: Latency,
    passed: Latency,
}

pub(super) async fn run(args: &GatewayArgs) -> Result<(), String> {
    let start = Instant::now();
    let begin = start + Duration::from_secs(args.load.warm_up);
    let span = Span { start, begin, end: begin + Duration::from_secs(args.load.seconds) };
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..args.load.connections {
        let client = Client::connect(args.gateway).await?;
        clients.spawn(post_until(client, args.api_key.clone(), span));
    }
    let (mut replayed, mut passed) = (latency(), latency());
    while let Some(measured) = clients.join_next().await {
        let measured = measured.map_err(|error| error.to_string())??;
        replayed.add(measured.replayed).map_err(|error| error.to_string())?;
        passed.add(measured.passed).map_err(|error| error.to_string())?;
    }
    // Each kind had half of the time.
    print(args.json, &summary("replayed", &replayed, args.load.seconds.div_ceil(2)));
    print(args.json, &summary("passed through", &passed, args.load.seconds.div_ceil(2)));
    let ratio = replayed.len() as f64 / passed.len().max(1) as f64;
    print(args.json, &serde_json::json!({ "what": "replays", "of_the_pass_through_rate": ratio }));
    Ok(())
}

async fn post_until(mut client: Client, api_key: String, span: Span) -> Result<Measured, String> {
    let authorization = format!("Bearer {api_key}");
    let key = fresh_key();
    let body = Bytes::from_static(br#"{"item":"bench","amount":1}"#);
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", key.as_str()),
    ];
    let mut measured = Measured { replayed: latency(), passed: latency() };
    loop {
        let sent = Instant::now();
        if sent >= span.end {
            return Ok(measured);
        }
        let turn = sent.duration_since(span.start).as_millis() / TURN.as_millis();
        let replay = turn.is_multiple_of(2);
        let headers = if replay { &headers[..] } else { &headers[..2] };
        let (status, answer) = client.post("/bench", headers, body.clone()).await?;
        if status != StatusCode::CREATED {
            return Err(format!("post: {status}: {}", String::from_utf8_lossy(&answer)));
        }
        if sent >= span.begin {
            let latency = if replay { &mut measured.replayed } else { &mut measured.passed };
            record(latency, sent.elapsed());
        }
    }
}
