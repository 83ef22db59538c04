use std::path::Path;
use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;

/// A policy in which every term of the operation `capture` is another than the default, and
/// everything that is nobody's business says so.
const POLICY: &str = r#"
protect = "listed"
[auth.trusted_header]
name = "X-Private-Tenant"
secret_header = "X-Private-Secret"
secret_sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
[[tenant]]
name = "private-tenant"
[[tenant.credentials]]
name = "private-credential"
api_key_sha256 = "2222222222222222222222222222222222222222222222222222222222222222"
use = ["gateway"]
[[admin]]
name = "private-admin"
token_sha256 = "3333333333333333333333333333333333333333333333333333333333333333"
role = "viewer"
[[operation]]
match = "POST /v1/charges/{id}/capture"
name = "capture"
profile = "paypal"
required = true
headers = ["Pay-Key", "X-Pay-Key"]
key_max = 77
scope_by = ["header:Shop", "json:/account"]
isolate = "credential"
fingerprint = { ignore = ["/sent_at", "query:trace"], headers = ["X-Shop"] }
answer_within = "31s"
max_execution = "61s"
on_unknown = "takeover"
downstream = [{ idempotent = true, retention = "40d", key_max = 77 }]
forward = { tenant_header = "X-Private-Forward" }
indeterminate_status = 503
store = { "404" = "release", "4xx" = "store" }
store_headers = ["X-Order-Version"]
max_snapshot = "5KiB"
retention = "9d"
replay = "redirect"
mismatch_status = 400
error_body = "stripe"
[[operation]]
match = "PATCH /orders"
name = "orders"
profile = "draft-07"
retention = "3d"
fingerprint = { only = ["/id"] }
"#;

fn policy(text: &str) -> Policy {
    match Policy::parse(Path::new("policy.toml"), text) {
        Ok((policy, _)) => policy,
        Err(refused) => panic!("{refused:?}"),
    }
}

fn limits() -> Limits {
    Limits { max_request_body: ByteSize::mib(2), answers_from: AnswersFrom::Proxy }
}

fn operation(name: &str) -> Value {
    let terms = Terms::of(&policy(POLICY), Some(limits())).to_json();
    let operations = terms["operations"].as_array().unwrap();
    operations.iter().find(|it| it["name"] == name).unwrap().clone()
}

#[test]
fn every_setting_that_clients_notice_is_published() {
    let expected = json!({
        "name": "capture",
        "method": "POST",
        "path": "/v1/charges/{id}/capture",
        "profile": "paypal",
        "header": {
            "names": ["Pay-Key", "X-Pay-Key"],
            "required": true,
            "key_max_bytes": 77,
            "quoted": false,
            "echoed": false,
        },
        "scope": {
            "per": "operation",
            "isolate": "credential",
            "fields": ["header:shop", "json:/account"],
        },
        "replay": {
            "mode": "redirect",
            "marker": "Idempotent-Replayed: true",
            "expires": "Idempotency-Expires",
            "max_snapshot_bytes": 5120,
            "headers": ["X-Order-Version"],
            "store": { "404": "release", "4xx": "store" },
        },
        "retention_ms": 777_600_000,
        "concurrency": { "status": 409, "code": "key-in-progress" },
        "mismatch": {
            "status": 400,
            "code": "key-reused",
            "ignore": ["/sent_at", "query:trace"],
            "headers": ["x-shop"],
        },
        "unknown": { "on_unknown": "takeover", "status": 503, "code": "outcome-indeterminate" },
        "answer_within_ms": 31_000,
        "max_execution_ms": 61_000,
        "error_body": "stripe",
    });
    assert_eq!(operation("capture"), expected);
}

#[test]
fn the_defaults_are_published_as_such() {
    let orders = operation("orders");
    assert_eq!(orders["header"]["names"], json!(["Idempotency-Key"]));
    assert_eq!(orders["header"]["quoted"], true);
    assert_eq!(orders["mismatch"]["only"], json!(["/id"]));
    assert_eq!(orders["mismatch"]["status"], 422);
    assert_eq!(orders["unknown"]["on_unknown"], "fail_closed");
    assert_eq!(orders["error_body"], "problem+json");
}

#[test]
fn an_operation_whose_requests_make_their_keys_says_of_what_and_asks_for_no_header() {
    let text = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n\
                natural_key = [\"/order_id\", \"/sku\"]\nretention = \"forever\"\n";
    let terms = Terms::of(&policy(text), None);
    let orders = &terms.to_json()["operations"][0];
    assert_eq!(orders["header"]["natural_key"], json!(["/order_id", "/sku"]));
    assert_eq!(
        (&orders["header"]["names"], &orders["header"]["required"]),
        (&json!([]), &json!(true))
    );
    assert_eq!(orders["retention_ms"], "forever");
    assert_eq!(orders["replay"]["store"]["4xx"], "release");
    let page = terms.to_markdown();
    for line in [
        "| made of | `/order_id`, `/sku` in the JSON body; no header counts |",
        "| retention | forever |",
    ] {
        assert!(page.contains(line), "{page}");
    }
    let operation = &terms.to_openapi()["paths"]["/orders"]["post"];
    assert_eq!(operation["parameters"], json!([]));
    assert!(
        operation["responses"]["400"]["description"].as_str().unwrap().contains("`key-missing`")
    );
}

#[test]
fn an_operation_that_shares_its_keys_says_so_and_what_others_are_answered() {
    let text = "[[operation]]\nmatch = \"POST /refunds\"\nname = \"refund\"\n\
                scope = \"account\"\nmismatch_status = 400\n";
    let terms = Terms::of(&policy(text), None);
    let scope = &terms.to_json()["operations"][0]["scope"];
    assert_eq!(scope["per"], "account");
    assert_eq!(scope["mismatch"], json!({ "status": 400, "code": "operation-mismatch" }));
    let line = "| scope | each tenant; another operation under the key gets \
                `400 operation-mismatch` |";
    assert!(terms.to_markdown().contains(line), "{}", terms.to_markdown());
    let answers = &terms.to_openapi()["paths"]["/refunds"]["post"]["responses"];
    let text = answers["400"]["description"].as_str().unwrap();
    assert!(text.contains("`operation-mismatch`"));
    assert!(terms.to_json()["unlisted"]["scope"].get("mismatch").is_none());
}

#[test]
fn what_a_gateway_adds_and_where_keys_have_no_effect_are_published() {
    let terms = Terms::of(&policy(POLICY), Some(limits())).to_json();
    assert_eq!(terms["methods"], json!(["POST", "PATCH"]));
    assert_eq!(terms["max_request_body_bytes"], 2 << 20);
    assert_eq!(terms["answers_from"], "proxy");
    assert_eq!(
        terms["not_honoured"]["methods"],
        json!(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
    );
    assert_eq!(terms["not_honoured"]["unlisted_routes"], true);
    assert_eq!(terms["unlisted"], Value::Null);
    let keyed = Terms::of(&policy("[defaults]\nretention = \"5d\"\n"), None).to_json();
    assert_eq!(keyed["not_honoured"]["unlisted_routes"], false);
    assert_eq!(keyed["unlisted"]["retention_ms"], 432_000_000);
    assert_eq!(keyed["max_request_body_bytes"], Value::Null);
}

#[test]
fn nothing_is_published_about_tenants_credentials_and_what_the_upstream_is_told() {
    let terms = Terms::of(&policy(POLICY), Some(limits()));
    let texts = [terms.to_json().to_string(), terms.to_markdown(), terms.to_openapi().to_string()];
    for text in texts {
        let text = text.to_lowercase();
        for secret in ["private", "1111", "2222", "3333", "admin"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn markdown_says_all_that_is_published() {
    let page = Terms::of(&policy(POLICY), Some(limits())).to_markdown();
    for expected in [
        "has at most 2.0 MiB",
        "## capture\n\n`POST /v1/charges/{id}/capture`",
        "| header | `Pay-Key`, `X-Pay-Key`, required |",
        "| key | at most 77 bytes |",
        "| scope | this operation, each credential, each value of `header:shop`, `json:/account` |",
        "| replay | redirect, of at most 5.0 KiB |",
        "| replay marker | `Idempotent-Replayed: true`, `Idempotency-Expires` in seconds |",
        "| retention | 9days from completion |",
        "| while the first runs | `409 key-in-progress` |",
        "| another request under the key | `400 key-reused` |",
        "but `/sent_at`, `query:trace`; the headers `x-shop` |",
        "| nobody can tell whether it ran | it may run again: the API is idempotent itself |",
        "| longest wait | 31s |",
        "| longest execution | 1m 1s |",
        "| errors | stripe (paypal) |",
        "| replayed headers besides the usual | `X-Order-Version` |",
        "| statuses that do not mean the usual | 404: release, 4xx: store |",
        "| key | at most 255 bytes, in quotes (RFC 9651) |",
        "of the rest only `/id` |",
        "`409 outcome-indeterminate`, until an operator has settled it |",
        "its answer says `Idempotency-Status: ignored`",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    for code in Code::ALL {
        assert!(page.contains(&format!("(/problems/{})", code.name())), "{code:?}");
    }
}

#[test]
fn the_fragment_names_parameters_and_every_answer_of_the_gateway() {
    let fragment = Terms::of(&policy(POLICY), Some(limits())).to_openapi();
    let capture = &fragment["paths"]["/v1/charges/{id}/capture"]["post"];
    let names: Vec<_> = capture["parameters"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|it| (it["in"].as_str(), it["name"].as_str())).collect();
    let expected = [("path", "id"), ("header", "Pay-Key"), ("header", "X-Pay-Key")];
    assert_eq!(names, expected.map(|(place, name)| (Some(place), Some(name))));
    // Either of the two headers will do.
    assert_eq!(capture["parameters"][1]["required"], false);
    assert_eq!(capture["parameters"][1]["schema"]["maxLength"], 77);
    let answers = capture["responses"].as_object().unwrap();
    let statuses: Vec<_> = answers.keys().map(String::as_str).collect();
    let expected = ["400", "401", "408", "409", "413", "429", "502", "503", "504"];
    assert_eq!(statuses, expected);
    let text = |status: &str| answers[status]["description"].as_str().unwrap();
    assert!(text("400").contains("`key-reused`") && text("400").contains("`key-missing`"));
    assert!(text("409").contains("`replay-redirect`"));
    assert!(!text("409").contains("`outcome-indeterminate`"));
    assert!(text("503").contains("`outcome-indeterminate`"));
    assert!(answers["409"]["content"].get("application/json").is_some());
    let orders = &fragment["paths"]["/orders"]["patch"];
    assert!(orders["responses"]["422"]["content"].get("application/problem+json").is_some());
    assert_eq!(orders["parameters"][0]["schema"]["maxLength"], 512);
    assert_eq!(orders["x-idempotency"], operation("orders"));
}

#[test]
fn paths_that_differ_in_the_names_of_parameters_are_one_path_of_the_fragment() {
    let text = "[[operation]]\nmatch = \"POST /orders/{id}/{id}\"\n\
                [[operation]]\nmatch = \"PATCH /orders/{order}/{line}\"\n\
                [[operation]]\nmatch = \"PATCH /orders/{order}/lines\"\n";
    let fragment = Terms::of(&policy(text), None).to_openapi();
    let paths = fragment["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 2, "{paths:?}");
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let named = operation["parameters"].as_array().unwrap().iter();
            let named: Vec<_> = named.filter(|it| it["in"] == "path").collect();
            let names = named.iter().map(|it| it["name"].as_str().unwrap());
            let unique: std::collections::BTreeSet<_> = names.collect();
            assert_eq!(unique.len(), named.len(), "{method} {path}");
            let in_path = path.matches('{').count();
            assert!(unique.iter().all(|it| path.contains(&format!("{{{it}}}"))), "{path}");
            assert!(!named.is_empty() && named.len() <= in_path, "{method} {path}");
        }
    }
    assert_eq!(paths.values().map(|item| item.as_object().unwrap().len()).sum::<usize>(), 3);
}

#[test]
fn every_reference_of_the_fragment_leads_somewhere() {
    let fragment = Terms::of(&policy(POLICY), Some(limits())).to_openapi();
    let text = fragment.to_string();
    let references: Vec<_> = text.split("\"$ref\":\"#").skip(1).collect();
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.split('"').next().unwrap();
        assert!(fragment.pointer(pointer).is_some(), "{pointer}");
    }
}

#[tokio::test]
async fn caches_are_told_for_how_long_and_need_not_read_it_twice() {
    let policy = Arc::new(policy(POLICY));
    let published = Published::new(Some(limits()));
    let none = HeaderMap::new();
    let answer =
        |headers: &HeaderMap| published.answer(&policy, &Method::GET, PATH, headers).unwrap();
    let (head, body) = answer(&none).into_parts();
    assert_eq!(head.headers[CONTENT_TYPE], "application/json");
    assert_eq!(head.headers[CACHE_CONTROL], "public, max-age=300");
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body, Terms::of(&policy, Some(limits())).to_json());
    let tag = head.headers[ETAG].to_str().unwrap();
    for (line, status) in [
        (tag.to_owned(), StatusCode::NOT_MODIFIED),
        (format!("\"other\", W/{tag}"), StatusCode::NOT_MODIFIED),
        ("*".to_owned(), StatusCode::NOT_MODIFIED),
        ("\"other\"".to_owned(), StatusCode::OK),
    ] {
        let line = HeaderValue::from_str(&line).unwrap();
        let answer = answer(&HeaderMap::from_iter([(IF_NONE_MATCH, line)]));
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()[ETAG], tag);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), status == StatusCode::NOT_MODIFIED);
    }
    for (method, path) in [(Method::POST, PATH), (Method::GET, "/.well-known/idempotency/")] {
        assert!(published.answer(&policy, &method, path, &none).is_none(), "{method} {path}");
    }
}

#[test]
fn another_policy_has_other_terms_at_once() {
    let published = Published::new(None);
    let tag = |policy: &Arc<Policy>| {
        let answer = published.answer(policy, &Method::HEAD, PATH, &HeaderMap::new()).unwrap();
        answer.headers()[ETAG].clone()
    };
    let (one, other) = (Arc::new(policy(POLICY)), Arc::new(policy("")));
    let first = tag(&one);
    assert_ne!(tag(&other), first);
    assert_eq!(tag(&one), first);
}
