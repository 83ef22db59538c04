//! The pairs of a query in an order that does not depend on how names are mixed.

/// The pairs of `query` whose decoded names count, as they are spelled, sorted by name; pairs of
/// one name stay in their order.
///
/// Names are compared in their decoded form, since the order of `a=1&%61=2` is one that an upstream
/// sees. Empty pairs (`a=1&&b=2`, or no query at all) say nothing and are left out.
pub(super) fn ordered_pairs(
    query: &str,
    counts: impl Fn(&str) -> bool,
) -> impl ExactSizeIterator<Item = &[u8]> {
    let name = |pair: &[u8]| form_urlencoded::parse(pair).next().map(|(name, _)| name.into_owned());
    let pairs = query.split('&').map(str::as_bytes).filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(Option<String>, &[u8])> = pairs
        .map(|pair| (name(pair), pair))
        .filter(|(name, _)| counts(name.as_deref().unwrap_or_default()))
        .collect();
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    pairs.into_iter().map(|(_, pair)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(query: &str) -> String {
        let pairs: Vec<_> = ordered_pairs(query, |_| true).map(String::from_utf8_lossy).collect();
        pairs.join("&")
    }

    #[test]
    fn only_the_order_of_equal_names_counts() {
        assert_eq!(ordered("b=1&a=2&c"), "a=2&b=1&c");
        assert_eq!(ordered("b=2&a=9&b=1"), "a=9&b=2&b=1");
        assert_ne!(ordered("b=1&b=2"), ordered("b=2&b=1"));
        assert_ne!(ordered("a=1&%61=2"), ordered("%61=2&a=1"), "these are one name");
    }

    #[test]
    fn pairs_stay_as_they_are_spelled() {
        assert_eq!(ordered("a=%7e&b=+"), "a=%7e&b=+");
        assert_ne!(ordered("a"), ordered("a="));
        assert_eq!(ordered("=1&a=b=c"), "=1&a=b=c");
    }

    #[test]
    fn names_that_do_not_count_are_left_out() {
        let pairs: Vec<_> = ordered_pairs("b=1&a%20c=2&a+c=3&d", |name| name != "a c").collect();
        assert_eq!(pairs, [&b"b=1"[..], b"d"]);
    }

    #[test]
    fn empty_pairs_say_nothing() {
        assert_eq!(ordered(""), "");
        assert_eq!(ordered("&a=1&&b=2&"), "a=1&b=2");
    }
}
