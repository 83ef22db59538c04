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
    let mut at = match text[at] {
        b'"' => return end_of_string(text, at),
        b'{' | b'[' => at + 1,
        _ => {
            let end = |byte: &u8| matches!(byte, b',' | b'}' | b']');
            return text[at..].iter().position(end).map_or(text.len(), |length| at + length);
        }
    };
    let mut open = 1_usize;
    while open > 0 {
        match text[at] {
            b'"' => {
                at = end_of_string(text, at);
                continue;
            }
            b'{' | b'[' => open += 1,
            b'}' | b']' => open -= 1,
            _ => {}
        }
        at += 1;
    }
    at
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
