//! Tests of how a form with files is read.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const TYPE: &str = "multipart/form-data; boundary=X";

/// A form of these parts, each its header lines and its content, between delimiters of `boundary`.
fn form(boundary: &str, parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(head, content)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    });
    parts.collect::<String>() + &format!("--{boundary}--\r\n")
}

fn read<'a>(content_type: &str, body: &'a str) -> Option<Vec<Part<'a>>> {
    ordered_parts(content_type.as_bytes(), body.as_bytes())
}

#[test]
fn c41_the_boundary_does_not_count() {
    let parts =
        [("name=\"a\"", "1"), ("name=f; filename=\"x.png\"\r\nContent-Type: image/png", "P")];
    let one = form("X", &parts);
    let other = form("----WebKitFormBoundary7MA4YWxkTrZu0gW", &parts);
    let quoted =
        "Multipart/Form-Data; charset=utf-8; boundary=\"----WebKitFormBoundary7MA4YWxkTrZu0gW\"";
    let expected = read(TYPE, &one).unwrap();
    assert_eq!(read(quoted, &other).unwrap(), expected);
    assert_eq!(expected[1].name, b"f");
    assert_eq!(expected[1].file_names, [Some(&b"x.png"[..]), None]);
    assert_eq!(expected[1].media_type, Some(MediaType::of(b"image/png")));
    assert_eq!(expected[1].content, b"P");
}

#[test]
fn only_the_order_of_equal_names_counts() {
    let [a1, a2, b] = [("name=a", "1"), ("name=a", "2"), ("name=b", "3")];
    let ordered = |parts: &[(&str, &str)]| {
        let body = form("X", parts);
        let parts = read(TYPE, &body).unwrap();
        parts.iter().map(|part| part.content.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(ordered(&[b, a1, a2]), ordered(&[a1, b, a2]));
    assert_ne!(ordered(&[a1, a2, b]), ordered(&[a2, a1, b]));
}

#[test]
fn a_part_is_told_by_name_file_type_and_content() {
    let base = ("name=a; filename=\"f\"\r\nContent-Type: text/plain", "1");
    let of = |part: (&str, &str)| {
        let body = form("X", &[part]);
        format!("{:?}", read(TYPE, &body).unwrap())
    };
    for other in [
        ("name=b; filename=\"f\"\r\nContent-Type: text/plain", "1"),
        ("name=a; filename=\"g\"\r\nContent-Type: text/plain", "1"),
        ("name=a; filename=\"\"\r\nContent-Type: text/plain", "1"),
        ("name=a; filename*=f\r\nContent-Type: text/plain", "1"),
        ("name=a\r\nContent-Type: text/plain", "1"),
        ("name=a; filename=\"f\"\r\nContent-Type: text/html", "1"),
        ("name=a; filename=\"f\"", "1"),
        (base.0, "2"),
        (base.0, "1\r\n"),
        (base.0, ""),
    ] {
        assert_ne!(of(other), of(base), "{other:?}");
    }
    let same = "name=\"a\";filename=f\r\ncontent-TYPE:text/Plain; charset=utf-8\r\nX-Trace: 7";
    assert_eq!(of((same, "1")), of(base));
}

#[test]
fn contents_may_look_like_delimiters_and_be_empty() {
    let contents = ["", "\r\n", "--X", "\r\n--", "\r\n-X", "\r\r\n--x", "\n--X--", "--X--\r\n"];
    for content in contents {
        let body = form("X", &[("name=a", content)]);
        let parts = read(TYPE, &body).unwrap();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].content, content.as_bytes(), "{content:?}");
    }
    assert_eq!(read(TYPE, "--X--\r\n").unwrap(), []);
    assert_eq!(read(TYPE, "--X--").unwrap(), []);
}

#[test]
fn what_readers_would_disagree_about_has_no_parts() {
    let whole = form("X", &[("name=a", "1")]);
    assert!(read(TYPE, &whole).is_some());
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=X; boundary=X",
        "multipart/form-data; boundary=\"X \"",
        "multipart/form-data; boundary=Y",
        "multipart/form-data; boundary=x",
        "multipart/form-data; boundary=\"X\\\"\"",
    ] {
        assert_eq!(read(content_type, &whole), None, "{content_type}");
    }
    let long = "b".repeat(BOUNDARY_MAX + 1);
    assert_eq!(read(&format!("a; boundary={long}"), &form(&long, &[("name=a", "1")])), None);
    for body in [
        format!("preamble\r\n{whole}"),
        format!("\r\n{whole}"),
        format!("{whole}epilogue"),
        whole.replace("\r\n", "\n"),
        whole.replace("--X--", "--X"),
        whole.replace("--X--", "--XX--"),
        whole.replace("--X\r\n", "--X \r\n"),
        whole.replace("form-data;", "attachment;"),
        whole.replace("name=a", "filename=a"),
        whole.replace("Content-Disposition", "Content-Type"),
        whole.replace("\r\n\r\n", "\r\nno colon\r\n\r\n"),
        whole.replace("\r\n\r\n", "\r\n folded: line\r\n\r\n"),
        whole.replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n"),
        whole.replace("\r\n\r\n", "\r\nContent-Disposition: form-data; name=b\r\n\r\n"),
        form("X", &[("name=a\r\nContent-Type: a/b\r\nContent-Type: a/c", "1")]),
    ] {
        assert_eq!(read(TYPE, &body), None, "{body}");
    }
}

#[test]
fn parts_and_lines_are_bounded() {
    let parts = |count| form("X", &vec![("name=a", "1"); count]);
    assert_eq!(read(TYPE, &parts(PARTS_MAX)).unwrap().len(), PARTS_MAX);
    assert_eq!(read(TYPE, &parts(PARTS_MAX + 1)), None);
    let lines = |count| {
        let more = "\r\nX-Y: z".repeat(count - 1);
        form("X", &[(&format!("name=a{more}"), "1")])
    };
    assert!(read(TYPE, &lines(PART_LINES_MAX)).is_some());
    assert_eq!(read(TYPE, &lines(PART_LINES_MAX + 1)), None);
}

/// A body that is cut or spoilt anywhere is read or refused, and never read past its end.
#[test]
fn spoilt_forms_do_no_harm() {
    let whole =
        form("X", &[("name=\"a\"; filename=\"f\"\r\nContent-Type: a/b", "1"), ("name=b", "")]);
    for end in 0..whole.len() - 2 {
        assert_eq!(read(TYPE, &whole[..end]), None, "{end}");
    }
    let mut rng = StdRng::seed_from_u64(0x9a27);
    for _ in 0..20_000 {
        let mut body = whole.clone().into_bytes();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..body.len());
            match rng.random_range(0..3) {
                0 => drop(body.remove(at)),
                1 => body.insert(at, b"\r\n-X\";=:"[rng.random_range(0..8)]),
                _ => body[at] = rng.random(),
            }
        }
        let _ = ordered_parts(TYPE.as_bytes(), &body);
    }
}
