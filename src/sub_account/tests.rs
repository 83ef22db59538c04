use http::HeaderValue;
use protocol::fields::JsonPointer;

use super::*;

const JSON: Option<&[u8]> = Some(b"application/json; charset=utf-8");
const FORM: Option<&[u8]> = Some(b"application/x-www-form-urlencoded");

fn json(pointer: &str) -> Field {
    Field::Json(JsonPointer::parse(pointer).unwrap())
}

fn header() -> Field {
    Field::Header(HeaderName::from_static("account"))
}

fn of_json(body: &str) -> Result<String, String> {
    let headers = &HeaderMap::new();
    let body = body.as_bytes();
    one(&Asked { headers, target: "/", content_type: JSON, body }, json("/m"))
}

fn one(asked: &Asked<'_>, field: Field) -> Result<String, String> {
    let values = asked.values(&[field]).map_err(|problem| format!("{problem:?}"));
    values.map(|mut values| values.remove(0))
}

fn of_headers(lines: &[&[u8]]) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append("account", HeaderValue::from_bytes(line).unwrap());
    }
    let asked = Asked { headers: &headers, target: "/", content_type: None, body: b"" };
    one(&asked, header())
}

#[test]
fn a_member_counts_by_its_text_and_a_missing_one_is_empty() {
    assert_eq!(of_json("{\"m\":\"acme\"}").unwrap(), "acme");
    assert_eq!(of_json("{\"m\":\"\\u0061cme\"}").unwrap(), "acme");
    assert_eq!(of_json("{\"m\":7.0}").unwrap(), "7");
    assert_eq!(of_json("{\"m\":true}").unwrap(), "true");
    for missing in ["{}", "{\"m\":null}", "{\"m\":\"\"}", "[1]", ""] {
        assert_eq!(of_json(missing).unwrap(), "", "{missing}");
    }
    for unclear in ["{\"m\":[\"acme\"]}", "{\"m\":{}}", "{\"m\":1,\"m\":2}", "{", "m=1"] {
        assert!(of_json(unclear).is_err(), "{unclear}");
    }
    assert!(of_json(&format!("{{\"m\":\"{}\"}}", "x".repeat(256))).is_err());
    assert!(of_json(&format!("{{\"m\":\"{}\"}}", "x".repeat(255))).is_ok());
}

#[test]
fn what_could_be_two_accounts_is_none() {
    let headers = &HeaderMap::new();
    let query = |target| Asked { headers, target, content_type: None, body: b"" };
    let shop = || Field::Query("shop".to_owned());
    assert_eq!(one(&query("/?shop=caf%C3%A9"), shop()).unwrap(), "caf\u{e9}");
    for other in ["/?shop=caf%E9", "/?shop=caf%E8"] {
        assert!(one(&query(other), shop()).is_err(), "{other}");
    }
    let body = b" {\"m\":1,\"m\":2}";
    for content_type in [None, Some(&b"text/plain"[..])] {
        let asked = Asked { headers, target: "/", content_type, body };
        assert!(one(&asked, json("/m")).is_err(), "{content_type:?}");
    }
}

#[test]
fn a_body_is_read_as_json_whatever_it_says_it_is() {
    for content_type in [None, Some(&b"text/plain"[..]), FORM] {
        let asked = Asked {
            headers: &HeaderMap::new(),
            target: "/",
            content_type,
            body: b"{\"m\":\"acme\"}",
        };
        assert_eq!(one(&asked, json("/m")).unwrap(), "acme");
        let other = Asked { body: b"not json", ..asked };
        assert_eq!(one(&other, json("/m")).unwrap(), "");
    }
}

#[test]
fn a_header_is_one_line_of_text() {
    assert_eq!(of_headers(&[]).unwrap(), "");
    assert_eq!(of_headers(&[b" acct_1 "]).unwrap(), "acct_1");
    assert!(of_headers(&[b"acct_1", b"acct_1"]).is_err());
    assert!(of_headers(&[b"acct_\xff"]).is_err());
}

#[test]
fn a_parameter_of_query_or_form_is_decoded_and_comes_once() {
    let query = |target| {
        let asked = Asked { headers: &HeaderMap::new(), target, content_type: None, body: b"" };
        one(&asked, Field::Query("a b".to_owned()))
    };
    assert_eq!(query("/?x=1&a+b=acct%5F1").unwrap(), "acct_1");
    assert_eq!(query("/").unwrap(), "");
    assert!(query("/?a%20b=1&a+b=1").is_err());
    let form = |content_type, body: &str| {
        let asked =
            Asked { headers: &HeaderMap::new(), target: "/", content_type, body: body.as_bytes() };
        one(&asked, Field::Form("a".to_owned()))
    };
    assert_eq!(form(FORM, "a=1&b=2").unwrap(), "1");
    assert_eq!(form(JSON, "a=1&b=2").unwrap(), "");
    assert!(form(FORM, "a=1&a=2").is_err());
}

#[test]
fn values_that_a_caller_gives_are_as_many_as_there_are_fields() {
    let fields = [json("/m"), header()];
    let texts = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    assert_eq!(given(&fields, &texts(&["a", ""])).unwrap(), ["a", ""]);
    for wrong in [&[][..], &["a"], &["a", "b", "c"], &["a", &"x".repeat(256)]] {
        assert!(given(&fields, &texts(wrong)).is_err(), "{wrong:?}");
    }
    assert!(given(&[], &[]).is_ok() && given(&[], &texts(&["a"])).is_err());
    assert_eq!(listed(&fields, Some("[\"a\",\"\"]")).unwrap(), ["a", ""]);
    for wrong in [None, Some("a"), Some("[1, 2]"), Some("[\"a\"]")] {
        assert!(listed(&fields, wrong).is_err(), "{wrong:?}");
    }
}
