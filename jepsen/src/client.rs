//! The client: makes a call, writes it down, and says how certain its end is.
//!
//! *ok*: the call took effect. *fail*: it did not and never will, as the product itself says or
//! because nothing was sent. *info*: nobody can tell, which is always safe to say; a failure that
//! is called definite and is not makes every checker lie.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::history::{Recorder, What};
use crate::http::{Ask, Broken, Reply, send};
use crate::operation::{Answer, Call, Name, Verb};
use crate::policy::{ADMIN, api_key, digest};

/// Longer than any answer of the product's own takes.
const PATIENCE: Duration = Duration::from_secs(8);

/// Header lines that a replay repeats.
const KEPT_HEADERS: [&str; 2] = ["content-type", "location"];

/// Where a node can be reached.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Claims and admin API.
    pub api: SocketAddr,
    /// Gateway.
    pub gateway: SocketAddr,
}

/// How certain the end of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It took effect.
    Ok,
    /// It did not and never will.
    Fail,
    /// Nobody can tell.
    Info,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The call's number in the history.
    pub call: u64,
    /// How certain it is.
    pub certainty: Certainty,
    /// What was told.
    pub answer: Answer,
    /// The token of a grant, which has no place in a history.
    pub token: String,
}

/// One client: one call at a time.
pub struct Client {
    /// Its number in the history, from 1.
    pub process: u32,
    /// Where calls are written down.
    pub recorder: Arc<Recorder>,
    /// The nodes, in their order.
    pub nodes: Arc<Vec<Endpoint>>,
}

impl Client {
    /// Makes a call under a grant's `token`, where it needs one, and writes both of its ends down.
    pub async fn call(&self, call: Call, token: &str) -> Ended {
        let id = self.recorder.next_id();
        let endpoint = self.nodes[usize::from(call.node - 1)];
        self.recorder.record(self.process, id, What::Invoke(call.clone()));
        let reply = match &call.verb {
            Verb::Post { .. } => post(endpoint.gateway, &call, id).await,
            Verb::Read => read(endpoint.api, &call.name).await,
            Verb::Resolve { .. } => resolve(endpoint.api, &call).await,
            _ => claims(endpoint.api, &call, token).await,
        };
        let ended = Ended { call: id, ..judged(&call.verb, reply) };
        let answer = ended.answer.clone();
        let what = match ended.certainty {
            Certainty::Ok => What::Ok(answer),
            Certainty::Fail => What::Fail(answer),
            Certainty::Info => What::Info(answer),
        };
        self.recorder.record(self.process, id, what);
        ended
    }
}

/// The body of a request; equal variants are equal requests.
fn body(variant: u32) -> String {
    json!({ "item": "book", "variant": variant }).to_string()
}

async fn post(gateway: SocketAddr, call: &Call, id: u64) -> Result<Reply, Broken> {
    let Verb::Post { variant, how } = call.verb else {
        return Err(Broken { sent: false, why: "not a request for a gateway".to_owned() });
    };
    let (authorization, id) = (format!("Bearer {}", api_key(&call.name.tenant)), id.to_string());
    let (how, target) = (how.to_string(), format!("/{}", call.name.operation));
    // The last two are not part of the request as the product compares it; they tell the ledger for
    // which call it executes, and how.
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", call.name.key.as_str()),
        ("x-account", call.name.account.as_str()),
        ("x-call", id.as_str()),
        ("x-how", how.as_str()),
    ];
    let ask = Ask { method: Method::POST, target: &target, headers: &headers, body: body(variant) };
    send(gateway, ask, PATIENCE).await
}

async fn claims(api: SocketAddr, call: &Call, token: &str) -> Result<Reply, Broken> {
    let mut body = json!({ "operation": call.name.operation, "key": call.name.key });
    let path = match &call.verb {
        Verb::Claim { attempt, variant, lease_ms } => {
            body["attempt"] = json!(attempt);
            body["payload"] = json!({ "variant": variant });
            body["lease"] = json!(format!("{lease_ms}ms"));
            "/v1/claims"
        }
        Verb::Renew { fence, lease_ms } => {
            body["fence"] = json!(fence);
            body["lease"] = json!(format!("{lease_ms}ms"));
            "/v1/claims/renew"
        }
        Verb::Complete { fence, nonce } => {
            body["fence"] = json!(fence);
            body["json"] = json!({ "nonce": nonce });
            "/v1/claims/complete"
        }
        Verb::Release { fence } => {
            body["fence"] = json!(fence);
            "/v1/claims/release"
        }
        Verb::Unknown { fence } => {
            body["fence"] = json!(fence);
            "/v1/claims/unknown"
        }
        _ => return Err(Broken { sent: false, why: "not a call of the claims API".to_owned() }),
    };
    if path != "/v1/claims" {
        body["token"] = json!(token);
    }
    if !call.name.account.is_empty() {
        body["sub_account"] = json!([call.name.account]);
    }
    let authorization = format!("Bearer {}", api_key(&call.name.tenant));
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let ask = Ask { method: Method::POST, target: path, headers: &headers, body: body.to_string() };
    send(api, ask, PATIENCE).await
}

async fn read(api: SocketAddr, name: &Name) -> Result<Reply, Broken> {
    // Names of the harness need no escapes; an account is a JSON list in the query.
    let mut target = format!("/v1/claims?operation={}&key={}", name.operation, name.key);
    if !name.account.is_empty() {
        target += &format!("&sub_account=%5B%22{}%22%5D", name.account);
    }
    let authorization = format!("Bearer {}", api_key(&name.tenant));
    let headers = [("authorization", authorization.as_str())];
    let ask = Ask { method: Method::GET, target: &target, headers: &headers, body: String::new() };
    send(api, ask, PATIENCE).await
}

async fn resolve(api: SocketAddr, call: &Call) -> Result<Reply, Broken> {
    let Verb::Resolve { fence, nonce, force } = &call.verb else {
        return Err(Broken { sent: false, why: "not an operator's call".to_owned() });
    };
    let mut body = json!({
        "tenant": call.name.tenant, "operation": call.name.operation, "key": call.name.key,
        "fence": fence, "force": force, "reason": "a fault test settles it",
    });
    match nonce {
        Some(nonce) => {
            body["verdict"] = json!("completed");
            body["response"] = json!({ "status": 200, "json": { "nonce": nonce } });
        }
        None => body["verdict"] = json!("released"),
    }
    admin(api, Method::POST, "/v1/admin/records/resolve", body.to_string()).await
}

/// A call of the admin API.
///
/// # Errors
/// When no whole answer came.
pub async fn admin(
    api: SocketAddr,
    method: Method,
    target: &str,
    body: String,
) -> Result<Reply, Broken> {
    let authorization = format!("Bearer {ADMIN}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    send(api, Ask { method, target, headers: &headers, body }, PATIENCE).await
}

/// What a reply says, and how certain it is.
fn judged(verb: &Verb, reply: Result<Reply, Broken>) -> Ended {
    let reply = match reply {
        Ok(reply) => reply,
        Err(Broken { sent, why }) => {
            let certainty = if sent { Certainty::Info } else { Certainty::Fail };
            let answer = Answer { error: why, ..Answer::default() };
            return Ended { call: 0, certainty, answer, token: String::new() };
        }
    };
    let document: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
    let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
    let is_problem = reply
        .headers
        .get("content-type")
        .is_some_and(|value| value.as_bytes().starts_with(b"application/problem+json"));
    let mut answer = Answer {
        status: reply.status.as_u16(),
        state: text("state"),
        fence: document["fence"].as_u64().unwrap_or(0),
        nonce: nonce(&document).unwrap_or_default(),
        replayed: reply.headers.get("idempotent-replayed").is_some_and(|value| value == "true")
            || document["replayed"] == true,
        ..Answer::default()
    };
    if is_problem {
        (answer.code, answer.executed) = (text("code"), text("executed"));
    }
    if answer.has_outcome() {
        answer.digest = outcome_digest(verb, &reply, &document);
    }
    Ended { call: 0, certainty: certainty(verb, &answer), answer, token: text("token") }
}

/// Digest of what every answer with the same outcome must repeat.
fn outcome_digest(verb: &Verb, reply: &Reply, document: &Value) -> String {
    let mut kept = String::new();
    if verb.is_post() {
        kept += &format!("{}\n", reply.status.as_u16());
        for name in KEPT_HEADERS {
            for value in reply.headers.get_all(name) {
                kept += &format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()));
            }
        }
        let mut bytes = kept.into_bytes();
        bytes.extend_from_slice(&reply.body);
        return digest(bytes);
    }
    // The claims API shows the stored response as a document of its own.
    let shown = document.get("response").or_else(|| document["revisions"][0].get("response"));
    digest(shown.unwrap_or(&Value::Null).to_string())
}

/// How certain the end of a call is, by what was told.
fn certainty(verb: &Verb, answer: &Answer) -> Certainty {
    if verb.is_post() {
        return match (answer.code.as_str(), answer.executed.as_str()) {
            // Not a problem of the product's own: the upstream's answer, or a replay of it.
            ("", _) => Certainty::Ok,
            (_, "no") | ("key-in-progress", _) => Certainty::Fail,
            _ => Certainty::Info,
        };
    }
    match (answer.status, answer.code.as_str()) {
        (200..=299, _) => Certainty::Ok,
        // It was decided, and changed nothing.
        (404 | 409 | 422, _) => Certainty::Fail,
        // Said before anything is decided.
        (400..=499, _) => Certainty::Fail,
        // What is shown is no change: nothing is lost when it cannot be had.
        _ if *verb == Verb::Read => Certainty::Fail,
        _ => Certainty::Info,
    }
}

/// The first member `nonce`, however deep; bodies that are shown in Base64 are none of ours.
fn nonce(document: &Value) -> Option<String> {
    match document {
        Value::Object(members) => match members.get("nonce") {
            Some(Value::String(nonce)) => Some(nonce.clone()),
            _ => members.values().find_map(nonce),
        },
        Value::Array(elements) => elements.iter().find_map(nonce),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::operation::How;

    const POST: Verb = Verb::Post { variant: 0, how: How::After(0) };

    fn ended(verb: &Verb, status: u16, media_type: &str, body: &'static str) -> Ended {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", media_type.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        judged(verb, Ok(Reply { status, headers, body: Bytes::from(body) }))
    }

    fn problem(verb: &Verb, status: u16, body: &'static str) -> Certainty {
        ended(verb, status, "application/problem+json", body).certainty
    }

    #[test]
    fn a_request_that_was_not_sent_has_failed_and_any_other_is_open() {
        let broken = |sent| judged(&POST, Err(Broken { sent, why: String::new() })).certainty;
        assert_eq!((broken(false), broken(true)), (Certainty::Fail, Certainty::Info));
    }

    #[test]
    fn a_problem_is_as_certain_as_it_says() {
        let no = r#"{"code":"shard-unavailable","executed":"no"}"#;
        let unknown = r#"{"code":"outcome-unknown","executed":"unknown"}"#;
        let running = r#"{"code":"key-in-progress","executed":"unknown"}"#;
        assert_eq!(problem(&POST, 503, no), Certainty::Fail);
        assert_eq!(problem(&POST, 504, unknown), Certainty::Info);
        assert_eq!(problem(&POST, 409, running), Certainty::Fail);
        // A claim that was not decided in time may yet be: its "no" is about the upstream.
        assert_eq!(problem(&Verb::Release { fence: 1 }, 503, no), Certainty::Info);
        assert_eq!(problem(&Verb::Read, 503, no), Certainty::Fail);
    }

    #[test]
    fn a_503_of_the_upstream_is_an_answer() {
        let ended = ended(&POST, 503, "application/json", r#"{"nonce":"n"}"#);
        assert_eq!(ended.certainty, Certainty::Ok);
        assert_eq!(ended.answer.nonce, "n");
    }

    #[test]
    fn the_digest_covers_status_kept_headers_and_body() {
        let one = ended(&POST, 201, "application/json", r#"{"nonce":"n"}"#).answer.digest;
        let same = ended(&POST, 201, "application/json", r#"{"nonce":"n"}"#).answer.digest;
        let status = ended(&POST, 200, "application/json", r#"{"nonce":"n"}"#).answer.digest;
        let header = ended(&POST, 201, "text/plain", r#"{"nonce":"n"}"#).answer.digest;
        let body = ended(&POST, 201, "application/json", r#"{"nonce":"n" }"#).answer.digest;
        assert_eq!(one, same);
        assert!(one != status && one != header && one != body);
    }
}
