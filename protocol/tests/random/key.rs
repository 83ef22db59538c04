//! One key of the naive idea.

use protocol::command::Grant;
use protocol::record::{OnUnknown, Record, Retention, State, Terms};
use protocol::{Fence, Fingerprint, HolderId, StoredResponse, Token};

/// The end of what has none.
pub(crate) const NEVER: u64 = u64::MAX;

/// What is known of one key. Everything is kept for ever; the booleans say what still counts.
#[derive(Clone, Default, Debug)]
pub(crate) struct Key {
    /// There is a generation.
    pub(crate) begun: bool,
    /// Its lease is known to be over, or its holder gave up.
    pub(crate) opened: bool,
    /// Nobody may take over any more.
    pub(crate) closed: bool,
    /// Its outcome is known.
    pub(crate) done: bool,
    /// An operator removed the outcome.
    pub(crate) forgotten: bool,
    /// There is a tombstone.
    pub(crate) buried: bool,
    /// An earlier attempt may have run.
    pub(crate) tainted: bool,
    /// The current grant was not given back.
    pub(crate) held: bool,
    pub(crate) holder: Option<HolderId>,
    pub(crate) generation: u64,
    pub(crate) fence: u64,
    pub(crate) token: Option<Token>,
    pub(crate) print: Option<Fingerprint>,
    pub(crate) operation: Option<String>,
    pub(crate) terms: Option<Terms>,
    pub(crate) first: u64,
    pub(crate) granted: u64,
    pub(crate) lease: u64,
    pub(crate) lease_end: u64,
    pub(crate) attempts: u32,
    /// The entry that made the key claimable.
    pub(crate) mark: u64,
    /// When the outcome, the forgotten record or the tombstone is gone.
    pub(crate) end: u64,
    pub(crate) completed: u64,
    pub(crate) answers: Vec<StoredResponse>,
    /// When operators decided something that is still remembered.
    pub(crate) decided: Vec<u64>,
}

impl Key {
    /// What is held for the key.
    pub(crate) fn summary(&self) -> Option<Held> {
        let kind = match self {
            Key { buried: true, .. } => "tombstone",
            Key { begun: false, .. } => return None,
            Key { forgotten: true, .. } => "forgotten",
            Key { done: true, .. } => "done",
            Key { closed: true, .. } => "indeterminate",
            Key { opened: true, .. } => "over",
            _ => "in flight",
        };
        let live = |number: u64| if self.buried { 0 } else { number };
        let when = match kind {
            "in flight" => self.lease_end,
            "over" => self.mark,
            "indeterminate" => 0,
            _ => self.end,
        };
        Some(Held {
            kind,
            numbers: [live(self.generation), live(self.fence), live(self.attempts.into()), when],
            flags: [!self.buried && self.tainted, !self.buried && self.held],
            answers: if kind == "done" { self.answers.clone() } else { Vec::new() },
            decisions: self.decided.len(),
        })
    }

    /// Does what time asks for; whether that was anything.
    pub(crate) fn pass_time(&mut self, now: u64, index: u64) -> bool {
        if self.buried {
            let gone = now > self.end;
            if gone {
                *self = Key::default();
            }
            return gone;
        }
        if !self.begun {
            return false;
        }
        if self.done || self.forgotten {
            let gone = now >= self.end;
            if gone {
                self.bury(now, index);
            }
            return gone;
        }
        if self.closed || !self.lease_over(now) {
            return false;
        }
        if self.opened && self.takeover_fits(now, self.lease) {
            return false;
        }
        self.open(now, index);
        true
    }

    /// From now on another attempt may take over, or nobody may.
    pub(crate) fn open(&mut self, now: u64, index: u64) {
        self.closed |= !self.takeover_fits(now, self.lease);
        self.opened = true;
        self.mark = index;
    }

    pub(crate) fn bury(&mut self, now: u64, index: u64) {
        let keep = match self.terms.expect("terms").retention {
            Retention::Forever => NEVER,
            Retention::For(span) => span.get(),
        };
        let audited = self.decided.last().map_or(0, |decided| decided.saturating_add(keep));
        let end = audited.max(now + 7500);
        let decided = std::mem::take(&mut self.decided);
        *self = Key { buried: true, mark: index, end, decided, ..Key::default() };
    }

    pub(crate) fn finish(&mut self, now: u64, response: &StoredResponse) {
        self.done = true;
        self.completed = now;
        self.answers = vec![response.clone()];
        self.end = match self.terms.expect("terms").retention {
            Retention::Forever => NEVER,
            Retention::For(span) => now + span.get(),
        };
    }

    /// Whether a holder's command about unfinished work is not to be heard.
    pub(crate) fn silent(&self, grant: &Grant) -> bool {
        !self.begun || self.done || self.forgotten || !self.held || !self.proves(grant)
    }

    pub(crate) fn proves(&self, grant: &Grant) -> bool {
        Fence::from_number(self.fence) == grant.fence && self.token == Some(grant.token)
    }

    pub(crate) fn lease_over(&self, now: u64) -> bool {
        self.opened || self.closed || now >= self.lease_end
    }

    pub(crate) fn takeover_fits(&self, now: u64, lease: u64) -> bool {
        match self.terms.expect("terms").on_unknown {
            OnUnknown::FailClosed => false,
            OnUnknown::Takeover { downstream_retention } => {
                let end = self.first + downstream_retention.get();
                now + lease + self.max_execution() <= end
            }
        }
    }

    pub(crate) fn max_execution(&self) -> u64 {
        self.terms.map_or(0, |terms| terms.max_execution.get())
    }
}

/// What is held for a key, as far as the naive idea knows it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Held {
    kind: &'static str,
    numbers: [u64; 4],
    flags: [bool; 2],
    answers: Vec<StoredResponse>,
    decisions: usize,
}

impl Held {
    /// What a record of the machine holds, in the naive idea's terms.
    pub(crate) fn of(record: &Record) -> Self {
        let live = match record {
            Record::Live(live) => live,
            Record::Tombstone(tombstone) => {
                let when = tombstone.keep_until.as_millis();
                return Self {
                    kind: "tombstone",
                    numbers: [0, 0, 0, when],
                    flags: [false, false],
                    answers: Vec::new(),
                    decisions: tombstone.history.len(),
                };
            }
        };
        let mut answers = Vec::new();
        let (kind, when) = match &live.state {
            State::InFlight { lease_until } => ("in flight", lease_until.as_millis()),
            State::Over { watermark } => ("over", watermark.map_or(0, |mark| mark.index)),
            State::Indeterminate { .. } => ("indeterminate", 0),
            State::Done { retain_until, revisions, .. } => {
                answers = revisions.iter().map(|revision| revision.response.clone()).collect();
                ("done", retain_until.map_or(NEVER, |until| until.as_millis()))
            }
            State::Forgotten { until } => ("forgotten", until.as_millis()),
        };
        let (generation, fence) = (live.id.as_number(), live.fence.as_number());
        Self {
            kind,
            numbers: [generation, fence, live.attempts.into(), when],
            flags: [live.tainted, live.holder.is_some()],
            answers,
            decisions: live.history.len(),
        }
    }
}
