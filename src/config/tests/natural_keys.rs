//! Natural keys: what makes them, and what follows from that.

use super::*;

const KEYED: &str = "natural_key = [\"/order_id\", \"/lines/0/sku\"]\n";

fn read(lines: &str) -> Operation {
    let policy = policy(&operation(&format!("{KEYED}{lines}"))).unwrap();
    policy.matching(&Method::POST, "/v1/x").operation.clone()
}

fn refused(lines: &str, rule: &str) {
    assert_refused(&operation(&format!("{KEYED}{lines}")), rule);
}

#[test]
fn members_are_read_in_their_order() {
    let members: Vec<_> = read("").natural_key.iter().map(ToString::to_string).collect();
    assert_eq!(members, ["/order_id", "/lines/0/sku"]);
    for (lines, rule) in [
        ("natural_key = [\"order_id\"]", "wrong-value"),
        // The whole body is no key: two customers who order the same have two orders.
        ("natural_key = [\"\"]", "wrong-value"),
        ("natural_key = [\"/a\", \"/a\"]", "duplicate"),
        ("natural_key = \"/a\"", "wrong-type"),
        ("natural_key = [1]", "wrong-type"),
    ] {
        assert_refused(&operation(lines), rule);
    }
    let members: Vec<_> = (0..9).map(|at| format!("\"/{at}\"")).collect();
    let many =
        |count: usize| operation(&format!("natural_key = [{}]", members[..count].join(", ")));
    assert!(policy(&many(8)).is_ok());
    assert_refused(&many(9), "wrong-value");
}

#[test]
fn for_ever_is_for_natural_keys_only() {
    assert_eq!(read("retention = \"forever\"").retention, Retention::Forever);
    assert_eq!(read("retention = \"forever\"\nmoney = true").retention, Retention::Forever);
    assert_eq!(read("").retention, Retention::For(Millis::from_secs(86_400)));
    let forever = "[defaults]\nretention = \"forever\"\n";
    assert_refused(forever, "forever-without-natural-key");
    assert_refused(&operation("retention = \"forever\""), "forever-without-natural-key");
    refused("retention = \"for ever\"", "wrong-unit");
    // A takeover would call a downstream that has forgotten the key long ago.
    let downstream = "downstream = [{ idempotent = true, retention = \"30d\" }]\n";
    refused(
        &format!("retention = \"forever\"\non_unknown = \"takeover\"\n{downstream}"),
        "retention-above-downstream",
    );
}

#[test]
fn only_a_success_is_an_outcome() {
    refused("store = { \"404\" = \"store\" }", "forbidden-store");
    refused("store = { \"4xx\" = \"store\" }", "forbidden-store");
    let entries: Vec<_> = read("store = { \"404\" = \"unknown\" }").store.entries().collect();
    let entries: Vec<_> = entries.iter().map(|(key, it)| (key.as_str(), it.as_str())).collect();
    let expected = [("3xx", "unknown"), ("4xx", "release"), ("5xx", "unknown"), ("404", "unknown")];
    assert_eq!(entries, expected);
}

/// A natural key is no text that a header could carry, so that downstreams get a derived one.
#[test]
fn downstreams_must_take_derived_keys() {
    refused("downstream = [{ key_max = 35 }]", "derived-key-above-downstream");
    read("downstream = [{ key_max = 36 }]\nkey_max = 200");
}

#[test]
fn what_makes_the_key_is_a_part_of_the_naming() {
    let naming = |lines: &str| policy(&operation(lines)).unwrap().naming();
    let namings = [
        naming(""),
        naming("natural_key = [\"/a\"]"),
        naming("natural_key = [\"/a\", \"/b\"]"),
        naming("natural_key = [\"/b\", \"/a\"]"),
    ];
    for (index, one) in namings.iter().enumerate() {
        assert!(!namings[..index].contains(one), "{index}");
    }
    assert_eq!(naming(""), naming("natural_key = []"));
}
