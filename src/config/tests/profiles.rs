//! Profiles: what they preset, and what outranks them.

use crate::problem::ErrorBody;

use super::*;

fn read(text: &str) -> Operation {
    policy(text).unwrap().matching(&Method::POST, "/v1/x").operation.clone()
}

#[test]
fn a_profile_presets_what_its_provider_documents() {
    let week = "retention = \"7d\"\n";
    let paypal = read(&operation(&format!("profile = \"paypal\"\n{week}")));
    assert_eq!(paypal.headers, ["paypal-request-id"]);
    assert_eq!((paypal.key_max, paypal.quoted_keys), (108, false));
    assert_eq!(paypal.replay, ReplayMode::Latest);
    assert_eq!(paypal.style.errors, ErrorBody::Paypal);
    let draft = read(&operation(&format!("profile = \"draft-07\"\n{week}")));
    assert_eq!(draft.headers, ["idempotency-key"]);
    assert_eq!((draft.key_max, draft.quoted_keys), (255, true));
    assert_eq!((draft.replay, draft.style), (ReplayMode::Snapshot, Style::DEFAULT));
}

#[test]
fn a_profile_without_a_retention_needs_one() {
    for profile in ["paypal", "draft-07"] {
        let line = format!("profile = \"{profile}\"");
        let found = findings(&operation(&line));
        assert!(found.contains("policy.toml:3:11: error[profile-retention]"), "{found}");
        assert_refused(&format!("[defaults]\n{line}\n"), "profile-retention");
        // It may stand in the defaults, or come with money.
        let defaults = format!("[defaults]\nretention = \"2d\"\n{}", operation(&line));
        assert_eq!(read(&defaults).retention, Retention::For(Millis::from_secs(2 * 86_400)));
        let money = read(&operation(&format!("{line}\nmoney = true")));
        assert_eq!(money.retention, Retention::For(Millis::from_secs(7 * 86_400)));
    }
}

#[test]
fn money_is_never_answered_with_the_newest_state() {
    assert_refused(&operation("money = true\nreplay = \"latest\""), "money-replay");
    assert_refused("[defaults]\nmoney = true\nreplay = \"latest\"\n", "money-replay");
    let of = |text: &str| read(text).replay;
    assert_eq!(of(&operation("money = true\nprofile = \"paypal\"")), ReplayMode::Snapshot);
    let defaults = format!("[defaults]\nreplay = \"latest\"\n{}", operation("money = true"));
    assert_eq!(of(&defaults), ReplayMode::Snapshot);
    let redirect = operation("money = true\nreplay = \"redirect\"");
    assert_eq!(of(&redirect), ReplayMode::Redirect);
}

#[test]
fn a_style_is_one_of_few() {
    assert_refused(&operation("error_body = \"xml\""), "wrong-value");
    assert_refused(&operation("mismatch_status = 409"), "wrong-value");
    assert_refused(&operation("replay = \"newest\""), "wrong-value");
    assert_refused(&operation("profile = \"square\""), "wrong-value");
    let style = read(&operation("error_body = \"adyen\"\nmismatch_status = 400")).style;
    assert_eq!((style.errors, style.mismatch_status.as_u16()), (ErrorBody::Adyen, 400));
}
