//! The fuzz targets: what must hold for any bytes whatever. Each is a plain function, which both
//! `cargo fuzz` and an ordinary test call.

use std::path::Path;

use cluster::layouts::layouts;
use oncegate::config::{Policy, Severity};
use oncegate::terms::Terms;
use protocol::fingerprint::{OutlineKey, Place, Print, RequestParts, Rules, Subject};
use protocol::key::is_quoted;
use protocol::{Fingerprint, IdempotencyKey, RecordName};
use serde_json::value::RawValue;

/// A fuzz target.
pub(crate) type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub(crate) const TARGETS: [(&str, Target); 5] =
    [("key", key), ("json", json), ("multipart", multipart), ("config", config), ("wire", wire)];

/// The longest key here.
const KEY_MAX: usize = 64;

/// The lines of a key header: a key is what its rules say, and is found again in every spelling.
pub(crate) fn key(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n');
    let Ok(Some(key)) = IdempotencyKey::from_lines(lines, KEY_MAX) else { return };
    let text = key.as_str();
    assert!((1..=KEY_MAX).contains(&text.len()), "{} bytes", text.len());
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{text:?}");
    assert!(!text.trim().is_empty(), "only spaces");
    let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    for spelling in [quoted.clone(), format!("  {quoted}\t"), format!("{quoted};a=1")] {
        assert_eq!(IdempotencyKey::from_header(spelling.as_bytes(), KEY_MAX).as_ref(), Ok(&key));
    }
    let bare = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if bare && !is_quoted(text.as_bytes()) {
        assert_eq!(IdempotencyKey::from_header(text.as_bytes(), KEY_MAX).as_ref(), Ok(&key));
    }
    assert_eq!(IdempotencyKey::from_text(text, KEY_MAX).as_ref(), Ok(&key));
    assert!(IdempotencyKey::from_text(text, text.len() - 1).is_err(), "one byte too long");
}

/// A JSON body: what another parser takes for JSON is the same whatever the white space around it
/// and within it, and what it does not counts byte for byte.
pub(crate) fn json(data: &[u8]) {
    let print = |body: &[u8], rules: &Rules| of(b"application/json", body, rules);
    let spaced = [b" \t", data, b"\r\n"].concat();
    let same = print(data, &Rules::DEFAULT) == print(&spaced, &Rules::DEFAULT);
    let document = serde_json::from_slice::<&RawValue>(data);
    assert!(!same || document.is_ok(), "no JSON, and yet spaces did not matter");
    let places = ["/a", "/a/*", "/*/0/b"].map(|text| Place::parse(text).expect("a place"));
    for rules in [
        Rules::ignoring(places.to_vec(), vec![]).expect("three places"),
        Rules::only(places.to_vec(), vec![]).expect("three places"),
    ] {
        let pruned = print(data, &rules);
        assert_eq!(pruned, print(data, &rules));
        if same {
            assert_eq!(pruned, print(&spaced, &rules), "spaces matter under {rules:?}");
        }
    }
}

/// A form with files: how its boundary is written in the media type does not matter.
pub(crate) fn multipart(data: &[u8]) {
    let part = Place::parse("part:a").expect("a place");
    for rules in [Rules::DEFAULT, Rules::ignoring(vec![part], vec![]).expect("one place")] {
        let of = |media_type: &[u8]| of(media_type, data, &rules);
        let bare = of(b"multipart/form-data; boundary=XbX");
        assert_eq!(bare, of(b"multipart/form-data; boundary=\"XbX\""));
        assert_eq!(bare, of(b"Multipart/Form-Data;charset=utf-8 ; BOUNDARY=XbX"));
    }
}

/// A policy: it is refused with reasons that lie within it, or has terms.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let lines = text.split('\n').count();
    let findings = match Policy::parse(Path::new("policy.toml"), text) {
        Ok((policy, warnings)) => {
            let terms = Terms::of(&policy, None);
            assert_eq!(
                terms.to_json()["operations"].as_array().map(Vec::len),
                Some(policy.operations().len())
            );
            assert!(!terms.to_markdown().is_empty() && terms.to_openapi().is_object());
            assert!(warnings.iter().all(|it| it.severity == Severity::Warning));
            warnings
        }
        Err(refused) => {
            assert!(refused.findings.iter().any(|it| it.severity == Severity::Error));
            refused.findings
        }
    };
    assert!(findings.iter().all(|it| it.line.is_none_or(|line| (1..=lines).contains(&line))));
}

/// What another process sends, or the disk holds: it is refused, or is a value like any other,
/// which is written and read again as it is.
pub(crate) fn wire(data: &[u8]) {
    for layout in layouts() {
        let mut bytes = data.to_vec();
        if let (Some(version), Some(first)) = (layout.version, bytes.first_mut()) {
            *first = version;
        }
        let Some(written) = (layout.rewrite)(&bytes) else { continue };
        let again = (layout.rewrite)(&written);
        assert_eq!(again.as_deref(), Some(&written[..]), "{}", layout.name);
    }
}

fn of(content_type: &[u8], body: &[u8], rules: &Rules) -> Fingerprint {
    let key = OutlineKey::new(&[7; 32], &RecordName::from_bytes(b"name".to_vec()));
    let subject = Subject::Request(RequestParts {
        method: "POST",
        target: "/",
        content_type: Some(content_type),
        headers: &[],
        body,
        encoding: None,
    });
    Print::of(&subject, rules, &key).fingerprint
}
