//! The parameters of a header field's value, `; name=value`.

/// The most parameters that are read; those in use are one to three.
const PARAMETERS_MAX: usize = 16;

/// The name of a parameter in lower case, and its value as it stands between the quotes, where it
/// has some.
type Parameter<'a> = (Vec<u8>, &'a [u8]);

/// The parameters of a field's value, behind what it begins with. `None` when they are malformed,
/// when two have one name, and when there are too many.
pub(super) fn parameters(field: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let mut all: Vec<Parameter<'_>> = Vec::new();
    let start = field.iter().position(|byte| *byte == b';').unwrap_or(field.len());
    let mut rest = &field[start..];
    while let Some(next) = rest.strip_prefix(b";") {
        let next = next.trim_ascii_start();
        if next.is_empty() || next.starts_with(b";") {
            rest = next;
            continue;
        }
        let equals = next.iter().position(|byte| *byte == b'=')?;
        let name = next[..equals].to_ascii_lowercase();
        let (value, after) = value(&next[equals + 1..])?;
        let known = all.iter().any(|(earlier, _)| *earlier == name);
        if !is_token(&name) || known || all.len() == PARAMETERS_MAX {
            return None;
        }
        all.push((name, value));
        rest = after.trim_ascii_start();
    }
    rest.is_empty().then_some(all)
}

/// The value that `text` begins with, and what follows it.
fn value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t'));
        let (value, rest) = text.split_at(end.unwrap_or(text.len()));
        return is_token(value).then_some((value, rest));
    };
    let mut at = 0;
    loop {
        match quoted.get(at)? {
            b'"' => return Some((&quoted[..at], &quoted[at + 1..])),
            // Names of files often hold backslashes that escape nothing.
            b'\\' if quoted.get(at + 1) == Some(&b'"') => at += 2,
            _ => at += 1,
        }
    }
}

fn is_token(text: &[u8]) -> bool {
    let other = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte);
    !text.is_empty() && text.iter().all(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = parameters(field.as_bytes())?;
        Some(all.iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    #[track_caller]
    fn assert_read(field: &str, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(read(field), Some(expected), "{field}");
    }

    #[test]
    fn values_are_tokens_or_quoted() {
        assert_read("form-data", &[]);
        assert_read(
            "a/b; Boundary=x-1 ; charset=\"utf 8\"",
            &[("boundary", "x-1"), ("charset", "utf 8")],
        );
        assert_read("a;;b=\"c;d\";", &[("b", "c;d")]);
        assert_read(r#"a; f="C:\x\"y"; g="""#, &[("f", r#"C:\x\"y"#), ("g", "")]);
    }

    #[test]
    fn what_readers_would_disagree_about_is_refused() {
        for field in [
            "a; b",
            "a; b=",
            "a; =c",
            "a; b=\"c",
            "a; b=\"c\"d",
            "a; b=c d",
            "a; b=1; B=2",
            "a; b =c",
            "a; b= c",
        ] {
            assert_eq!(read(field), None, "{field}");
        }
        let many = |count: usize| (0..count).map(|nth| format!(";p{nth}=1")).collect::<String>();
        assert_eq!(read(&many(PARAMETERS_MAX)).unwrap().len(), PARAMETERS_MAX);
        assert_eq!(read(&many(PARAMETERS_MAX + 1)), None);
    }
}
