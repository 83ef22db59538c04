//! Bodies that say the same in other bytes, and those that are too large.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::client::{Got, Served, keyed};
use super::stub::{Step, Stub};

const OPERATIONS: &str = "[[operation]]\nmatch = \"POST /payments\"\nname = \"payments\"\n";

async fn served() -> (Stub, Served) {
    let created = "HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";
    let stub = Stub::always(vec![Step::Write(created.into())]).await;
    let served = Served::new(&stub, OPERATIONS).await;
    (stub, served)
}

/// Posts a body with these further header lines.
async fn post(served: &Served, key: &str, lines: &str, body: &[u8]) -> Got {
    let head = keyed("POST /payments", key);
    let length = body.len();
    let head = format!("{head}\r\n{lines}\r\nhost: shop\r\ncontent-length: {length}\r\n\r\n");
    let mut client = served.client().await;
    client.send(&[head.as_bytes(), body].concat()).await;
    client.answer_to("POST").await
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn file(boundary: &str, content: &str) -> String {
    format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.png\"\r\n\
         content-type: image/png\r\n\r\n{content}\r\n--{boundary}--\r\n"
    )
}

#[tokio::test]
async fn c41_a_form_sent_again_with_another_boundary_is_the_same() {
    let (stub, served) = served().await;
    let send = async |boundary: &str, content: &str| {
        let lines = format!("content-type: multipart/form-data; boundary={boundary}");
        post(&served, "k", &lines, file(boundary, content).as_bytes()).await
    };
    assert_eq!(send("X", "PNG").await.status(), 201);
    let again = send("Y", "PNG").await;
    assert_eq!((again.status(), again.is_replay()), (201, true));
    assert_eq!(send("Z", "PNg").await.problem(), (422, "key-reused".into()));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn c43_gzip_and_identity_of_one_document_replay_each_other() {
    let (stub, served) = served().await;
    let (json, lines) = (br#"{"a":1,"b":2}"#, "content-type: application/json");
    let packed = gzip(br#"{ "b": 2, "a": 1.0 }"#);
    let encoded = format!("{lines}\r\ncontent-encoding: gzip");
    for (key, gzip_first) in [("k", true), ("j", false)] {
        let mut got = Vec::new();
        for nth in 0..2 {
            let gzip = (nth == 0) == gzip_first;
            got.push(match gzip {
                true => post(&served, key, &encoded, &packed).await,
                false => post(&served, key, lines, json).await,
            });
        }
        assert_eq!(got.iter().map(Got::is_replay).collect::<Vec<_>>(), [false, true]);
        assert!(got.iter().all(|got| got.status() == 201));
    }
    let other = post(&served, "k", &encoded, &gzip(br#"{"a":2,"b":2}"#)).await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    let form = post(&served, "k", "content-type: application/x-www-form-urlencoded", json).await;
    assert_eq!(form.problem(), (422, "key-reused".into()));
    // What was encoded goes upstream as it came.
    let first = &stub.seen()[0];
    assert_eq!((first.one("content-encoding"), &first.body[..]), (Some("gzip"), &packed[..]));
    assert_eq!(stub.seen().len(), 2);
}

#[tokio::test]
async fn c43_a_bomb_is_refused_before_anything_is_claimed() {
    let (stub, served) = served().await;
    let bomb = gzip(&vec![b' '; 1 << 20]);
    let got = post(&served, "k", "content-encoding: gzip", &bomb).await;
    assert_eq!(got.problem(), (413, "body-too-large".into()));
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
    // The key is still free.
    assert_eq!(post(&served, "k", "content-encoding: gzip", &gzip(b"x")).await.status(), 201);
}

#[tokio::test]
async fn a_body_that_is_not_what_its_encoding_says_counts_as_it_came() {
    let (stub, served) = served().await;
    let send = async |encoding: &str, body: &[u8]| {
        let lines = format!("content-type: application/json\r\ncontent-encoding: {encoding}");
        post(&served, "k", &lines, body).await
    };
    assert_eq!(send("gzip", b"{\"a\":1}").await.status(), 201);
    assert!(send("GZIP", b"{\"a\":1}").await.is_replay());
    for (encoding, body) in [
        ("gzip", &b"{\"a\": 1}"[..]),
        ("br", b"{\"a\":1}"),
        ("identity", b"{\"a\":1}"),
        ("gzip, unheard-of", b"{\"a\":1}"),
        ("gzip", &gzip(b"{\"a\":1}")),
    ] {
        assert_eq!(send(encoding, body).await.problem(), (422, "key-reused".into()), "{encoding}");
    }
    assert_eq!(stub.seen().len(), 1);
}
