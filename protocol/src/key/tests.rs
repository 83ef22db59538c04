//! Tests of how keys are read.

use super::*;

const LIMIT: usize = 255;

fn header(value: &[u8]) -> Result<IdempotencyKey, KeyError> {
    IdempotencyKey::from_header(value, LIMIT)
}

fn text_of(value: &[u8]) -> String {
    header(value).unwrap().as_str().to_owned()
}

#[test]
fn quoted_and_bare_spellings_are_one_key() {
    let spellings: [&[u8]; 8] = [
        b"abc",
        b"\"abc\"",
        b" \tabc\t ",
        b"\t\"abc\" ",
        b"\"abc\";a",
        b"\"abc\"; a=1;b=\"x, y\"",
        b"\"abc\";a=?0;c=:YQ==:;d=@12;e=%\"f%c3%bc\"",
        b"\"abc\" \t",
    ];
    for spelling in spellings {
        assert_eq!(header(spelling), header(b"abc"), "{}", String::from_utf8_lossy(spelling));
    }
}

#[test]
fn c34_nothing_but_blanks_is_malformed_and_never_absent() {
    for value in [&b""[..], b" ", b"\t \t", b"\"\"", b"\" \"", b"\"     \"", b" \"\" ", b"\"\";a=1"]
    {
        assert_eq!(header(value), Err(Malformed::Empty.into()), "{value:?}");
    }
}

#[test]
fn c34_outer_white_space_is_trimmed() {
    assert_eq!(text_of(b"  k  "), "k");
    assert_eq!(text_of(b"\t k\t"), "k");
}

#[test]
fn case_matters() {
    assert_ne!(header(b"Abc"), header(b"abc"));
}

#[test]
fn every_byte_is_sorted_into_allowed_and_forbidden() {
    for byte in 0..=u8::MAX {
        let bare = header(&[b'a', byte, b'z']);
        let bare_allowed = (0x21..=0x7e).contains(&byte) && byte != b',';
        assert_eq!(bare.is_ok(), bare_allowed, "bare {byte:#04x}");

        let quoted = header(&[b'"', b'a', byte, b'z', b'"']);
        let quoted_allowed = (0x20..=0x7e).contains(&byte) && byte != b'"' && byte != b'\\';
        assert_eq!(quoted.is_ok(), quoted_allowed, "quoted {byte:#04x}");

        if byte.is_ascii() {
            let text = IdempotencyKey::from_text(&format!("a{}z", char::from(byte)), LIMIT);
            assert_eq!(text.is_ok(), (0x20..=0x7e).contains(&byte), "text {byte:#04x}");
        }
    }
    assert_eq!(IdempotencyKey::from_text("é", LIMIT), Err(Malformed::ForbiddenByte.into()));
}

#[test]
fn escapes_in_a_quoted_key_stand_for_their_byte() {
    assert_eq!(text_of(br#""a\"b\\c""#), r#"a"b\c"#);
    assert_eq!(
        text_of(br#"a"b\c"#),
        r#"a"b\c"#,
        "quotes and backslashes inside a bare key are plain"
    );
}

#[test]
fn a_quoted_key_may_hold_spaces_and_commas() {
    assert_eq!(text_of(b"\" a, b \""), " a, b ");
}

#[test]
fn bad_quoting_is_malformed() {
    let bad: [&[u8]; 12] = [
        b"\"",
        b"\"abc",
        b"\"abc\"x",
        b"\"abc\" \"def\"",
        b"\"abc\", \"abc\"",
        b"\"a\\bc\"",
        b"\"abc\\\"",
        b"\"abc\";",
        b"\"abc\";A=1",
        b"\"abc\" ;a",
        b"\"a\tc\"",
        b"\"caf\xc3\xa9\"",
    ];
    for value in bad {
        assert_eq!(header(value), Err(Malformed::Quoting.into()), "{value:?}");
    }
}

#[test]
fn c31_joined_lines_in_one_value_are_malformed() {
    for value in [&b"K, K"[..], b"K,K", b"\"K\", \"K\"", b"K,", b",K"] {
        assert!(matches!(header(value), Err(KeyError::Malformed(_))), "{value:?}");
    }
}

#[test]
fn c32_the_limit_counts_bytes_without_quotes() {
    for length in [254, 255, 256] {
        let bare = "k".repeat(length);
        let quoted = format!("\"{bare}\"");
        let escaped = format!("\"{}\"", "\\\\".repeat(length));
        for value in [&bare, &quoted, &escaped] {
            let key = header(value.as_bytes());
            assert_eq!(key.is_ok(), length <= LIMIT, "{length}");
            if length > LIMIT {
                assert_eq!(key, Err(KeyError::TooLong { limit: LIMIT }));
            }
        }
        assert_eq!(IdempotencyKey::from_text(&bare, LIMIT).is_ok(), length <= LIMIT);
    }
    assert!(IdempotencyKey::from_header(b"\"k\";a=\"long parameter\"", 1).is_ok());
    assert!(IdempotencyKey::from_header(b"   k   ", 1).is_ok());
}

#[test]
fn text_is_taken_as_it_stands() {
    let key = IdempotencyKey::from_text(" \"a\", b ", LIMIT).unwrap();
    assert_eq!(key.as_str(), " \"a\", b ");
    for blank in ["", " ", "    "] {
        assert_eq!(IdempotencyKey::from_text(blank, LIMIT), Err(Malformed::Empty.into()));
    }
    assert_eq!(IdempotencyKey::from_text("abc", LIMIT), header(b"\"abc\""));
}

#[test]
fn c31_a_header_in_two_lines_is_malformed_even_if_they_agree() {
    let lines = |lines: &[&'static [u8]]| IdempotencyKey::from_lines(lines.iter().copied(), LIMIT);
    assert_eq!(lines(&[]), Ok(None));
    assert_eq!(lines(&[b"K"]), header(b"K").map(Some));
    assert_eq!(lines(&[b"K", b"K"]), Err(Malformed::RepeatedHeader.into()));
    assert_eq!(lines(&[b"K", b""]), Err(Malformed::RepeatedHeader.into()));
    assert_eq!(lines(&[b""]), Err(Malformed::Empty.into()));
}

#[test]
fn accepted_headers_must_agree() {
    let headers = |headers: &[&[&'static [u8]]]| {
        IdempotencyKey::from_headers(headers.iter().map(|lines| lines.iter().copied()), LIMIT)
    };
    let key = header(b"K").map(Some);
    assert_eq!(headers(&[]), Ok(None));
    assert_eq!(headers(&[&[], &[]]), Ok(None));
    assert_eq!(headers(&[&[], &[b"K"]]), key);
    assert_eq!(headers(&[&[b"K"], &[b"\"K\""]]), key);
    assert_eq!(headers(&[&[b"K"], &[b"k"]]), Err(Malformed::HeadersDisagree.into()));
    assert_eq!(headers(&[&[b"K"], &[], &[b"L"]]), Err(Malformed::HeadersDisagree.into()));
    assert_eq!(headers(&[&[b"K"], &[b""]]), Err(Malformed::Empty.into()));
    assert_eq!(headers(&[&[b"K"], &[b"K", b"K"]]), Err(Malformed::RepeatedHeader.into()));
}

#[test]
fn nothing_printable_shows_a_key() {
    let secret = "s3cr3t-key";
    let key = header(secret.as_bytes()).unwrap();
    assert_eq!(format!("{key:?}"), "IdempotencyKey(10 bytes)");
    let errors = [
        IdempotencyKey::from_header(secret.as_bytes(), 3),
        header(b"\"s3cr3t-key"),
        header(b"s3cr3t-key, s3cr3t-key"),
        header(b"s3cr3t-key s3cr3t-key"),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
    }
}
