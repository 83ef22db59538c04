use http_body_util::BodyExt;
use protocol::Fence;
use protocol::response::StoredHeader;
use serde_json::Value;

use super::*;

fn terms() -> Terms {
    Terms {
        retention: Retention::For(Millis::from_secs(60)),
        indeterminate_status: StatusCode::CONFLICT,
        replay: ReplayMode::Snapshot,
        style: Style::DEFAULT,
    }
}

async fn rendered(answer: Answer) -> (StatusCode, HeaderMap, Value) {
    let (head, body) = render(answer, None, &terms(), Timestamp::ZERO).into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn every_answer_without_a_response_has_its_status_and_says_whether_it_ran() {
    let lease_left = Millis::new(1);
    let free_in = Millis::new(1500);
    let stored = Box::new(protocol::Fingerprint::opaque("x").unwrap().into());
    let unreachable = |earlier_may_have_run| Answer::Unreachable { earlier_may_have_run };
    for (answer, status, code, retryable, executed) in [
        (Answer::InProgress { lease_left }, 409, "key-in-progress", true, "unknown"),
        (Answer::Reused { stored }, 422, "key-reused", false, "no"),
        (Answer::OtherOperation, 422, "operation-mismatch", false, "no"),
        (Answer::Indeterminate, 409, "outcome-indeterminate", false, "unknown"),
        (Answer::Forgetting { free_in }, 503, "shard-unavailable", true, "no"),
        (unreachable(false), 502, "upstream-unreachable", true, "no"),
        (unreachable(true), 502, "upstream-unreachable", true, "unknown"),
        (Answer::ShardUnavailable, 503, "shard-unavailable", true, "no"),
        (Answer::OutcomePending, 504, "outcome-pending", true, "unknown"),
        (Answer::OutcomeUnknown(Doubt::Reset), 502, "outcome-unknown", true, "unknown"),
        (Answer::OutcomeUnknown(Doubt::TimedOut), 504, "outcome-unknown", true, "unknown"),
        (Answer::OutcomeUnknown(Doubt::Ambiguous), 504, "outcome-unknown", true, "unknown"),
        (Answer::OutcomeUnknown(Doubt::NotDurable), 504, "outcome-unknown", true, "unknown"),
        (Answer::OutcomeUnknown(Doubt::GrantLost), 504, "outcome-unknown", true, "unknown"),
    ] {
        let (seen, _, problem) = rendered(answer.clone()).await;
        let said = (seen.as_u16(), &problem["code"], &problem["retryable"], &problem["executed"]);
        let wanted = (status, &code.into(), &retryable.into(), &executed.into());
        assert_eq!(said, wanted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_wait_is_told_in_whole_seconds_rounded_up() {
    let (_, headers, _) = rendered(Answer::Forgetting { free_in: Millis::new(1001) }).await;
    assert_eq!(headers["retry-after"], "2");
    let (_, headers, _) = rendered(Answer::InProgress { lease_left: Millis::ZERO }).await;
    assert_eq!(headers["retry-after"], "1");
}

#[test]
fn a_replay_tells_how_long_the_record_lives() {
    let replay = |retain_until| Replay {
        response: StoredResponse {
            status: 200,
            headers: vec![StoredHeader { name: "etag".into(), value: b"\"1\"".to_vec() }],
            body: StoredBody::Whole(b"ok".to_vec()),
        },
        newest: None,
        generation: Fence::new(0, 1),
        completed_at: Timestamp::ZERO,
        retain_until,
    };
    for (retain_until, now, left) in [
        (Some(10_000), 0, Some("10")),
        (Some(10_000), 1, Some("9")),
        (Some(10_000), 9_001, Some("0")),
        (Some(10_000), 12_000, Some("0")),
        (None, 0, None),
    ] {
        let replay = Box::new(replay(retain_until.map(Timestamp::from_millis)));
        let now = Timestamp::from_millis(now);
        let response = render(Answer::Replay(replay), None, &terms(), now);
        let seen = response.headers().get(EXPIRES).map(|value| value.to_str().unwrap());
        assert_eq!(seen, left, "{retain_until:?} at {now:?}");
        assert_eq!(response.headers()[REPLAYED], "true");
        assert_eq!(response.headers()["etag"], "\"1\"");
    }
}
