//! Shadow mode: what would have been said of requests that all go to the upstream.
//!
//! An operation in this mode enforces nothing. Its requests pass, and a copy of each body is looked
//! at once it has gone by: the verdict is counted and logged. It rests on what this process has
//! seen since its start, in a table of bounded size: no shard is asked, so nothing waits for one.
//! Repeats that reach different gateways are therefore not found, and counts are lower bounds.

mod seen;
mod tee;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::response;
use protocol::Millis;
use protocol::fingerprint::OutlineKey;
use protocol::policy::Effect;
use protocol::record::Retention;
use sha2::{Digest, Sha256};

use self::seen::{ID_BYTES, Id, Seen, Ticket};
pub(crate) use self::tee::tee;
use super::keeping::Keeping;
use super::{Gateway, metrics, named, request};
use crate::config::{Matched, Mode, Operation};
use crate::judge::Judge;
use crate::problem::Problem;
use crate::subject::{Described, Subject, What};
use crate::tenant::Identity;

/// Within what time two equal requests without a key are taken for one that was sent twice: longer
/// than clients repeat by themselves, shorter than people order the same again on purpose.
const TWIN_WINDOW: Duration = Duration::from_secs(60);

/// What would have been said of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It would have run.
    New,
    /// It would have been answered with the stored response.
    Replay,
    /// It would have been refused, with this code.
    Refused(&'static str),
    /// It brings no key and would have run.
    Keyless,
    /// It brings no key, and is like another without a key of moments ago.
    KeylessTwin,
    /// Its body did not go by whole.
    Unobserved,
}

impl Verdict {
    /// As it stands in the metric.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replay => "replay",
            Self::Refused(code) => code,
            Self::Keyless => "keyless",
            Self::KeylessTwin => "keyless-twin",
            Self::Unobserved => "unobserved",
        }
    }
}

/// What the requests of this process were, as far as shadow mode needs it.
#[derive(Default)]
pub(crate) struct Shadow {
    seen: Mutex<Seen>,
}

/// What is observed of one request. It may be dropped at any time.
pub(crate) struct Watch<J: Judge> {
    gateway: Gateway<J>,
    head: Described,
    identity: Result<Identity, Problem>,
    /// The request's part as the one that would have run, until its outcome is known.
    ticket: Mutex<Option<(Ticket, Keeping, Retention)>>,
}

/// Whether requests of this operation are observed only.
pub(crate) fn is_on(operation: &Operation) -> bool {
    operation.mode == Mode::Shadow
}

impl Shadow {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder panics")
    }
}

impl<J: Judge> Watch<J> {
    /// Watches a request with this head, whose body is still to come.
    pub(crate) fn new(
        gateway: Gateway<J>,
        head: Described,
        identity: Result<Identity, Problem>,
    ) -> Arc<Self> {
        Arc::new(Self { gateway, head, identity, ticket: Mutex::default() })
    }

    /// The most bytes of a body that are looked at.
    pub(crate) fn limit(&self) -> u64 {
        self.head.limit
    }

    /// The body has gone by: this is it, or `None` where it was larger than a protected request's
    /// may be.
    pub(crate) fn went_by(&self, body: Option<Bytes>) {
        let verdict = match body {
            None => Verdict::Refused(crate::problem::Code::BodyTooLarge.name()),
            Some(body) => {
                self.verdict(body).unwrap_or_else(|problem| Verdict::Refused(problem.code().name()))
            }
        };
        self.count(verdict);
    }

    /// The body has not gone by as a whole.
    pub(crate) fn broke_off(&self) {
        self.count(Verdict::Unobserved);
    }

    /// The upstream has begun an answer, which would have decided what becomes of the key.
    pub(crate) fn answered(&self, head: &response::Parts) {
        let Some((ticket, keeping, retention)) = self.take() else { return };
        let now = self.gateway.shared.judge.boot();
        let mut seen = self.gateway.shared.shadow.seen();
        match keeping.effect(head, 1) {
            Effect::Store => seen.complete(ticket, until(now, retention)),
            Effect::Release => seen.release(ticket),
            Effect::Unknown => seen.give_up(ticket),
        }
    }

    /// Nothing was sent, so the key would be free again.
    pub(crate) fn unsent(&self) {
        if let Some((ticket, ..)) = self.take() {
            self.gateway.shared.shadow.seen().release(ticket);
        }
    }

    fn take(&self) -> Option<(Ticket, Keeping, Retention)> {
        self.ticket.lock().expect("no holder panics").take()
    }

    fn matched(&self) -> Matched<'_> {
        let path = self.head.target.split('?').next().unwrap_or("/");
        self.gateway.shared.policy.matching(&self.head.method, path)
    }

    fn verdict(&self, body: Bytes) -> Result<Verdict, Problem> {
        let (matched, shared) = (self.matched(), &self.gateway.shared);
        let operation = matched.operation;
        let identity = self.identity.as_ref().map_err(Clone::clone)?;
        request::refuse_two_types(&self.head.headers)?;
        let described = Described { body, ..self.head.clone() };
        let sub_account = described.sub_account(&operation.scope_by)?;
        let scope = matched.scope(&identity.tenant, &identity.credential, sub_account);
        let keyed = request::brings_key(&described.headers, &operation.headers);
        let natural = !operation.natural_key.is_empty();
        let needs_key = natural || (operation.required && matched.listed);
        let keyless = !(keyed || needs_key);
        let (id, name) = if keyless {
            (None, protocol::RecordName::from_bytes(Vec::new()))
        } else {
            let sent = match natural {
                true => None,
                false => Some(request::sent_key(&described.headers, operation)?),
            };
            let (name, _) = named(&scope, sent, &described, operation)?;
            (Some(id(&[name.as_bytes()])), name)
        };
        let key = OutlineKey::new(&shared.judge.outline_secret(), &name);
        let print = Subject::new(What::Request(described), key).print(&operation.fingerprint)?;
        let (now, digest) = (shared.judge.boot(), print.fingerprint.digest);
        let Some(id) = id else {
            let parts: [&[u8]; 3] = [&identity.qualified(), matched.name.as_bytes(), &digest];
            let twin = shared.shadow.seen().twin(id_of_keyless(&parts), now, TWIN_WINDOW);
            return Ok(if twin { Verdict::KeylessTwin } else { Verdict::Keyless });
        };
        let until = now.saturating_add(span(operation.max_execution));
        let (verdict, ticket) = shared.shadow.seen().claim(id, digest, now, until);
        if let Some(ticket) = ticket {
            let keeping = Keeping::new(operation, shared.settings.answers_from);
            let held = Some((ticket, keeping, operation.retention));
            *self.ticket.lock().expect("no holder panics") = held;
        }
        Ok(verdict)
    }

    fn count(&self, verdict: Verdict) {
        let matched = self.matched();
        let operation = if matched.listed { matched.operation.name.clone() } else { String::new() };
        if !matches!(verdict, Verdict::New | Verdict::Keyless) {
            tracing::info!(%operation, verdict = verdict.label(), "shadow mode");
        }
        metrics::shadowed(operation, verdict.label());
    }
}

/// A request whose client left, or whose upstream broke off, may have been executed.
impl<J: Judge> Drop for Watch<J> {
    fn drop(&mut self) {
        if let Some((ticket, ..)) = self.take() {
            self.gateway.shared.shadow.seen().give_up(ticket);
        }
    }
}

/// Identifies what has a name, and what has none but is equal in these parts; never one as the
/// other.
fn id(parts: &[&[u8]]) -> Id {
    digest(b"key", parts)
}

fn id_of_keyless(parts: &[&[u8]]) -> Id {
    digest(b"twin", parts)
}

fn digest(kind: &[u8], parts: &[&[u8]]) -> Id {
    let mut digest = Sha256::new();
    for part in [kind].iter().chain(parts) {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let whole: [u8; 32] = digest.finalize().into();
    let mut id = [0; ID_BYTES];
    id.copy_from_slice(&whole[..ID_BYTES]);
    id
}

fn until(now: Duration, retention: Retention) -> Option<Duration> {
    match retention {
        Retention::For(kept) => Some(now.saturating_add(span(kept))),
        Retention::Forever => None,
    }
}

fn span(millis: Millis) -> Duration {
    Duration::from_millis(millis.get())
}
