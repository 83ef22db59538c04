use protocol::response::StoredHeader;
use protocol::{Fence, Timestamp};

use super::*;

const MODES: [ReplayMode; 4] =
    [ReplayMode::Snapshot, ReplayMode::Latest, ReplayMode::Redirect, ReplayMode::SnapshotFreshness];

fn response(status: u16, location: Option<&str>, body: StoredBody) -> StoredResponse {
    let line = location.map(|value| StoredHeader { name: "location".into(), value: value.into() });
    StoredResponse { status, headers: line.into_iter().collect(), body }
}

fn whole(text: &str) -> StoredBody {
    StoredBody::Whole(text.into())
}

fn replay(response: StoredResponse, newest: Option<StoredResponse>) -> Replay {
    Replay {
        response,
        newest,
        generation: Fence::new(0, 1),
        completed_at: Timestamp::ZERO,
        retain_until: None,
    }
}

#[test]
fn what_was_never_revised_is_answered_as_it_was_but_where_the_resource_is_named() {
    let first = response(201, None, whole("pending"));
    for mode in MODES {
        let repeat = Repeat::by(mode, replay(first.clone(), None)).expect("a response");
        assert_eq!(repeat, Repeat { response: first.clone(), stale: false }, "{mode:?}");
    }
}

#[test]
fn a_revision_is_answered_told_of_or_neither() {
    let (first, newest) =
        (response(201, None, whole("pending")), response(200, None, whole("paid")));
    for (mode, answered, stale) in [
        (ReplayMode::Snapshot, &first, false),
        (ReplayMode::Latest, &newest, false),
        (ReplayMode::Redirect, &first, false),
        (ReplayMode::SnapshotFreshness, &first, true),
    ] {
        let repeat = Repeat::by(mode, replay(first.clone(), Some(newest.clone()))).unwrap();
        assert_eq!((&repeat.response, repeat.stale), (answered, stale), "{mode:?}");
    }
}

#[test]
fn a_redirect_is_to_the_resource_of_a_success_and_of_nothing_else() {
    let by = |first: &StoredResponse, newest: Option<StoredResponse>| {
        Repeat::by(ReplayMode::Redirect, replay(first.clone(), newest))
    };
    let first = response(201, Some("/orders/1"), whole("pending"));
    let problem = by(&first, None).expect_err("a redirect");
    assert_eq!(problem.code(), Code::ReplayRedirect);
    assert_eq!(problem.headers()[LOCATION], "/orders/1");
    // The newest word on where the resource is.
    let moved = response(200, Some("/archive/1"), whole("paid"));
    let problem = by(&first, Some(moved)).expect_err("a redirect");
    assert_eq!(problem.headers()[LOCATION], "/archive/1");
    // It needs no body that was kept.
    let large = response(201, Some("/orders/1"), StoredBody::Omitted);
    assert_eq!(by(&large, None).expect_err("a redirect").code(), Code::ReplayRedirect);
    for status in [303, 402, 409, 500] {
        let other = response(status, Some("/elsewhere"), whole("no"));
        assert_eq!(by(&other, None).expect("the response").response, other);
    }
}

#[test]
fn a_body_that_was_not_kept_is_told_with_what_is_known_of_it() {
    let measured = StoredBody::Measured(Measure { bytes: 70_000, sha256: [0; 32] });
    for (body, bytes) in [(StoredBody::Omitted, None), (measured, Some(70_000))] {
        let first = response(201, Some("/orders/1"), body);
        let newest = response(200, None, whole("paid"));
        let by = |mode| Repeat::by(mode, replay(first.clone(), Some(newest.clone())));
        for (mode, stale) in [(ReplayMode::Snapshot, false), (ReplayMode::SnapshotFreshness, true)]
        {
            let problem = by(mode).expect_err("no body");
            assert_eq!(problem.code(), Code::ResponseNotReplayable);
            assert_eq!(problem.headers()[LOCATION], "/orders/1");
            assert_eq!(problem.headers().contains_key(STALE), stale);
            let document: serde_json::Value = serde_json::from_slice(&problem.document()).unwrap();
            assert_eq!(document["status_of_response"], 201);
            assert_eq!(document["bytes_of_response"].as_u64(), bytes);
            let digest = bytes.map(|_| "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:");
            assert_eq!(document["digest_of_response"].as_str(), digest);
        }
        assert_eq!(by(ReplayMode::Latest).expect("the revision was kept").response, newest);
    }
}
