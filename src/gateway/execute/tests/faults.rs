//! What becomes of an execution when something breaks.

use protocol::command::{Grant, Outcome, Verdict};
use protocol::record::OnUnknown;
use protocol::response::{StoredBody, StoredResponse};

use super::*;

/// The upstream commits and its connection is reset: nobody runs it again.
#[tokio::test]
async fn c19_a_reset_after_the_request_is_an_unknown_outcome() {
    let stub = Stub::always(vec![Step::Reset]).await;
    let bench = Bench::new(stub.address);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
    let again = bench.ask("x").await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "outcome-indeterminate"));
    assert_eq!(bench.ask("y").await.code(), "key-reused");
    assert_eq!((stub.seen().len(), stub.connections()), (1, 1));
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    for half in [
        "HTTP/1.1 201 Crea",
        "HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n{\"n\"",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n",
        "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 9\r\n\r\nno",
        "nonsense\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        for end in [Step::Reset, Step::Close] {
            let stub = Stub::always(vec![Step::Write(half.into()), end]).await;
            let bench = Bench::new(stub.address);
            let first = bench.ask("x").await;
            assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "outcome-unknown"));
            assert_eq!(bench.ask("x").await.code(), "outcome-indeterminate", "{half}");
            assert_eq!(stub.seen().len(), 1);
        }
    }
}

/// An old answer without a length ends with its connection, which then is no fault.
#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let text = "HTTP/1.0 201 Created\r\nlocation: /orders/1\r\n\r\nold";
    let stub = Stub::always(vec![Step::Write(text.into()), Step::Close]).await;
    let bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.body, "old");
    assert!(bench.ask("x").await.is_replay());
}

#[tokio::test]
async fn a_refused_connection_frees_the_key() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let mut bench = Bench::new(address);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (502, "upstream-unreachable"));
    assert_eq!(bench.judge.kinds(), [Kind::Claim, Kind::Release]);

    let stub = Stub::answering(CREATED).await;
    let clock = bench.judge.clone();
    let uri = format!("http://{}", stub.address).parse().unwrap();
    bench.upstream = Upstream::new(&uri, None, Arc::new(move || clock.boot()));
    let again = bench.ask("x").await;
    assert_eq!((again.status.as_u16(), again.is_replay()), (201, false));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_dead_pooled_connection_is_replaced_once() {
    let stub = Stub::always(vec![Step::Write(CREATED.into()), Step::Close]).await;
    let mut bench = Bench::new(stub.address);
    assert_eq!(bench.ask("x").await.status, 201);
    stub.closed(1).await;
    bench.key = "another";
    assert_eq!(bench.ask("x").await.status, 201);
    assert_eq!((stub.seen().len(), stub.connections()), (2, 2));
}

#[tokio::test]
async fn c17_a_client_that_leaves_changes_nothing() {
    let (stub, go) = waiting_stub().await;
    let bench = Bench::new(stub.address);
    let client = bench.start("x");
    stub.requests(1).await;
    drop(client);
    go.notify_one();
    bench.judge.until_record(is_done).await;
    assert!(bench.ask("x").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_client_that_cannot_wait_is_told_that_the_execution_goes_on() {
    let (stub, go) = waiting_stub().await;
    let answer_within = Millis::new(50);
    let bench = Bench::new(stub.address).with(|operation| operation.answer_within = answer_within);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (504, "outcome-pending"));
    assert!(first.header("retry-after").is_some());
    assert_eq!(bench.ask("x").await.code(), "key-in-progress");
    go.notify_one();
    bench.judge.until_record(is_done).await;
    assert!(bench.ask("x").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

/// The upstream is too late for its client, but not for its key.
#[tokio::test]
async fn c20_a_late_answer_within_the_lease_becomes_the_stored_one() {
    let (stub, go) = waiting_stub().await;
    let max_execution = Millis::new(100);
    let bench = Bench::new(stub.address).with(|operation| operation.max_execution = max_execution);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (504, "outcome-unknown"));
    bench.judge.until_record(is_indeterminate).await;
    assert_eq!(bench.ask("x").await.code(), "outcome-indeterminate");
    go.notify_one();
    bench.judge.until_record(is_done).await;
    let again = bench.ask("x").await;
    assert_eq!((again.status.as_u16(), again.is_replay()), (201, true));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_upstream_works() {
    let (stub, go) = waiting_stub().await;
    let bench = Bench::new(stub.address);
    let client = bench.start("x");
    bench.judge.until(Kind::Renew, 2).await;
    go.notify_one();
    assert_eq!(answer(client).await.status, 201);
    assert_eq!(stub.seen().len(), 1);
}

/// The reply to the claim is lost: the same attempt asks again and gets the same grant.
#[tokio::test]
async fn c23_a_lost_reply_to_a_claim_costs_no_key() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    bench.judge.fail(Kind::Claim, Fault::AnswerLost);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    assert_eq!(bench.judge.submitted(Kind::Claim), 2);
    assert_eq!(stub.seen()[0].one("idempotency-fence"), Some("1"));
    assert_eq!(stub.seen().len(), 1);
}

/// The claim is granted, but nobody hears of it: the grant is found by a read, and given back.
#[tokio::test]
async fn c05_a_claim_that_was_given_up_leaves_no_ghost() {
    let stub = Stub::answering(CREATED).await;
    let answer_within = Millis::new(200);
    let bench = Bench::new(stub.address).with(|operation| operation.answer_within = answer_within);
    bench.judge.fail(Kind::Claim, Fault::AnswerLost);
    for _ in 0..16 {
        bench.judge.fail(Kind::Claim, Fault::Refused(SubmitErrorKind::Lost));
    }
    assert_eq!(bench.ask("x").await.code(), "shard-unavailable");
    bench.judge.until(Kind::Release, 1).await;
    bench.judge.until_record(|record| matches!(record, Record::Tombstone(_))).await;
    assert!(stub.seen().is_empty());
}

/// The machine has permitted the send, but by the clock of the socket it comes too late.
#[tokio::test]
async fn a_send_that_was_held_up_past_its_lease_does_not_happen() {
    let stub = Stub::answering(CREATED).await;
    let mut bench = Bench::new(stub.address);
    let clock = bench.judge.clone();
    let uri = format!("http://{}", stub.address).parse().unwrap();
    let held_up = protocol::lease::LEASE_MIN.to_std();
    bench.upstream = Upstream::new(&uri, None, Arc::new(move || clock.boot() + held_up));
    assert_eq!(bench.ask("x").await.code(), "upstream-unreachable");
    assert_eq!(bench.judge.kinds(), [Kind::Claim, Kind::Release]);
    assert!(stub.seen().is_empty());
}

/// The outcome is there but not durable: the client is not told it, and it is not lost.
#[tokio::test]
async fn c16_an_outcome_that_cannot_be_stored_is_kept_and_stored_later() {
    let stub = Stub::answering(CREATED).await;
    let answer_within = Millis::new(300);
    let bench = Bench::new(stub.address).with(|operation| operation.answer_within = answer_within);
    for _ in 0..4 {
        bench.judge.fail(Kind::Complete, Fault::Refused(SubmitErrorKind::Lost));
    }
    bench.judge.hold(Kind::Complete);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (504, "outcome-unknown"));
    bench.judge.let_go();
    bench.judge.until_record(is_done).await;
    assert_eq!(bench.judge.submitted(Kind::Complete), 5);
    assert!(bench.ask("x").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_completion_whose_reply_is_lost_is_repeated_and_answered_once() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    bench.judge.fail(Kind::Complete, Fault::AnswerLost);
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.is_replay()), (201, false));
    assert_eq!(bench.judge.submitted(Kind::Complete), 2);
}

#[tokio::test]
async fn a_claim_that_cannot_be_decided_runs_nothing() {
    let stub = Stub::answering(CREATED).await;
    let answer_within = Millis::new(200);
    let bench = Bench::new(stub.address).with(|operation| operation.answer_within = answer_within);
    for _ in 0..16 {
        bench.judge.fail(Kind::Claim, Fault::Refused(SubmitErrorKind::NoLeader));
    }
    let first = bench.ask("x").await;
    assert_eq!((first.status.as_u16(), first.code().as_str()), (503, "shard-unavailable"));
    assert!(first.header("retry-after").is_some());
    assert_eq!(bench.judge.record(), None);
    assert!(stub.seen().is_empty());
}

#[tokio::test]
async fn a_claim_that_is_refused_for_long_is_answered_at_once_with_the_cause() {
    let stub = Stub::answering(CREATED).await;
    let bench = Bench::new(stub.address);
    for (kind, code, words) in [
        (SubmitErrorKind::DiskFull, "shard-unavailable", "disk is full"),
        (SubmitErrorKind::ConfigMismatch, "config-mismatch", "policy is not the cluster's"),
    ] {
        let before = bench.judge.submitted(Kind::Claim);
        bench.judge.fail(Kind::Claim, Fault::Refused(kind));
        let refused = bench.ask("x").await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, code));
        assert!(refused.header("retry-after").is_some());
        let text = String::from_utf8_lossy(&refused.body);
        assert!(text.contains(words), "{text}");
        assert_eq!(bench.judge.submitted(Kind::Claim), before + 1, "not tried again");
    }
    assert_eq!(bench.judge.record(), None);
    assert!(stub.seen().is_empty());
    assert_eq!(bench.ask("x").await.status, 201, "the key is free");
}

/// An operator settles the record while the execution runs: the client gets the operator's outcome,
/// never one that only the gateway knows.
#[tokio::test]
async fn an_execution_that_lost_its_grant_answers_from_the_record() {
    let (stub, go) = waiting_stub().await;
    let bench = Bench::new(stub.address);
    let client = bench.start("x");
    stub.requests(1).await;
    let Some(Record::Live(generation)) = bench.judge.record() else { panic!("a generation") };
    let name = bench.job("x").claim.name;
    let grant = Grant { fence: generation.fence, token: generation.token };
    bench.judge.decide(Command::Unknown { name: name.clone(), grant });
    let settled = StoredResponse {
        status: 200,
        headers: Vec::new(),
        body: StoredBody::Whole(b"settled".to_vec()),
    };
    let resolved = bench.judge.decide(Command::Resolve {
        name,
        fence: generation.fence,
        verdict: Verdict::Completed(settled),
        by: "ops".into(),
        reason: "seen in the books".into(),
        force: false,
    });
    assert!(matches!(resolved.outcome, Outcome::Resolved { .. }), "{resolved:?}");
    go.notify_one();
    for seen in [answer(client).await, bench.ask("x").await] {
        assert_eq!((seen.status.as_u16(), &seen.body[..]), (200, &b"settled"[..]));
        assert!(seen.is_replay());
    }
}

/// Where the downstream is idempotent another attempt runs, and says which one it is.
/// The provider behind the API recognises the second attempt at one execution, and takes the next
/// execution under the same key for another one.
#[tokio::test]
async fn a_derived_key_is_the_same_for_every_attempt_and_another_for_the_next_generation() {
    let refused = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
    let script = [
        vec![Step::Reset],
        vec![Step::Write(CREATED.into())],
        vec![Step::Write(refused.into())],
        vec![Step::Write(CREATED.into())],
    ];
    let stub = Stub::scripted(script).await;
    let downstream_retention = Millis::from_secs(3600);
    let bench = Bench::new(stub.address)
        .with(|operation| operation.on_unknown = OnUnknown::Takeover { downstream_retention });
    let ask = async |key| {
        let mut job = bench.job_for(key, "x");
        let headers = vec![crate::gateway::forward::KEY];
        job.outgoing.key = ForwardedKey::Derived { name: job.claim.name.clone(), headers };
        answer(run(job)).await.status.as_u16()
    };
    assert_eq!([ask("a").await, ask("a").await], [502, 201]);
    assert_eq!([ask("b").await, ask("b").await], [429, 201]);
    let seen = stub.seen();
    let sent: Vec<_> = seen.iter().map(|seen| seen.one("idempotency-key").unwrap()).collect();
    let attempts: Vec<_> = seen.iter().map(|seen| seen.one("idempotency-attempt")).collect();
    assert_eq!(attempts, [Some("1"), Some("2"), Some("1"), Some("1")]);
    assert_eq!(sent[0], sent[1], "a second attempt at one execution");
    assert_ne!(sent[2], sent[3], "two executions");
    assert_eq!(sent[0].len(), 36);
}

#[tokio::test]
async fn a_takeover_runs_as_a_later_attempt_with_a_larger_fence() {
    let busy = "HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n";
    let scripts =
        [vec![Step::Reset], vec![Step::Write(busy.into())], vec![Step::Write(CREATED.into())]];
    let stub = Stub::scripted(scripts).await;
    let downstream_retention = Millis::from_secs(86_400);
    let bench = Bench::new(stub.address)
        .with(|operation| operation.on_unknown = OnUnknown::Takeover { downstream_retention });
    assert_eq!(bench.ask("x").await.code(), "outcome-unknown");
    // Its own key layer may be speaking of the first attempt.
    let second = bench.ask("x").await;
    assert_eq!((second.status.as_u16(), second.code().as_str()), (504, "outcome-unknown"));
    let third = bench.ask("x").await;
    assert_eq!((third.status.as_u16(), third.is_replay()), (201, false));
    let told = |name| -> Vec<u64> {
        stub.seen().iter().map(|seen| seen.one(name).unwrap().parse().unwrap()).collect()
    };
    assert_eq!(told("idempotency-attempt"), [1, 2, 3]);
    assert!(told("idempotency-fence").is_sorted_by(|one, next| one < next));
}
