//! What anybody can look up: the terms of the operations, and what a problem means.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use http::Method;
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, send};
use crate::support::policy::policy;
use crate::support::run;
use crate::support::upstream::Upstream;

const TERMS: &str = "/.well-known/idempotency";

const OPERATIONS: &str = "
[[operation]]
match = \"POST /orders\"
name = \"orders\"
retention = \"3d\"
required = true
[[operation]]
match = \"PATCH /orders/{id}\"
name = \"change\"
profile = \"paypal\"
retention = \"3d\"
";

async fn start(upstream: &Upstream) -> Cluster {
    let mut setup = Setup::single(policy(&["a"], OPERATIONS), upstream.address);
    "max_request_body = \"3MiB\"\n".clone_into(&mut setup.gateway);
    setup.start().await
}

async fn get(address: std::net::SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(address, Method::GET, path, headers, "").await.unwrap()
}

fn terms(cluster: &Cluster, file: &str, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .arg("terms")
        .arg(cluster.folder.path().join(file))
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_terms_of_every_operation_are_told_to_anybody_on_both_listeners() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = start(&upstream).await;
        let told = get(cluster.gateway(0), TERMS, &[]).await;
        assert_eq!(
            (told.status.as_u16(), told.header("content-type")),
            (200, Some("application/json"))
        );
        let document = told.json();
        assert_eq!(document["max_request_body_bytes"], 3 << 20);
        let names = document["operations"].as_array().unwrap().iter().map(|it| &it["name"]);
        assert_eq!(
            names.collect::<HashSet<_>>(),
            HashSet::from([&json!("orders"), &json!("change")])
        );
        let orders = |it: &Value| {
            it["operations"].as_array().unwrap().iter().find(|it| it["name"] == "orders").cloned()
        };
        let found = orders(&document).unwrap();
        assert_eq!(
            (&found["header"]["required"], &found["retention_ms"]),
            (&json!(true), &json!(259_200_000))
        );
        let tag = told.header("etag").unwrap();
        assert_eq!(get(cluster.gateway(0), TERMS, &[("if-none-match", tag)]).await.status, 304);
        let api = get(cluster.api(0), TERMS, &[]).await;
        assert_eq!(orders(&api.json()), Some(found));
        assert_eq!(upstream.reads(), 0);
    });
}

#[test]
fn the_command_prints_what_the_gateway_tells() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = start(&upstream).await;
        let told = get(cluster.gateway(0), TERMS, &[]).await.json();
        let path = cluster.folder.path().join("1.toml");
        let text = fs::read_to_string(&path).unwrap();
        let named = text.replacen("[cluster]\n", "[cluster]\npolicy = \"policy.toml\"\n", 1);
        fs::write(&path, named).unwrap();
        let printed: Value = serde_json::from_str(&terms(&cluster, "1.toml", &["--json"])).unwrap();
        assert_eq!(printed, told);
        // Without a process file there is no gateway whose limits could be told.
        let text = terms(&cluster, "policy.toml", &["--json"]);
        let printed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(printed["operations"], told["operations"]);
        assert_eq!(printed.get("max_request_body_bytes"), None);
        let page = terms(&cluster, "policy.toml", &[]);
        assert_eq!(page, terms(&cluster, "policy.toml", &["--markdown"]));
        assert!(page.contains("## orders") && page.contains("## change"), "{page}");
        let text = terms(&cluster, "policy.toml", &["--openapi"]);
        let fragment: Value = serde_json::from_str(&text).unwrap();
        assert!(fragment["paths"]["/orders"]["post"]["responses"]["409"].is_object(), "{text}");
    });
}

#[test]
fn the_type_of_a_problem_leads_to_its_explanation() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = start(&upstream).await;
        let order = Order::new("one");
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        let problem = order.body("{}").post(cluster.gateway(0)).await;
        assert_eq!((problem.status.as_u16(), problem.code().as_str()), (422, "key-reused"));
        let there = problem.json()["type"].as_str().unwrap().to_owned();
        for address in [cluster.gateway(0), cluster.api(0)] {
            let page = get(address, &there, &[]).await;
            assert_eq!(page.status, 200);
            let text = page.text();
            for word in ["key-reused", "422", "Use a new key", "may have acted: no"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    });
}
