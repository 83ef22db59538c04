//! Durations as texts with a unit, in files, in the claims API and in messages.

use protocol::Millis;

/// A duration in whole milliseconds, with a unit.
pub(crate) fn parse_duration(text: &str) -> Option<Millis> {
    let span = humantime::parse_duration(text).ok()?;
    if span.subsec_nanos() % 1_000_000 != 0 || !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    u64::try_from(span.as_millis()).ok().map(Millis::new)
}

/// A duration as it stands in messages.
pub(crate) fn duration_text(span: Millis) -> String {
    humantime::format_duration(span.to_std()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_whole_milliseconds() {
        assert_eq!(parse_duration("10s"), Some(Millis::from_secs(10)));
        assert_eq!(parse_duration("1h 30m"), Some(Millis::from_secs(5400)));
        assert_eq!(parse_duration("1.5s"), Some(Millis::new(1500)));
        assert_eq!(parse_duration("7d"), Some(Millis::from_secs(7 * 86_400)));
        for wrong in ["10", "0", "", "ten", "-1s", "10us", "1.0005s", "99999999999999999999s"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }
}
