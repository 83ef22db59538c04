//! Sub-accounts: how a caller says to which one its key belongs.

use super::*;

fn of(sub_account: Value) -> Value {
    with(with(claim_body("1"), "operation", json!("split")), "sub_account", sub_account)
}

fn described(body: &str, headers: Value) -> Value {
    let request = json!({"method": "POST", "target": "/split", "content_type": "application/json",
        "body": body, "headers": headers});
    let claim = with(without(claim_body("1"), "payload"), "request", request);
    with(claim, "operation", json!("split"))
}

#[tokio::test]
async fn keys_of_different_sub_accounts_never_meet() {
    let served = serve();
    for values in [json!(["", ""]), json!(["a", ""]), json!(["", "a"]), json!(["a", "b"])] {
        let first = served.call("", of(values.clone())).await;
        assert_eq!(first.status, 201, "{values}: {}", first.body);
        let other = served.call("", with(of(values.clone()), "attempt", json!("2"))).await;
        assert_problem(&other, 409, "key-in-progress");
    }
}

#[tokio::test]
async fn a_request_says_itself_to_which_sub_account_it_belongs() {
    let served = serve();
    let body = described(r#"{"merchant":"m"}"#, json!([["account", "a"]]));
    let first = served.call("", body.clone()).await;
    assert_eq!(first.status, 201, "{}", first.body);
    let given = with(body.clone(), "sub_account", json!(["m", "a"]));
    assert_eq!(served.call("", given).await.body["fence"], first.body["fence"]);
    let differs = with(body, "sub_account", json!(["m", "b"]));
    assert_problem(&served.call("", differs).await, 400, "invalid-request");
    let unclear = described(r#"{"merchant":["m"]}"#, json!([]));
    assert_problem(&served.call("", unclear).await, 400, "invalid-request");
}

#[tokio::test]
async fn every_call_names_the_sub_account() {
    let served = serve();
    let granted = served.call("", of(json!(["m", ""]))).await.body;
    let grant = json!({"operation": "split", "key": "k", "sub_account": ["m", ""],
        "fence": granted["fence"], "token": granted["token"]});
    let renew = with(grant.clone(), "lease", json!("5s"));
    assert_eq!(served.call("/renew", renew).await.status, 200);
    let other = with(grant.clone(), "sub_account", json!(["n", ""]));
    assert_problem(&served.call("/release", other).await, 409, "stale-fence");
    let done = with(grant.clone(), "response", json!({"status": 200}));
    assert_eq!(served.call("/complete", done).await.status, 200);
    let path = "/v1/claims?operation=split&key=k";
    let shown =
        async |more: &str| served.send("GET", &format!("{path}{more}"), "a", String::new()).await;
    let found = shown("&sub_account=%5B%22m%22%2C%22%22%5D");
    assert_eq!(found.await.body["state"], "completed");
    let other = shown("&sub_account=%5B%22n%22%2C%22%22%5D");
    assert_problem(&other.await, 404, "not-found");
    for missing in ["", "&sub_account=%5B%22m%22%5D", "&sub_account=m"] {
        let answer = shown(missing).await;
        assert_problem(&answer, 400, "invalid-request");
        assert!(answer.body["detail"].as_str().unwrap().contains("json:/merchant"));
    }
    assert_problem(
        &served.call("", without(of(json!([])), "sub_account")).await,
        400,
        "invalid-request",
    );
    let none = with(claim_body("1"), "sub_account", json!(["m"]));
    assert_problem(&served.call("", none).await, 400, "invalid-request");
}
