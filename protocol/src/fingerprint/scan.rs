//! Finding one's way in a canonical JSON text, which has no white space and is known to be whole.

/// Where the string that begins at `at` ends: behind its closing quote.
pub(super) fn end_of_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    loop {
        at += text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(0);
        match text[at] {
            b'"' => return at + 1,
            _ => at += 2,
        }
    }
}

/// Where the value that begins at `at` ends.
pub(super) fn end_of_value(text: &[u8], at: usize) -> usize {
    let (mut at, mut open) = (at, 0_usize);
    loop {
        match text[at] {
            b'"' => at = end_of_string(text, at),
            b'{' | b'[' => {
                open += 1;
                at += 1;
            }
            b'}' | b']' => {
                open -= 1;
                at += 1;
            }
            b',' | b':' => at += 1,
            _ => {
                let end = |byte: &u8| matches!(byte, b',' | b'}' | b']');
                at += text[at..].iter().position(end).unwrap_or(text.len() - at);
            }
        }
        if open == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        for value in [
            "1.5e-7",
            "null",
            "\"\"",
            "\"a\\\"]}\\\\\"",
            "[]",
            "{}",
            "[1,[2],{\"a\":[]}]",
            "{\"]\":\"}\",\"b\":{}}",
        ] {
            assert_eq!(end_of_value(value.as_bytes(), 0), value.len(), "{value}");
            let within = format!("[{value},7]");
            assert_eq!(end_of_value(within.as_bytes(), 1), value.len() + 1, "{within}");
            assert_eq!(end_of_value(within.as_bytes(), 0), within.len());
        }
    }
}
