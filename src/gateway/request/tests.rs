use futures_util::stream;
use http::Request;

use super::*;
use crate::gateway::tests::operation;

fn head(request: http::request::Builder) -> Parts {
    request.body(()).unwrap().into_parts().0
}

/// A body of these frames, of a length that is not told.
fn frames(frames: Vec<Result<&'static str, std::io::Error>>) -> Body {
    Body::from_stream(stream::iter(frames))
}

#[tokio::test]
async fn a_body_is_read_whole_up_to_its_limit() {
    let long = "x".repeat(10);
    assert_eq!(whole_body(Body::from(long.clone()), 10).await.unwrap(), long);
    assert_eq!(whole_body(Body::empty(), 0).await.unwrap(), "");
    let parts = frames(vec![Ok("ab"), Ok(""), Ok("cd"), Ok("e")]);
    assert_eq!(whole_body(parts, 5).await.unwrap(), "abcde");
    for over in [Body::from(long), frames(vec![Ok("abcde"), Ok("abcde")])] {
        assert_eq!(whole_body(over, 9).await.unwrap_err().code(), Code::BodyTooLarge);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let broken = frames(vec![Ok("ab"), Err(std::io::Error::other("reset"))]);
    assert_eq!(whole_body(broken, 9).await.unwrap_err().code(), Code::InvalidRequest);
}

#[tokio::test(start_paused = true)]
async fn c47_a_body_that_drips_for_too_long_is_refused() {
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>("x"), ()))
    });
    let refused = whole_body(Body::from_stream(drip), 1 << 20).await.unwrap_err();
    assert_eq!(refused.code(), Code::BodyTimeout);
}

#[test]
fn c67_an_announced_body_over_the_limit_is_refused_unread() {
    let unread = whole_body(Body::from("x".repeat(10)), 9);
    let refused = futures_util::FutureExt::now_or_never(unread).unwrap();
    assert_eq!(refused.unwrap_err().code(), Code::BodyTooLarge);
}

#[test]
fn a_key_is_found_in_any_accepted_header() {
    let accepted = [HeaderName::from_static("idempotency-key"), HeaderName::from_static("x-key")];
    let with = |name: &'static str, value: &'static str| {
        head(Request::post("/").header(name, value)).headers
    };
    let operation = Operation { headers: accepted.to_vec(), ..operation() };
    let sent = sent_key(&with("x-key", "\"a b\""), &operation).unwrap();
    assert_eq!((sent.key.as_str(), sent.raw.as_bytes()), ("a b", &b"\"a b\""[..]));
    assert!(brings_key(&with("x-key", ""), &accepted));
    assert!(!brings_key(&with("x-other", "k"), &accepted));
    let missing = sent_key(&with("x-other", "k"), &operation).unwrap_err();
    assert_eq!(missing.code(), Code::KeyMissing);
    let malformed = sent_key(&with("x-key", ""), &operation).unwrap_err();
    assert_eq!(malformed.code(), Code::KeyMalformed);
}

#[test]
fn an_operation_may_take_quoted_keys_only() {
    let operation = Operation { quoted_keys: true, ..operation() };
    let sent = |value: &'static str| {
        let headers = head(Request::post("/").header("idempotency-key", value)).headers;
        sent_key(&headers, &operation).map(|sent| sent.key.as_str().to_owned())
    };
    assert_eq!(sent("\"k\"").unwrap(), "k");
    assert_eq!(sent(" \"k\";a=1").unwrap(), "k");
    for bare in ["k", "k\"", "'k'", "?1", ":aw==:"] {
        assert_eq!(sent(bare).unwrap_err().code(), Code::KeyMalformed, "{bare}");
    }
}
