//! Tests of canonical documents, by their texts.

use super::*;

fn canonical(text: &str) -> Option<String> {
    canonical_json(text.as_bytes()).map(|text| String::from_utf8(text).unwrap())
}

#[track_caller]
fn assert_canonical(text: &str, expected: &str) {
    assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn members_come_in_order_and_white_space_goes() {
    assert_canonical(
        " { \"b\" : [ 1 , { \"z\" : null , \"y\" : false } ] ,\r\n\t\"a\" : true } ",
        r#"{"a":true,"b":[1,{"y":false,"z":null}]}"#,
    );
    assert_canonical("{}", "{}");
    assert_canonical("[ ]", "[]");
    assert_canonical("{\"a\":{ },\"\":[{}]}", r#"{"":[{}],"a":{}}"#);
    assert_canonical(" \"x\" ", "\"x\"");
    assert_canonical("\nnull\n", "null");
}

#[test]
fn names_are_ordered_by_their_whole_text() {
    assert_canonical(r#"{"ab":1,"a":2,"a!":3}"#, r#"{"a!":3,"a":2,"ab":1}"#);
    assert_canonical(r#"{"é":1,"z":2,"Z":3}"#, r#"{"Z":3,"z":2,"é":1}"#);
    // Names that begin alike, longer than the head that is compared first.
    assert_canonical(
        r#"{"transaction_b":[1,2],"transaction_a":"x","transaction":0}"#,
        r#"{"transaction":0,"transaction_a":"x","transaction_b":[1,2]}"#,
    );
    assert_canonical(
        r#"{"transaction\\\"b":1,"transaction\\\"a":2}"#,
        r#"{"transaction\\\"a":2,"transaction\\\"b":1}"#,
    );
    assert_canonical(r#"{"\u0062":1,"\u0061":2}"#, r#"{"a":2,"b":1}"#);
    assert_canonical(r#"{"b\"":1,"b":2,"a\\":3}"#, r#"{"a\\":3,"b":2,"b\"":1}"#);
}

#[test]
fn strings_have_one_spelling() {
    assert_canonical(r#""\u0041\/\u00e9\u20AC""#, "\"A/é€\"");
    assert_canonical(r#""\ud83d\ude00 😀""#, "\"😀 😀\"");
    assert_canonical(r#""\u0022\u005c\u0008\u000C\u000a\u000D\u0009""#, r#""\"\\\b\f\n\r\t""#);
    assert_canonical(r#""\u0000\u001F\u007f""#, "\"\\u0000\\u001f\u{7f}\"");
    assert_canonical(r#""\"\\\b\f\n\r\t""#, r#""\"\\\b\f\n\r\t""#);
    assert_canonical(r#""\uFFFF\uE000\uD7FF""#, "\"\u{ffff}\u{e000}\u{d7ff}\"");
    assert_canonical(r#""\uDBFF\uDFFF""#, "\"\u{10ffff}\"");
}

#[test]
fn unicode_is_not_normalised() {
    assert_ne!(canonical("\"\u{e9}\""), canonical("\"e\u{301}\""));
}

#[test]
fn c40_null_is_not_missing() {
    assert_ne!(canonical(r#"{"a":null}"#), canonical("{}"));
}

#[test]
fn the_order_of_elements_counts() {
    assert_ne!(canonical("[1,2]"), canonical("[2,1]"));
    assert_ne!(canonical("[[1],2]"), canonical("[1,[2]]"));
}

#[test]
fn two_members_of_one_name_have_no_canonical_text() {
    let documents = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"b":1,"a":2,"b":3}"#,
        r#"{"c":1,"b":2,"a":3,"b":4}"#,
        r#"{"":1,"":2}"#,
        r#"[{"x":{"long name":1,"long name":2}}]"#,
        r#"{"z":0,"long name 1":[1],"a":0,"long name 1":{"b":2}}"#,
    ];
    for document in documents {
        assert_eq!(canonical(document), None, "{document}");
    }
    assert!(canonical(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#).is_some());
}

#[test]
fn half_a_surrogate_pair_has_no_canonical_text() {
    let halves = [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83d\ud83d""#,
        r#""\ude00\ud83d""#,
        r#""\ud83dx""#,
        r#""\ud83dxxde00""#,
        r#""\ud83d\n""#,
        r#""\ud83d\u0041""#,
        r#"{"\ud83d":1}"#,
    ];
    for document in halves {
        assert_eq!(canonical(document), None, "{document}");
    }
}

#[test]
fn what_is_not_json_has_no_canonical_text() {
    let documents = [
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "undefined",
        "NaN",
        "Infinity",
        "'a'",
        "a",
        "//",
        "/**/1",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "[1}",
        "{",
        "}",
        "{]",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "{,}",
        "{\"a\":}",
        "{\"a\":1]",
        "{\"a\":1 \"b\":2}",
        "{\"a\",\"b\"}",
        "{null:1}",
        "1 1",
        "1,",
        "[]]",
        "{}{}",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\\U0041\"",
        "\"\n\"",
        "\"\t\"",
        "\"\0\"",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "-",
        "0x1",
        "\u{feff}1",
        "\u{a0}1",
        "1\u{0}",
        "\u{b}1",
        "\u{c}1",
        "--1",
        "[1]x",
        "tru e",
    ];
    for document in documents {
        assert_eq!(canonical(document), None, "{document:?}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xc3\"", b"\"\xed\xa0\xbd\"", b"\"\xc0\x80\"", b"1\xff"] {
        assert_eq!(canonical_json(bytes), None, "{bytes:?}");
    }
}

/// A document that is cut anywhere, or of which one byte is left out, must not be read past its
/// end.
#[test]
fn cut_documents_are_refused_without_a_panic() {
    let document = r#"{"a\n\u00e9\ud83d\ude00":[-1.5e+10,true,null,{"b":"c","a":{}}],"":"é"}"#;
    assert!(canonical(document).is_some());
    for end in 0..document.len() {
        assert_eq!(canonical_json(&document.as_bytes()[..end]), None, "{end}");
    }
    for left_out in 0..document.len() {
        let mut bytes = document.as_bytes().to_vec();
        bytes.remove(left_out);
        canonical_json(&bytes);
    }
}

#[test]
fn c40_documents_may_nest_128_deep() {
    for (open, close) in [("[", "]"), ("{\"b\":0,\"a\":[", "]}")] {
        let containers = if open == "[" { 1 } else { 2 };
        let deepest = nested(open, close, 128 / containers);
        assert!(canonical(&deepest).is_some());
        assert_eq!(canonical(&format!("[{deepest}]")), None);
        assert_eq!(canonical(&format!("{{\"a\":{deepest}}}")), None);
    }
    let wide = format!("[{}]", vec![nested("[", "]", 127); 100].join(","));
    assert!(canonical(&wide).is_some(), "depth is not a count");
}

#[test]
fn c40_ten_thousand_nested_arrays_are_harmless() {
    for document in [
        nested("[", "]", 10_000),
        "[".repeat(1 << 20),
        "{\"a\":".repeat(10_000),
        nested("[{\"a\":", "}]", 10_000),
    ] {
        assert_eq!(canonical(&document), None);
    }
}

#[test]
fn numbers_are_laid_out_in_no_more_room_than_they_had() {
    assert_canonical(
        "[100,1000,-120000,1.0,1e20,-0.0,0.10,0.010,-1.25e-7,1e400,10e-401,18446744073709551617]",
        "[100,1e3,-12e4,1,1e20,0,0.1,1e-2,-125e-9,1e400,1e-400,18446744073709551617]",
    );
}
