//! The fields of a form.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The most fields that are put in order; browsers and servers bound forms well below it.
const FIELDS_MAX: usize = 4096;

/// A field's name and value, decoded.
pub(super) type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The fields of an `application/x-www-form-urlencoded` body, sorted by name; fields of one name
/// stay in their order. `None` when there are too many: such a body is compared as it is.
///
/// How a field is escaped does not matter, nor whether one without a value has a `=`. Fields are
/// bytes and not text, so that two bodies that are not UTF-8 differ where their bytes do.
pub(super) fn ordered_fields(body: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        if fields.len() == FIELDS_MAX {
            return None;
        }
        let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let value = pair.get(equals + 1..).unwrap_or_default();
        fields.push((decoded(&pair[..equals]), decoded(value)));
    }
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(fields)
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let spaced: Vec<u8> =
        text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(body: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ordered = ordered_fields(body.as_bytes()).unwrap();
        ordered.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn escapes_and_the_order_of_different_names_do_not_matter() {
        let same = ["a=1+2&b=%C3%A4", "b=%c3%a4&a=1%202", "&b=\u{e4}&&%61=1+2&"];
        for body in same {
            assert_eq!(fields(body), fields(same[0]), "{body}");
        }
        assert_eq!(fields("a"), fields("a="));
        assert_eq!(fields("a=b=c"), [("a".to_owned(), "b=c".to_owned())]);
    }

    #[test]
    fn what_a_reader_can_tell_differs() {
        for (one, other) in [
            ("a=1", "a=2"),
            ("a=1&a=2", "a=2&a=1"),
            ("a=1", "a=1&a=1"),
            ("a=1&b=2", "a=2&b=1"),
            ("a=%2B", "a=+"),
            ("a=%FF", "a=%FE"),
            ("a=%FF", "a=%EF%BF%BD"),
            ("a=1%26b=2", "a=1&b=2"),
            ("a=%zz", "a=zz"),
            ("A=1", "a=1"),
        ] {
            let (one_fields, other_fields) =
                (ordered_fields(one.as_bytes()), ordered_fields(other.as_bytes()));
            assert_ne!(one_fields, other_fields, "{one} and {other}");
        }
    }

    #[test]
    fn a_form_of_very_many_fields_is_not_put_in_order() {
        let body = |count: usize| vec!["a"; count].join("&").into_bytes();
        assert_eq!(ordered_fields(&body(FIELDS_MAX)).unwrap().len(), FIELDS_MAX);
        assert_eq!(ordered_fields(&body(FIELDS_MAX + 1)), None);
    }
}
