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
    for profile in [&paypal, &draft] {
        assert_eq!((profile.scope, profile.echo_key), (KeyScope::Route, false));
    }
}

#[test]
fn keys_belong_to_the_account_where_the_provider_has_it_so() {
    let days = |days: u64| Retention::For(Millis::from_secs(days * 86_400));
    let stripe = read(&operation("profile = \"stripe\""));
    assert_eq!((stripe.key_max, stripe.retention, stripe.scope), (255, days(1), KeyScope::Account));
    let style = Style { errors: ErrorBody::Stripe, mismatch_status: StatusCode::BAD_REQUEST };
    assert_eq!((stripe.style, stripe.echo_key), (style, false));
    let adyen = read(&operation("profile = \"adyen\""));
    assert_eq!((adyen.key_max, adyen.retention, adyen.scope), (64, days(7), KeyScope::Account));
    let style = Style { errors: ErrorBody::Adyen, ..Style::DEFAULT };
    assert_eq!((adyen.style, adyen.echo_key), (style, true));
    for profile in [stripe, adyen] {
        assert_eq!(profile.headers, ["idempotency-key"]);
        assert_eq!((profile.quoted_keys, profile.replay), (false, ReplayMode::Snapshot));
    }
    // What is written outranks it.
    let own = read(&operation("profile = \"stripe\"\nscope = \"route\""));
    assert_eq!(own.scope, KeyScope::Route);
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
