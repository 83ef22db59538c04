//! Canonical text of a JSON string: one spelling for each character.
//!
//! As in RFC 8785, only the quote, the backslash and control characters are escaped; everything
//! else stands for itself in UTF-8. Characters are not normalised.

/// The canonical literal of a string.
pub(crate) fn canonical_string(text: &str) -> Vec<u8> {
    let mut out = vec![b'"'];
    text.chars().for_each(|character| write_character(character, &mut out));
    out.push(b'"');
    out
}

/// Writes the string that `text`, which is UTF-8, begins with to `out` and returns the length of
/// its literal. `None` where `text` does not begin with a string as RFC 8259 has it, and for half
/// a surrogate pair, which names no character.
pub(super) fn write_string(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if text.first() != Some(&b'"') {
        return None;
    }
    out.push(b'"');
    let mut at = 1;
    loop {
        let plain = plain_prefix(&text[at..]);
        out.extend_from_slice(&text[at..at + plain]);
        at += plain;
        match text.get(at)? {
            b'"' => {
                out.push(b'"');
                return Some(at + 1);
            }
            b'\\' => at += write_escaped(&text[at + 1..], out)? + 1,
            _ => return None,
        }
    }
}

/// Writes a text as a canonical string.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    text.chars().for_each(|character| write_character(character, out));
    out.push(b'"');
}

/// Writes the character for which the escape that `text` begins with (behind its backslash)
/// stands, and returns the length of the escape.
fn write_escaped(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let character = match text.first()? {
        mark @ (b'"' | b'\\' | b'/') => char::from(*mark),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let (character, length) = unicode_escape(&text[1..])?;
            write_character(character, out);
            return Some(1 + length);
        }
        _ => return None,
    };
    write_character(character, out);
    Some(1)
}

/// The character of a `\u` escape behind its `u`, and the length of what names it: four hexadecimal
/// digits, or a surrogate pair.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    const DIGITS: usize = 4;
    const PAIR: usize = DIGITS + 2 + DIGITS;
    let first = code_unit(text.get(..DIGITS)?)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, DIGITS));
    }
    let second = text.get(DIGITS..PAIR)?.strip_prefix(b"\\u")?;
    let pair = [first, code_unit(second)?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, PAIR))
}

fn code_unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(unit << 4 | digit as u16)
    })
}

fn write_character(character: char, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match character {
        '"' => b'"',
        '\\' => b'\\',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\0'..='\u{1f}' => {
            let code = character as usize;
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]]);
            return;
        }
        _ => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// How many bytes of `text` come before the first one that ends a string or needs a closer look.
fn plain_prefix(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\').unwrap_or(text.len())
}
