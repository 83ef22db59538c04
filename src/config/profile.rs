//! Profiles: sets of defaults for what an operation's clients send and are answered.
//!
//! A profile is what the public documentation of a payment provider, or of the expired draft of the
//! convention, says of keys. Every term of it may be set otherwise, in the operation or in
//! `[defaults]`: what is written outranks what a profile presets.

use http::StatusCode;
use protocol::Millis;

use super::KeyScope;
use super::section::{Located, Section};
use crate::problem::{ErrorBody, Style};

/// A day: within it every client's retries end.
const DAY: Millis = Millis::from_secs(86_400);

/// What a repeat of a completed request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// The first outcome, as it was.
    Snapshot,
    /// The newest revision of the outcome.
    Latest,
    /// `409 replay-redirect` with the resource's `Location`; the first outcome where it had none.
    Redirect,
    /// The first outcome, and whether there is a newer revision.
    SnapshotFreshness,
}

impl ReplayMode {
    /// Every mode as a policy spells it.
    const WORDS: [(&'static str, Self); 4] = [
        ("snapshot", Self::Snapshot),
        ("latest", Self::Latest),
        ("redirect", Self::Redirect),
        ("snapshot+freshness", Self::SnapshotFreshness),
    ];

    /// The mode as a policy spells it.
    pub fn name(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(_, mode)| *mode == self);
        word.map_or("snapshot", |(word, _)| word)
    }
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// The convention, with problem+json.
    Default,
    /// Stripe's.
    Stripe,
    /// Adyen's.
    Adyen,
    /// PayPal's.
    Paypal,
    /// draft-ietf-httpapi-idempotency-key-header-07, to the letter.
    Draft07,
}

/// What a profile presets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preset {
    /// The header that brings the key, in lower case.
    pub(super) header: &'static str,
    /// The longest key in bytes.
    pub(super) key_max: usize,
    /// Whether a key must be an RFC 9651 String, in quotes.
    pub(super) quoted_keys: bool,
    /// Whether answers say the key that they are for.
    pub(super) echo_key: bool,
    /// How a key belongs to an operation.
    pub(super) scope: KeyScope,
    /// How long an outcome is kept; `None`: the provider has no one answer, so it must be said.
    pub(super) retention: Option<Millis>,
    replay: ReplayMode,
    style: Style,
}

impl Profile {
    /// Every profile as a policy spells it.
    const WORDS: [(&'static str, Self); 5] = [
        ("default", Self::Default),
        ("stripe", Self::Stripe),
        ("adyen", Self::Adyen),
        ("paypal", Self::Paypal),
        ("draft-07", Self::Draft07),
    ];

    /// The only place that says what a profile is.
    pub(super) fn preset(self) -> Preset {
        let default = Preset {
            header: "idempotency-key",
            key_max: 255,
            quoted_keys: false,
            echo_key: false,
            scope: KeyScope::Route,
            retention: Some(DAY),
            replay: ReplayMode::Snapshot,
            style: Style::DEFAULT,
        };
        let style = |errors| Style { errors, ..Style::DEFAULT };
        match self {
            Self::Default => default,
            Self::Stripe => Preset {
                scope: KeyScope::Account,
                style: Style {
                    errors: ErrorBody::Stripe,
                    mismatch_status: StatusCode::BAD_REQUEST,
                },
                ..default
            },
            Self::Adyen => Preset {
                key_max: 64,
                echo_key: true,
                scope: KeyScope::Account,
                retention: Some(DAY.times(7)),
                style: style(ErrorBody::Adyen),
                ..default
            },
            Self::Paypal => Preset {
                header: "paypal-request-id",
                key_max: 108,
                retention: None,
                replay: ReplayMode::Latest,
                style: style(ErrorBody::Paypal),
                ..default
            },
            Self::Draft07 => Preset { quoted_keys: true, retention: None, ..default },
        }
    }

    /// The profile as a policy spells it.
    pub fn name(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(_, profile)| *profile == self);
        word.map_or("default", |(word, _)| word)
    }
}

/// The operation's profile.
pub(super) fn profile(section: &Section<'_>) -> Option<Profile> {
    let profile = section.choice("profile", &Profile::WORDS);
    Some(section.settled("profile", profile, Profile::Default)?.value)
}

/// Notes that a retention must be set, since the profile has none.
pub(super) fn needs_retention(section: &Section<'_>, profile: Profile) {
    let message = format!(
        "the profile \"{}\" presets no \"retention\", since what it follows names none: set one",
        profile.name()
    );
    section.findings.error(&section.place("profile"), "profile-retention", message);
}

/// How clients are told of problems.
pub(super) fn style(section: &Section<'_>, profile: Profile) -> Option<Style> {
    let preset = profile.preset().style;
    let words = ErrorBody::ALL.map(|body| (body.name(), body));
    let errors = section.choice("error_body", &words);
    let errors = section.settled("error_body", errors, preset.errors);
    let status = section.number("mismatch_status", 400..=499);
    let preset_status = u64::from(preset.mismatch_status.as_u16());
    let mismatch_status = match section.settled("mismatch_status", status, preset_status)?.value {
        400 => StatusCode::BAD_REQUEST,
        422 => StatusCode::UNPROCESSABLE_ENTITY,
        _ => {
            section.wrong_value("mismatch_status", "must be 422 or 400");
            return None;
        }
    };
    Some(Style { errors: errors?.value, mismatch_status })
}

/// What a repeat is answered with. `money` on an operation outranks `[defaults]` and the profile,
/// but not what the operation says itself, which must then not be the newest state: what was
/// answered about a payment must be answered again.
pub(super) fn replay(
    section: &Section<'_>,
    profile: Profile,
    money: &Located<bool>,
) -> Option<ReplayMode> {
    let preset = if money.value { ReplayMode::Snapshot } else { profile.preset().replay };
    let given = section.choice("replay", &ReplayMode::WORDS);
    let settled = section.settled("replay", given, preset)?;
    if money.value && money.own && !settled.own {
        return Some(ReplayMode::Snapshot);
    }
    if money.value && settled.value == ReplayMode::Latest {
        let label = &section.label;
        let message =
            format!("{label}: \"replay\" = \"latest\" is refused where \"money\" is true");
        section.findings.error(&settled.at, "money-replay", message);
        return None;
    }
    Some(settled.value)
}
