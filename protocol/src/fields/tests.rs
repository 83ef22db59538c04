use super::*;

fn scalar(body: &str, pointer: &str) -> Result<Option<String>, NotScalar> {
    let document = JsonDocument::read(body.as_bytes()).expect("a document");
    let pointer = JsonPointer::parse(pointer).expect("a pointer");
    document.scalar(&pointer).map(|found| found.map(str::to_owned))
}

fn found(text: &str) -> Result<Option<String>, NotScalar> {
    Ok(Some(text.to_owned()))
}

#[test]
fn a_member_is_found_wherever_it_stands_and_however_it_is_spelled() {
    let body = r#" { "z": [1, {"id": "x"}], "a\u002fb": 1.50, "~": true, "": "", "o": {"p": {}},
        "q": "say \"},{\" \\", "n": null, "order": {"id": 7e0, "ids": [[], [5]]} } "#;
    assert_eq!(scalar(body, "/z/0"), found("1"));
    assert_eq!(scalar(body, "/z/1/id"), found("\"x\""));
    assert_eq!(scalar(body, "/a~1b"), found("1.5"));
    assert_eq!(scalar(body, "/~0"), found("true"));
    assert_eq!(scalar(body, "/"), found("\"\""));
    assert_eq!(scalar(body, "/q"), found(r#""say \"},{\" \\""#));
    assert_eq!(scalar(body, "/order/id"), found("7"));
    assert_eq!(scalar(body, "/order/ids/1/0"), found("5"));
    for absent in ["/x", "/z/2", "/z/00", "/z/-", "/z/id", "/order/id/x", "/n", "/n/x", "/o/p/x"] {
        assert_eq!(scalar(body, absent), Ok(None), "{absent}");
    }
    for container in ["/z", "/order", "/o/p", "/order/ids/0"] {
        assert_eq!(scalar(body, container), Err(NotScalar), "{container}");
    }
    assert_eq!(scalar("{}", "/x"), Ok(None));
    assert_eq!(scalar("[]", "/0"), Ok(None));
    assert_eq!(scalar("5", "/0"), Ok(None));
}

#[test]
fn a_text_and_a_number_of_the_same_digits_differ_and_spellings_do_not() {
    assert_ne!(scalar("{\"id\":\"1\"}", "/id"), scalar("{\"id\":1}", "/id"));
    assert_eq!(scalar("{\"id\":1.0}", "/id"), scalar("{\"id\":1}", "/id"));
    assert_eq!(scalar("{\"id\":\"\\u0061\"}", "/id"), scalar("{\"id\":\"a\"}", "/id"));
    let large = ["9007199254740993", "9007199254740992"];
    let [one, other] = large.map(|id| scalar(&format!("{{\"id\":{id}}}"), "/id"));
    assert_ne!(one, other);
}

#[test]
fn what_readers_disagree_about_has_no_members() {
    for body in ["", "{", "{\"id\":1,\"id\":2}", "{\"a\":1}x", "{\"a\":\"\\ud800\"}"] {
        assert!(JsonDocument::read(body.as_bytes()).is_none(), "{body}");
    }
    let deep = format!("{}1{}", "[".repeat(129), "]".repeat(129));
    assert!(JsonDocument::read(deep.as_bytes()).is_none());
}

#[test]
fn only_what_leads_into_a_document_is_a_pointer() {
    let long = "/".to_owned() + &"x".repeat(POINTER_BYTES_MAX);
    for text in ["", "id", "#/id", "/~", "/~2", "/a~", &long] {
        assert_eq!(JsonPointer::parse(text), Err(PointerError), "{text}");
    }
    assert_eq!(JsonPointer::parse("/a/0").unwrap().to_string(), "/a/0");
}
