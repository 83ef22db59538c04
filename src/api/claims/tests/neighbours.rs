//! Two tenants with one key: whatever became of the one's claim, the other finds nothing.

use super::*;

/// What tenant `b` is answered to every call about a key, without what differs by chance.
async fn everything(served: &Served, key: &str, grant: &Value) -> Vec<(u16, Value)> {
    let grant = with(with(grant.clone(), "operation", json!("orders")), "key", json!(key));
    let response = json!({"status": 200});
    let calls = [
        ("GET", format!("?operation=orders&key={key}"), json!(null)),
        ("POST", "/renew".to_owned(), with(grant.clone(), "lease", json!("5s"))),
        ("POST", "/complete".to_owned(), with(grant.clone(), "response", response.clone())),
        ("POST", "/release".to_owned(), grant.clone()),
        ("POST", "/unknown".to_owned(), grant),
        (
            "POST",
            "/revise".to_owned(),
            json!({"operation": "orders", "key": key, "response": response}),
        ),
        (
            "POST",
            String::new(),
            with(with(claim_body("1"), "key", json!(key)), "payload", json!("other")),
        ),
    ];
    let mut answers = Vec::new();
    for (method, path, body) in calls {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = served.send(method, &format!("/v1/claims{path}"), "b", body).await;
        let mut shown = answer.body;
        for by_chance in ["instance", "fence", "token", "lease_expires_in_ms"] {
            shown.as_object_mut().unwrap().remove(by_chance);
        }
        answers.push((answer.status.as_u16(), shown));
    }
    answers
}

#[tokio::test]
async fn no_answer_depends_on_what_another_tenant_has_under_the_key() {
    let served = serve();
    let grant = |claimed: &Value| json!({"fence": claimed["fence"], "token": claimed["token"]});
    let unused = json!({"fence": 1, "token": "0".repeat(32)});
    let alone = everything(&served, "unused", &unused).await;
    assert_eq!(alone.last().unwrap().0, 201);
    for state in ["claimed", "completed", "released", "indeterminate", "lapsed", "ended"] {
        let claim = with(claim_body("1"), "key", json!(state));
        let claimed = served.call("", claim).await;
        assert_eq!(claimed.status, 201, "{state}: {}", claimed.body);
        let own = with(grant(&claimed.body), "operation", json!("orders"));
        let own = with(own, "key", json!(state));
        let done = match state {
            "claimed" | "ended" => None,
            "completed" | "lapsed" => {
                Some(("/complete", with(own, "response", json!({"status": 201}))))
            }
            "released" => Some(("/release", own)),
            _ => Some(("/unknown", own)),
        };
        if let Some((path, body)) = done {
            assert_eq!(served.call(path, body).await.status, 200, "{state}");
        }
        match state {
            "lapsed" => served.judge.advance(Millis::from_secs(3 * 86_400)),
            "ended" => served.judge.advance(Millis::from_secs(11)),
            _ => {}
        }
        assert_eq!(everything(&served, state, &grant(&claimed.body)).await, alone, "{state}");
    }
}
