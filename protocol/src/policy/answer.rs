//! What an upstream's answer means for the key.

use std::collections::BTreeMap;

use thiserror::Error;

/// What an upstream's answer means for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is the outcome: it is stored, and a retry gets it again.
    Store,
    /// The request was not executed: it passes, the key is free and a retry runs.
    Release,
    /// It does not tell whether the request was executed: it is never stored, and the operation's
    /// `on_unknown` decides.
    Unknown,
}

impl Effect {
    /// As a policy spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Release => "release",
            Self::Unknown => "unknown",
        }
    }
}

/// Who makes the answers that come from the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswersFrom {
    /// The application alone.
    #[default]
    Application,
    /// The application, or something in front of it (CDN, load balancer, mesh) that makes up 5xx
    /// answers of its own: nobody can tell a business 500 from a dying process.
    Proxy,
}

/// What an operation's statuses mean where they do not mean the usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreRules {
    exact: BTreeMap<u16, Effect>,
    /// By the first digit of the status.
    classes: BTreeMap<u16, Effect>,
    idempotent_downstream: bool,
    /// Whether nothing but a success may be stored.
    only_success: bool,
}

/// Why a rule cannot stand in [`StoreRules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreRuleError {
    /// It is about no status and no class.
    #[error("it must be about a status from 200 to 599, or about 2xx, 3xx, 4xx or 5xx")]
    Statuses,
    /// It names no effect.
    #[error("it must say \"store\", \"release\" or \"unknown\"")]
    Effect,
    /// The status says that nothing was executed, or that nobody knows.
    #[error("{0} can never be stored")]
    NeverStored(u16),
    /// Only a success is an outcome here.
    #[error(
        "only 2xx is stored where \"natural_key\" makes the key: what was refused may be \
             corrected under the same key"
    )]
    OnlySuccess,
    /// Whoever sent the status may have passed the request on.
    #[error("{0} can be released only where every downstream is idempotent")]
    NeedsIdempotentDownstream(u16),
}

impl StoreRules {
    /// No rules, for an operation whose every downstream is idempotent or not.
    pub fn new(idempotent_downstream: bool) -> Self {
        Self { idempotent_downstream, ..Self::default() }
    }

    /// The rules of an operation whose keys are natural: nothing but a success is stored, so that a
    /// request that was refused can be corrected and sent again. A definite 4xx frees the key; with
    /// 300 to 306 and 500 nobody can tell.
    pub fn only_success(idempotent_downstream: bool) -> Self {
        let classes = [(3, Effect::Unknown), (4, Effect::Release), (5, Effect::Unknown)];
        Self { classes: classes.into(), only_success: true, ..Self::new(idempotent_downstream) }
    }

    /// Adds a rule as a policy writes it: `"404"` or `"4xx"`, and what that means. An exact status
    /// beats its class, in any order; a class never reaches a status that is not usually stored,
    /// but for 500.
    ///
    /// # Errors
    /// When the rule cannot be read, or is forbidden; the rules are then as before.
    pub fn set(&mut self, statuses: &str, effect: &str) -> Result<(), StoreRuleError> {
        let effect = match effect {
            "store" => Effect::Store,
            "release" => Effect::Release,
            "unknown" => Effect::Unknown,
            _ => return Err(StoreRuleError::Effect),
        };
        match statuses.as_bytes() {
            [class @ b'2'..=b'5', b'x', b'x'] => {
                if self.only_success && effect == Effect::Store && *class != b'2' {
                    return Err(StoreRuleError::OnlySuccess);
                }
                self.classes.insert(u16::from(class - b'0'), effect);
            }
            [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] => {
                let status = statuses.parse().map_err(|_| StoreRuleError::Statuses)?;
                self.check(status, effect)?;
                self.exact.insert(status, effect);
            }
            _ => return Err(StoreRuleError::Statuses),
        }
        Ok(())
    }

    /// The rules as a policy writes them: `"404"` or `"4xx"`, and what that means.
    pub fn entries(&self) -> impl Iterator<Item = (String, Effect)> {
        let classes = self.classes.iter().map(|(class, effect)| (format!("{class}xx"), *effect));
        let exact = self.exact.iter().map(|(status, effect)| (status.to_string(), *effect));
        classes.chain(exact)
    }

    /// What the rules say about a status; `None`: nothing.
    fn effect(&self, status: u16) -> Option<Effect> {
        let class = || self.classes.get(&(status / 100)).filter(|_| is_in_reach_of_class(status));
        self.exact.get(&status).or_else(class).copied()
    }

    /// Checks that `status` may have this effect, whoever says so.
    fn check(&self, status: u16, effect: Effect) -> Result<(), StoreRuleError> {
        match (status, effect) {
            (_, Effect::Store) if is_never_stored(status) => {
                Err(StoreRuleError::NeverStored(status))
            }
            (_, Effect::Store) if self.only_success && status / 100 != 2 => {
                Err(StoreRuleError::OnlySuccess)
            }
            (502 | 504, Effect::Release) if !self.idempotent_downstream => {
                Err(StoreRuleError::NeedsIdempotentDownstream(status))
            }
            _ => Ok(()),
        }
    }
}

/// What a whole answer of the upstream means for the key.
///
/// `said` is the value of its `Idempotency-Outcome`, `retry_after` whether it has that field, and
/// `attempt_no` is 1 unless an earlier attempt may have run. The upstream's own word counts first,
/// since it is about this very answer; where it cannot be read or may not be followed, the answer
/// is judged as if nothing had been said.
pub fn classify(
    rules: &StoreRules,
    answers_from: AnswersFrom,
    status: u16,
    said: Option<&[u8]>,
    retry_after: bool,
    attempt_no: u32,
) -> Effect {
    if !(200..=599).contains(&status) {
        return Effect::Unknown;
    }
    let word = said.and_then(effect_of_word);
    if let Some(effect) = word.filter(|effect| rules.check(status, *effect).is_ok()) {
        return effect;
    }
    // The upstream's own key layer may be saying that the first attempt is still in progress.
    if attempt_no > 1 && matches!(status, 409 | 425) {
        return Effect::Unknown;
    }
    match rules.effect(status) {
        Some(Effect::Store) if answers_from == AnswersFrom::Proxy && status >= 500 => {
            Effect::Unknown
        }
        Some(effect) => effect,
        None => usual_effect(answers_from, status, retry_after),
    }
}

/// What a status from 200 to 599 means where nobody says otherwise.
fn usual_effect(answers_from: AnswersFrom, status: u16, retry_after: bool) -> Effect {
    match (status, answers_from) {
        (307 | 308 | 401 | 407 | 421 | 425 | 429, _) => Effect::Release,
        (408, _) => Effect::Unknown,
        (500, AnswersFrom::Application) => Effect::Store,
        (503, AnswersFrom::Application) => Effect::Release,
        (503, AnswersFrom::Proxy) if retry_after => Effect::Release,
        (500.., _) => Effect::Unknown,
        // Statuses that nobody has defined mean what the first of their class means (RFC 9110, 15).
        _ => Effect::Store,
    }
}

/// Whether a rule about a class holds for this status of it: not where the status itself says that
/// nothing was executed, or that nobody knows.
fn is_in_reach_of_class(status: u16) -> bool {
    let usual = usual_effect(AnswersFrom::Application, status, false);
    usual == Effect::Store
}

/// What the upstream says of its answer in `Idempotency-Outcome`; `None` for any other text.
fn effect_of_word(said: &[u8]) -> Option<Effect> {
    let words: [(&[u8], Effect); 3] =
        [(b"final", Effect::Store), (b"retryable", Effect::Release), (b"unknown", Effect::Unknown)];
    let said = said.trim_ascii();
    words.into_iter().find(|(word, _)| said.eq_ignore_ascii_case(word)).map(|(_, effect)| effect)
}

/// Whether a status is never the outcome of a request, whatever a policy or a caller says: it tells
/// that nothing was decided, or that nobody knows.
pub const fn is_never_stored(status: u16) -> bool {
    matches!(status, 401 | 429 | 502..=504)
}

#[cfg(test)]
mod tests;
