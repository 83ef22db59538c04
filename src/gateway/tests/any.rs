//! What holds for any request whatever, drawn at random from a fixed seed.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use super::API_KEY;
use super::client::{Got, Served, keyed};
use super::stub::Stub;

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

async fn served() -> (Stub, Served) {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    (stub, served)
}

async fn post(served: &Served, key: &str, body: &str) -> Got {
    let head = format!("{}\r\ncontent-type: application/json", keyed("POST /orders", key));
    served.ask(&head, body).await
}

fn document(rng: &mut StdRng, depth: usize) -> Value {
    let kinds = if depth == 0 { 5 } else { 8 };
    match rng.random_range(0..kinds) {
        0 => Value::Null,
        1 => rng.random::<bool>().into(),
        2 => rng.random::<i32>().into(),
        3 => rng.random::<u64>().into(),
        4 => text(rng).into(),
        5 => (0..rng.random_range(0..4)).map(|_| document(rng, depth - 1)).collect(),
        _ => {
            let members =
                (0..rng.random_range(1..5)).map(|_| (text(rng), document(rng, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

fn text(rng: &mut StdRng) -> String {
    let letters = ['a', 'b', '"', '\\', '/', '\n', '\u{7f}', 'ü', '€', '😀'];
    (0..rng.random_range(0..6)).map(|_| letters[rng.random_range(0..letters.len())]).collect()
}

/// Another spelling of the same document: members in any order, any white space and escapes, and
/// whole numbers with a fraction or an exponent that is none.
fn spelled(rng: &mut StdRng, value: &Value, out: &mut String) {
    space(rng, out);
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.shuffle(rng);
            for (nth, (name, value)) in members.into_iter().enumerate() {
                out.push(if nth == 0 { '{' } else { ',' });
                space(rng, out);
                escaped(rng, name, out);
                space(rng, out);
                out.push(':');
                spelled(rng, value, out);
            }
            out.push('}');
        }
        Value::Array(elements) => {
            out.push('[');
            for (nth, element) in elements.iter().enumerate() {
                out.push_str(if nth == 0 { "" } else { "," });
                spelled(rng, element, out);
            }
            space(rng, out);
            out.push(']');
        }
        Value::String(text) => escaped(rng, text, out),
        Value::Number(number) => {
            let exact = number.as_i64().is_some_and(|number| number.abs() < 1 << 53);
            let ends = ["", ".0", "e0", ".00E+0"];
            let end = if exact { ends[rng.random_range(0..ends.len())] } else { "" };
            *out += &format!("{number}{end}");
        }
        other => *out += &other.to_string(),
    }
    space(rng, out);
}

fn space(rng: &mut StdRng, out: &mut String) {
    let spaces = ["", "", " ", "\t", "\r\n"];
    out.push_str(spaces[rng.random_range(0..spaces.len())]);
}

fn escaped(rng: &mut StdRng, text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        if rng.random_range(0..3) == 0 || letter.is_control() || matches!(letter, '"' | '\\') {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                *out += &format!("\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    out.push('"');
}

/// Makes one leaf another, which is not the same by any rule.
fn change(rng: &mut StdRng, value: &mut Value) {
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            let nth = rng.random_range(0..elements.len());
            change(rng, &mut elements[nth]);
        }
        Value::Object(members) if !members.is_empty() => {
            let nth = rng.random_range(0..members.len());
            change(rng, members.values_mut().nth(nth).unwrap());
        }
        Value::Number(number) if number.as_u64().is_some_and(|number| number > 1) => {
            *value = (number.as_u64().unwrap() - 1).into();
        }
        Value::Bool(truth) => *value = (!*truth).into(),
        Value::String(text) => *value = format!("{text}.").into(),
        leaf => *leaf = json!([leaf.clone(), Map::new()]),
    }
}

#[tokio::test]
async fn equal_documents_always_replay_and_a_change_in_one_leaf_never_does() {
    let (stub, served) = served().await;
    let mut rng = StdRng::seed_from_u64(0x0a11);
    for round in 0..150 {
        let key = format!("key-{round}");
        let first = document(&mut rng, 4);
        let mut changed = first.clone();
        change(&mut rng, &mut changed);
        let mut spelled = |value| {
            let mut text = String::new();
            spelled(&mut rng, value, &mut text);
            text
        };
        let [one, again, other] = [spelled(&first), spelled(&first), spelled(&changed)];
        assert_eq!(post(&served, &key, &one).await.status(), 201, "{one}");
        let repeat = post(&served, &key, &again).await;
        assert!(repeat.is_replay(), "{one}\n{again}\n{}", repeat.head);
        let refused = post(&served, &key, &other).await;
        assert_eq!(refused.problem(), (422, "key-reused".into()), "{one}\n{other}");
    }
    assert_eq!(stub.seen().len(), 150);
}

/// The upstream answers 201 to everything here, so whatever is above 499 would be ours.
#[tokio::test]
async fn no_bytes_as_key_or_body_lead_to_a_server_error() {
    let (_stub, served) = served().await;
    let mut rng = StdRng::seed_from_u64(0xb17e5);
    let types = [
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=X",
        "multipart/form-data",
        "text/plain",
        "no type",
    ];
    let encodings = ["", "gzip", "deflate", "br", "zstd", "identity", "gzip, br", "none"];
    let pieces: &[&[u8]] = &[
        b"k",
        b"\"",
        b"\\",
        b",",
        b" ",
        b";",
        b"\t",
        b"\x7f",
        b"\xff",
        b"{",
        b"[",
        b":",
        b"1e9999",
        b"\r\n",
        b"\n",
        b"\0",
        b"--X",
        b"--X--",
        b"=",
        b"&",
        b"%4",
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f",
    ];
    let bytes = |rng: &mut StdRng, most: usize| -> Vec<u8> {
        let pieces = (0..rng.random_range(0..most)).flat_map(|_| match rng.random_range(0..4) {
            0 => vec![rng.random()],
            _ => pieces[rng.random_range(0..pieces.len())].to_vec(),
        });
        pieces.collect()
    };
    let mut statuses = std::collections::BTreeSet::new();
    for _ in 0..400 {
        // Half of the keys can be read, so that the bodies are.
        let key = if rng.random() { bytes(&mut rng, 6) } else { b"\"a key\"".to_vec() };
        let body = bytes(&mut rng, 40);
        let content_type = types[rng.random_range(0..types.len())];
        let encoding = encodings[rng.random_range(0..encodings.len())];
        let head = format!(
            "POST /orders HTTP/1.1\r\nhost: shop\r\nauthorization: Bearer {API_KEY}\r\n\
             content-type: {content_type}\r\ncontent-encoding: {encoding}\r\n\
             content-length: {}\r\nidempotency-key: ",
            body.len()
        );
        let mut client = served.client().await;
        client.send(&[head.as_bytes(), &key, b"\r\n\r\n", &body].concat()).await;
        let got = client.answer_to("POST").await;
        let (key, body) = (key.escape_ascii(), body.escape_ascii());
        assert!((200..500).contains(&got.status()), "{key} {body}: {}", got.head);
        statuses.insert(got.status());
    }
    assert!([201, 400, 422].iter().all(|status| statuses.contains(status)), "{statuses:?}");
}
