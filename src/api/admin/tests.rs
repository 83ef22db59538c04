//! The admin API over a judge that decides with the real machine, in memory.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request as HttpRequest;
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use protocol::{IdempotencyKey, Millis, RecordName, Scope};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use crate::api::claims::tests::judge::MemoryJudge;
use crate::config::Policy;

struct Served {
    judge: MemoryJudge,
    router: Router,
}

fn policy() -> String {
    let digest = |secret: &str| -> String {
        Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let worker = |tenant: &str| {
        format!(
            "[[tenant]]\nname = \"{tenant}\"\ncredentials = [{{ name = \"worker\", \
             use = [\"claims\"], api_key_sha256 = \"{}\" }}]\n",
            digest(tenant)
        )
    };
    let admin = |name: &str, role: &str| {
        format!(
            "[[admin]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken_sha256 = \"{}\"\n",
            digest(name)
        )
    };
    let isolated =
        "[[operation]]\nmatch = \"POST /apart\"\nname = \"apart\"\nisolate = \"credential\"\n";
    let shared = "[[operation]]\nmatch = \"POST /debit\"\nname = \"debit\"\nscope = \"account\"\n\
                  store_headers = [\"X-Version\"]\n\
                  [[operation]]\nmatch = \"POST /ship\"\nname = \"ship\"\n\
                  natural_key = [\"/order\"]\n";
    let people = [admin("ops", "operator"), admin("eye", "viewer")].concat();
    [worker("A"), worker("B"), people, isolated.to_owned(), shared.to_owned()].concat()
}

fn serve() -> Served {
    let judge = MemoryJudge::default();
    let (policy, _) = Policy::parse(Path::new("policy.toml"), &policy()).unwrap();
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let router = crate::api::router(judge.clone(), Arc::new(policy), metrics);
    Served { judge, router }
}

impl Served {
    async fn send(&self, method: &str, path: &str, secret: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {secret}"))
            .body(body)
            .unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn claim(&self, tenant: &str, key: &str, attempt: &str) -> (u16, Value) {
        let body = json!({
            "operation": "charge", "key": key, "attempt": attempt, "lease": "10s",
            "fingerprint": "f",
        });
        self.send("POST", "/v1/claims", tenant, body).await
    }

    /// Claims a key and gives up, so that nobody can tell. Returns the grant.
    async fn lose(&self, tenant: &str, key: &str) -> Value {
        let (status, granted) = self.claim(tenant, key, "first").await;
        assert_eq!(status, 201, "{granted}");
        let grant = json!({
            "operation": "charge", "key": key,
            "fence": granted["fence"], "token": granted["token"],
        });
        let (status, answer) = self.send("POST", "/v1/claims/unknown", tenant, grant.clone()).await;
        assert_eq!((status, &answer["state"]), (200, &json!("indeterminate")));
        grant
    }

    async fn resolve(&self, secret: &str, body: Value) -> (u16, Value) {
        self.send("POST", "/v1/admin/records/resolve", secret, body).await
    }

    async fn list(&self, query: &str) -> Value {
        let path = format!("/v1/admin/records{query}");
        let (status, list) = self.send("GET", &path, "eye", Value::Null).await;
        assert_eq!(status, 200, "{list}");
        list
    }
}

fn released(grant: &Value, tenant: &str) -> Value {
    json!({
        "tenant": tenant, "operation": "charge", "key": grant["key"], "fence": grant["fence"],
        "verdict": "released", "reason": "the provider never saw it",
    })
}

fn completed(grant: &Value, tenant: &str) -> Value {
    let response = json!({ "status": 201, "json": { "id": "ch_1" } });
    with(with(released(grant, tenant), "verdict", json!("completed")), "response", response)
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn without(mut body: Value, name: &str) -> Value {
    body.as_object_mut().unwrap().remove(name);
    body
}

fn assert_problem(answer: &(u16, Value), status: u16, code: &str) {
    assert_eq!((answer.0, answer.1["code"].as_str()), (status, Some(code)), "{}", answer.1);
}

/// An id of a name that nothing is ever kept under.
fn long_id() -> Value {
    let scope = Scope {
        tenant: "t".repeat(70_000),
        sub_account: vec![],
        credential: None,
        operation: None,
    };
    let name = RecordName::new(&scope, &IdempotencyKey::from_text("k", 255).unwrap());
    json!({ "record": super::id(&name), "fence": 1, "verdict": "released", "reason": "r" })
}

#[tokio::test]
async fn what_nobody_can_tell_is_listed_oldest_first_in_pages() {
    let served = serve();
    assert_eq!(served.list("").await, json!({ "records": [], "next": null }));
    for (tenant, key) in [("A", "k1"), ("B", "k2"), ("A", "k3")] {
        served.lose(tenant, key).await;
        served.judge.advance(Millis::from_secs(1));
    }
    served.claim("A", "in flight", "x").await;
    let keys = |list: &Value| -> Vec<String> {
        let records = list["records"].as_array().unwrap();
        records.iter().map(|it| format!("{} {}", it["tenant"], it["key"])).collect()
    };
    let first = served.list("?limit=2").await;
    assert_eq!(keys(&first), [r#""A" "k1""#, r#""B" "k2""#]);
    assert_eq!(first["records"][0]["operation"], "charge");
    assert_eq!(first["records"][0]["state"], "indeterminate");
    assert!(first["records"][0]["releasable_at"].is_string());
    let second = served.list(&format!("?limit=2&after={}", first["next"].as_str().unwrap())).await;
    assert_eq!(keys(&second), [r#""A" "k3""#]);
    assert_eq!(second["next"], Value::Null);

    let id = first["records"][1]["record"].as_str().unwrap();
    let path = format!("/v1/admin/record?record={id}");
    let by_id = served.send("GET", &path, "eye", Value::Null).await;
    let path = "/v1/admin/record?tenant=B&operation=charge&key=k2";
    let by_name = served.send("GET", path, "ops", Value::Null).await;
    assert_eq!(by_id, by_name);
    assert_eq!((by_id.0, &by_id.1["key"]), (200, &json!("k2")));
}

#[tokio::test]
async fn an_isolated_record_is_named_with_its_credential() {
    let served = serve();
    let body = json!({ "operation": "apart", "key": "k", "attempt": "x", "fingerprint": "f" });
    assert_eq!(served.send("POST", "/v1/claims", "A", body).await.0, 201);
    let get = |more: &str| format!("/v1/admin/record?tenant=A&operation=apart&key=k{more}");
    let with = served.send("GET", &get("&credential=worker"), "eye", Value::Null).await;
    assert_eq!((with.0, &with.1["credential"]), (200, &json!("worker")));
    let other = served.send("GET", &get("&credential=other"), "eye", Value::Null).await;
    assert_problem(&other, 404, "not-found");
    let without = served.send("GET", &get(""), "eye", Value::Null).await;
    assert_problem(&without, 400, "invalid-request");
    let path = "/v1/admin/record?tenant=A&operation=charge&key=k&credential=worker";
    assert_problem(&served.send("GET", path, "eye", Value::Null).await, 400, "invalid-request");
}

#[tokio::test]
async fn only_admins_are_let_in_and_viewers_change_nothing() {
    let served = serve();
    let grant = served.lose("A", "k").await;
    for secret in ["A", "nobody", ""] {
        let listed = served.send("GET", "/v1/admin/records", secret, Value::Null).await;
        assert_problem(&listed, 401, "unauthenticated");
        assert_problem(
            &served.resolve(secret, completed(&grant, "A")).await,
            401,
            "unauthenticated",
        );
    }
    assert_problem(&served.resolve("eye", completed(&grant, "A")).await, 403, "forbidden");
    let forget =
        json!({ "tenant": "A", "operation": "charge", "key": "k", "fence": 1, "reason": "r" });
    let forgotten = served.send("POST", "/v1/admin/records/forget", "eye", forget).await;
    assert_problem(&forgotten, 403, "forbidden");
    assert_problem(&served.claim("ops", "k", "x").await, 401, "unauthenticated");
    assert_eq!(served.list("").await["records"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_settled_outcome_is_replayed_and_the_late_holder_is_stale() {
    let served = serve();
    let grant = served.lose("A", "k").await;
    assert_problem(&served.claim("A", "k", "again").await, 409, "outcome-indeterminate");
    let (status, answer) = served.resolve("ops", completed(&grant, "A")).await;
    assert_eq!((status, &answer["state"]), (200, &json!("completed")), "{answer}");
    assert!(answer["fence"].as_u64() > grant["fence"].as_u64());

    let (status, replay) = served.claim("A", "k", "again").await;
    assert_eq!((status, &replay["response"]["json"]), (200, &json!({ "id": "ch_1" })));
    let late = with(grant.clone(), "json", json!({ "id": "ch_2" }));
    let late = served.send("POST", "/v1/claims/complete", "A", late).await;
    assert_problem(&late, 409, "stale-fence");
    let path = "/v1/claims?operation=charge&key=k";
    let (_, record) = served.send("GET", path, "A", Value::Null).await;
    assert_eq!(record["by_operator"], true);
    let decision = &record["history"][0];
    assert_eq!((&decision["by"], &decision["verdict"]), (&json!("ops"), &json!("completed")));
    assert_eq!(decision["reason"], "the provider never saw it");
    assert_eq!(served.list("").await["records"], json!([]));
}

#[tokio::test]
async fn a_release_waits_for_what_may_still_run_unless_it_is_forced() {
    let served = serve();
    for force in [false, true] {
        let key = if force { "forced" } else { "waited" };
        let grant = served.lose("A", key).await;
        let early = served.resolve("ops", released(&grant, "A")).await;
        assert_problem(&early, 409, "invalid-request");
        assert!(early.1["detail"].as_str().unwrap().contains("until 20"), "{}", early.1);
        if !force {
            served.judge.advance(Millis::from_secs(10 + 60 + 1));
        }
        let body = with(released(&grant, "A"), "force", json!(force));
        let (status, answer) = served.resolve("ops", body).await;
        assert_eq!((status, &answer["state"]), (200, &json!("released")), "{answer}");
        let (status, granted) = served.claim("A", key, "second").await;
        assert_eq!((status, &granted["attempt_no"]), (201, &json!(1)), "{granted}");
        let path = format!("/v1/admin/record?tenant=A&operation=charge&key={key}");
        let (_, record) = served.send("GET", &path, "eye", Value::Null).await;
        assert_eq!(record["history"][0]["forced"], force);
    }
}

#[tokio::test]
async fn a_decision_about_what_has_moved_on_changes_nothing() {
    let served = serve();
    let grant = served.lose("A", "k").await;
    let other = with(completed(&grant, "A"), "fence", json!(grant["fence"].as_u64().unwrap() + 1));
    assert_problem(&served.resolve("ops", other).await, 409, "stale-fence");
    served.resolve("ops", completed(&grant, "A")).await;
    assert_problem(&served.resolve("ops", completed(&grant, "A")).await, 409, "stale-fence");

    let (_, granted) = served.claim("A", "in flight", "x").await;
    let early = json!({ "key": "in flight", "fence": granted["fence"] });
    let running = served.resolve("ops", completed(&early, "A")).await;
    assert_problem(&running, 409, "invalid-request");
    let absent = served.resolve("ops", completed(&json!({ "key": "no", "fence": 1 }), "A")).await;
    assert_problem(&absent, 404, "not-found");
}

#[tokio::test]
async fn a_forgotten_key_is_free_some_seconds_later() {
    let served = serve();
    let (_, granted) = served.claim("A", "k", "x").await;
    let forget = json!({
        "tenant": "A", "operation": "charge", "key": "k", "fence": granted["fence"],
        "reason": "a test order",
    });
    let path = "/v1/admin/records/forget";
    let running = served.send("POST", path, "ops", forget.clone()).await;
    assert_problem(&running, 409, "invalid-request");
    let complete = json!({
        "operation": "charge", "key": "k", "fence": granted["fence"], "token": granted["token"],
        "json": 1,
    });
    assert_eq!(served.send("POST", "/v1/claims/complete", "A", complete).await.0, 200);
    served.judge.lose_answer();
    let (status, answer) = served.send("POST", path, "ops", forget).await;
    assert_eq!((status, &answer["state"]), (200, &json!("forgotten")), "{answer}");
    assert_problem(&served.claim("A", "k", "y").await, 503, "shard-unavailable");
    served.judge.advance(Millis::new(answer["free_in_ms"].as_u64().unwrap() + 1));
    assert_eq!(served.claim("A", "k", "z").await.0, 201);
}

#[tokio::test]
async fn a_decision_whose_answer_was_lost_is_found_in_the_record() {
    let served = serve();
    for verdict in ["completed", "released"] {
        let grant = served.lose("A", verdict).await;
        let body = match verdict {
            "completed" => completed(&grant, "A"),
            _ => with(released(&grant, "A"), "force", json!(true)),
        };
        served.judge.lose_answer();
        let (status, answer) = served.resolve("ops", body).await;
        assert_eq!((status, &answer["state"]), (200, &json!(verdict)), "{answer}");
    }
    let grant = served.lose("A", "undecided").await;
    served.judge.refuse(cluster::SubmitError::Lost);
    let lost = served.resolve("ops", completed(&grant, "A")).await;
    assert_problem(&lost, 503, "shard-unavailable");
    assert_eq!(served.list("").await["records"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let served = serve();
    let grant = served.lose("A", "k").await;
    let before = served.judge.submitted();
    let good = completed(&grant, "A");
    for (body, word) in [
        (without(good.clone(), "reason"), "reason"),
        (with(good.clone(), "reason", json!(" ")), "reason"),
        (with(good.clone(), "reason", json!("a\nb")), "reason"),
        (with(good.clone(), "reason", json!("x".repeat(501))), "reason"),
        (without(good.clone(), "fence"), "fence"),
        (without(good.clone(), "tenant"), "tenant"),
        (with(good.clone(), "record", json!("AQ")), "record"),
        (with(good.clone(), "operation", json!("a".repeat(70_000))), "record"),
        (long_id(), "record"),
        (with(good.clone(), "verdict", json!("maybe")), "verdict"),
        (with(good.clone(), "verdict", json!("released")), "response"),
        (without(good.clone(), "response"), "response"),
        (with(good.clone(), "key", json!("")), "key"),
        (with(good.clone(), "colour", json!(1)), "colour"),
        (json!({ "record": "?", "fence": 1, "verdict": "released", "reason": "r" }), "record"),
        (json!({ "record": "AQ", "fence": 1, "verdict": "released", "reason": "r" }), "record"),
    ] {
        let (status, answer) = served.resolve("ops", body.clone()).await;
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(word), "{body}: {answer}");
    }
    for query in ["?limit=0", "?limit=101", "?after=%21", "?after=AQ", "?colour=1"] {
        let path = format!("/v1/admin/records{query}");
        let (status, answer) = served.send("GET", &path, "eye", Value::Null).await;
        assert_eq!(status, 400, "{query}: {answer}");
    }
    assert_eq!(served.judge.submitted(), before, "nothing was submitted");
}

#[tokio::test]
async fn a_record_whose_name_leaves_the_operation_open_is_settled_as_one_of_its_operation() {
    let served = serve();
    let claim = json!({ "operation": "debit", "key": "k", "attempt": "1", "fingerprint": "f" });
    let (_, granted) = served.send("POST", "/v1/claims", "A", claim).await;
    let grant = json!({
        "operation": "debit", "key": "k", "fence": granted["fence"], "token": granted["token"],
    });
    assert_eq!(served.send("POST", "/v1/claims/unknown", "A", grant).await.0, 200);

    let listed = &served.list("").await["records"][0];
    assert_eq!((&listed["operation"], &listed["key"]), (&json!("debit"), &json!("k")));
    let response = json!({ "status": 201, "headers": [["X-Version", "7"]] });
    let verdict = json!({
        "record": listed["record"], "fence": granted["fence"], "verdict": "completed",
        "response": response, "reason": "found at the provider",
    });
    let (status, answer) = served.resolve("ops", verdict).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn the_cluster_is_shown_to_admins_as_the_asked_node_sees_it() {
    let served = serve();
    let (status, _) = served.send("GET", "/v1/admin/cluster", "A", Value::Null).await;
    assert_eq!(status, 401, "a tenant's key is none");
    let (status, shown) = served.send("GET", "/v1/admin/cluster", "eye", Value::Null).await;
    let node = |id: u64, region: &str, there: bool, leads: u64| {
        json!({
            "id": id, "region": region, "addr": format!("127.0.0.1:{}", 7100 + id),
            "connected": there, "fit": there, "leads": leads,
        })
    };
    let shard = |id: u64, leader: Value, region: Value| {
        json!({
            "id": id, "leader": leader, "region": region, "term": 4, "last_index": 30,
            "applied_index": 29, "purged_index": 7,
        })
    };
    assert_eq!(status, 200);
    assert_eq!(
        shown,
        json!({
            "node": 1,
            "nodes": [node(1, "eu", true, 0), node(2, "us", true, 1), node(3, "ap", false, 0)],
            "shards": [shard(0, Value::Null, Value::Null), shard(1, json!(2), json!("us"))],
            "clock": { "trusted": true, "offset_ms": -3 },
        })
    );
}

#[tokio::test]
async fn an_operator_moves_leaderships_and_learns_why_one_stays() {
    let served = serve();
    let path = "/v1/admin/cluster/transfer";
    let ask = |shard: u64, to: u64| json!({ "shard": shard, "to": to });
    let (status, _) = served.send("POST", path, "eye", ask(1, 2)).await;
    assert_eq!(status, 403, "a viewer only looks");
    let (status, moved) = served.send("POST", path, "ops", ask(1, 2)).await;
    assert_eq!((status, moved), (200, json!({ "shard": 1, "leader": 2 })));
    for (shard, to, status, code, executed) in [
        (7, 2, 404, "not-found", "no"),
        (1, 9, 400, "invalid-request", "no"),
        (1, 3, 409, "invalid-request", "no"),
        (1, 5, 409, "invalid-request", "no"),
        (1, 1, 503, "shard-unavailable", "no"),
        (1, 4, 503, "shard-unavailable", "unknown"),
    ] {
        let (got, problem) = served.send("POST", path, "ops", ask(shard, to)).await;
        let said = (got, problem["code"].as_str(), problem["executed"].as_str());
        assert_eq!(said, (status, Some(code), Some(executed)), "{problem}");
    }
    for body in [json!({ "shard": 1 }), json!({ "shard": 70_000, "to": 1 }), json!([])] {
        let (status, problem) = served.send("POST", path, "ops", body).await;
        assert_eq!((status, problem["code"].as_str()), (400, Some("invalid-request")));
    }
}

#[tokio::test]
async fn a_natural_key_is_shown_and_named_as_the_list_of_its_values() {
    let served = serve();
    let claim = json!({ "operation": "ship", "attempt": "1", "payload": { "order": "A-7" } });
    let (status, granted) = served.send("POST", "/v1/claims", "A", claim).await;
    assert_eq!(status, 201, "{granted}");
    let grant = json!({
        "operation": "ship", "key": "[\"A-7\"]",
        "fence": granted["fence"], "token": granted["token"],
    });
    assert_eq!(served.send("POST", "/v1/claims/unknown", "A", grant).await.0, 200);
    assert_eq!(served.list("").await["records"][0]["key"], "[\"A-7\"]");
    let find = async |key: &str| {
        let path = format!("/v1/admin/record?tenant=A&operation=ship&key={key}");
        served.send("GET", &path, "eye", Value::Null).await
    };
    let (status, found) = find("%5B%22A-7%22%5D").await;
    assert_eq!((status, &found["state"]), (200, &json!("indeterminate")));
    assert_eq!(find("A-7").await.0, 400);
    assert_eq!(find("%5B7%5D").await.0, 404);
}

#[tokio::test]
async fn a_replica_is_compared_by_its_digest() {
    let served = serve();
    served.claim("A", "k", "a").await;
    let path = "/v1/admin/cluster/digest";
    let own = format!("{path}?shard=0");
    let (status, digest) = served.send("GET", &own, "eye", Value::Null).await;
    let expected = json!({ "shard": 0, "applied_index": 1, "digest": "ab".repeat(32) });
    assert_eq!((status, digest), (200, expected));
    assert_eq!(served.send("GET", &own, "A", Value::Null).await.0, 401, "a tenant's key is none");
    for (query, status) in [("?shard=1", 404), ("?shard=x", 400), ("", 400), ("?shard=0&a=1", 400)]
    {
        let answer = served.send("GET", &format!("{path}{query}"), "eye", Value::Null).await;
        assert_eq!(answer.0, status, "{query}");
    }
    served.judge.distrust_clock();
    let failed = served.send("GET", &own, "eye", Value::Null).await;
    assert_problem(&failed, 503, "shard-unavailable");
}
