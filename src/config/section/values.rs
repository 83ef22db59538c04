//! Settings that are more than a text: numbers, spans of time, sizes, words, lists.

use std::ops::RangeInclusive;

use bytesize::ByteSize;
use protocol::Millis;
use toml::de::DeValue;

use super::{Located, Section};
use crate::config::duration::{duration_text, parse_duration};

impl<'a> Section<'a> {
    /// A whole number within a range.
    pub(in crate::config) fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<Located<u64>> {
        let found = self.raw(name)?;
        let DeValue::Integer(integer) = found.value else {
            return self.wrong_type(name, &found, "a whole number");
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(found.map(|_| number)),
            None => {
                let message = format!("\"{name}\" must be {} to {}", range.start(), range.end());
                self.findings.error(&found.at, "out-of-range", message);
                None
            }
        }
    }

    /// A span of time, written as a text with a unit.
    pub(in crate::config) fn duration(
        &self,
        name: &'static str,
        range: RangeInclusive<Millis>,
    ) -> Option<Located<Millis>> {
        const EXAMPLE: &str = "a duration with a unit, such as \"500ms\", \"10s\" or \"7d\"";
        let found = self.raw(name)?;
        let DeValue::String(text) = found.value else {
            return self.wrong_type(name, &found, EXAMPLE);
        };
        let Some(span) = parse_duration(text) else {
            self.findings.error(&found.at, "wrong-unit", format!("\"{name}\" must be {EXAMPLE}"));
            return None;
        };
        if !range.contains(&span) {
            let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
            let message = format!("\"{name}\" must be {least} to {most}");
            self.findings.error(&found.at, "out-of-range", message);
            return None;
        }
        Some(found.map(|_| span))
    }

    /// A number of bytes, written as a text with a unit.
    pub(in crate::config) fn size(
        &self,
        name: &'static str,
        most: ByteSize,
    ) -> Option<Located<ByteSize>> {
        const EXAMPLE: &str = "a size with a unit, such as \"64KiB\" or \"1MiB\"";
        let found = self.raw(name)?;
        let DeValue::String(text) = found.value else {
            return self.wrong_type(name, &found, EXAMPLE);
        };
        let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
        let Some(size) = text.parse::<ByteSize>().ok().filter(|_| has_unit) else {
            self.findings.error(&found.at, "wrong-unit", format!("\"{name}\" must be {EXAMPLE}"));
            return None;
        };
        if size > most {
            let message = format!("\"{name}\" must be at most {most}");
            self.findings.error(&found.at, "out-of-range", message);
            return None;
        }
        Some(found.map(|_| size))
    }

    /// One of a few words.
    pub(in crate::config) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Option<Located<T>> {
        let text = self.text(name)?;
        match choices.iter().find(|(word, _)| *word == text.value) {
            Some((_, choice)) => Some(text.map(|_| *choice)),
            None => {
                let words: Vec<String> =
                    choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                let message = format!("\"{name}\" must be {}", words.join(" or "));
                self.findings.error(&text.at, "wrong-value", message);
                None
            }
        }
    }

    /// A list of texts.
    pub(in crate::config) fn texts(&self, name: &'static str) -> Option<Vec<Located<&'a str>>> {
        let found = self.raw(name)?;
        let DeValue::Array(items) = found.value else {
            return self.wrong_type(name, &found, "a list of texts");
        };
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let located = Located { value: item.get_ref(), at: item.span(), own: found.own };
            match item.get_ref() {
                DeValue::String(text) => texts.push(located.map(|_| &**text)),
                _ => return self.wrong_type(name, &located, "a list of texts"),
            }
        }
        Some(texts)
    }
}
