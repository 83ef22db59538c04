//! Claims of operations whose keys are made of their requests.

use super::*;

/// A claim without a key, about a payload.
fn about(payload: Value) -> Value {
    json!({"operation": "shipments", "attempt": "1", "payload": payload})
}

#[tokio::test]
async fn the_request_makes_the_key_and_its_list_names_it() {
    let served = serve();
    let payload = json!({"order_id": "A-7", "sku": 1, "n": 2});
    let granted = served.call("", about(payload.clone())).await;
    assert_eq!(granted.status, 201, "{}", granted.body);
    let request = json!({
        "method": "POST", "target": "/shipments", "content_type": "application/json",
        "body": payload.to_string(),
    });
    let other = with(without(about(json!(0)), "payload"), "request", request);
    assert_problem(&served.call("", with(other, "attempt", json!("2"))).await, 422, "key-reused");

    let complete = json!({
        "operation": "shipments", "key": "[\"A-7\", 1.0]", "json": {"id": "sh_1"},
        "fence": granted.body["fence"], "token": granted.body["token"],
    });
    assert_eq!(served.call("/complete", complete).await.status, 200);
    served.judge.advance(Millis::from_secs(20 * 366 * 86_400));
    let repeated = served.call("", with(about(payload), "attempt", json!("2"))).await;
    assert_eq!((repeated.status.as_u16(), &repeated.body["state"]), (200, &json!("completed")));
    assert_eq!(repeated.body["expires_in_s"], Value::Null);
    let path = "/v1/claims?operation=shipments&key=%5B%22A-7%22,1%5D";
    let found = served.send("GET", path, "a", String::new()).await;
    assert_eq!(found.body["state"], "completed", "{}", found.body);
}

#[tokio::test]
async fn a_key_that_is_not_the_requests_is_refused() {
    let served = serve();
    let payload = json!({"order_id": "A-7", "sku": 1});
    let named = |key: &str| with(about(payload.clone()), "key", json!(key));
    assert_problem(&served.call("", named("[\"A-7\",2]")).await, 400, "invalid-request");
    assert_problem(&served.call("", named("A-7")).await, 400, "key-malformed");
    assert_problem(&served.call("", named("[\"A-7\"]")).await, 400, "key-malformed");
    assert_problem(&served.call("", about(json!({"sku": 1}))).await, 400, "key-missing");
    let opaque = with(without(named(""), "payload"), "fingerprint", json!("f"));
    assert_problem(&served.call("", without(opaque.clone(), "key")).await, 400, "invalid-request");
    let named = with(opaque, "key", json!("[\"A-7\",1]"));
    assert_eq!(served.call("", named).await.status, 201);
    // Elsewhere a claim needs its key.
    let keyless = without(claim_body("1"), "key");
    assert_problem(&served.call("", keyless).await, 400, "invalid-request");
}

#[tokio::test]
async fn only_a_success_is_completed() {
    let served = serve();
    let granted = served.call("", about(json!({"order_id": 7, "sku": 1}))).await;
    let grant = json!({
        "operation": "shipments", "key": "[7,1]",
        "fence": granted.body["fence"], "token": granted.body["token"],
    });
    let complete = |status: u16| with(grant.clone(), "response", json!({"status": status}));
    for status in [303, 404, 422, 500] {
        assert_problem(&served.call("/complete", complete(status)).await, 400, "invalid-request");
    }
    assert_eq!(served.call("/complete", complete(204)).await.status, 200);
}
