//! Seeded commands over a few keys: mostly sensible ones, and every kind of late, repeated, forged
//! and senseless one.

use std::collections::BTreeMap;

use protocol::command::{Claim, Grant, Verdict};
use protocol::record::{OnUnknown, Retention, Terms};
use protocol::response::{StoredBody, StoredResponse};
use protocol::{
    Basis, Batch, Command, Decided, Fence, Fingerprint, HolderId, Millis, Outcome, RecordName,
    Timestamp, Token,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// How many old bases a sender may still hold.
const REMEMBERED: usize = 8;

pub(crate) struct Generator {
    rng: StdRng,
    now: u64,
    bases: Vec<Basis>,
    grants: BTreeMap<RecordName, Vec<Grant>>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Self { rng, now: 1_000_000, bases: vec![Basis::default()], grants: BTreeMap::new() }
    }

    /// The next entry, with at most `most` commands. Its stamp may lie behind the one before.
    pub(crate) fn batch(&mut self, most: usize) -> Batch {
        self.now += self.pick(&[0, 0, 1, 100, 700, 1500, 4000, 10_000]);
        let at = Timestamp::from_millis(self.now - self.pick(&[0, 0, 0, 900]));
        let count = self.rng.random_range(1..=most);
        Batch { at, commands: (0..count).map(|_| self.command()).collect() }
    }

    /// Remembers what was answered.
    pub(crate) fn learn(&mut self, batch: &Batch, decided: &[Decided]) {
        for (command, decided) in batch.commands.iter().zip(decided) {
            let grants = self.grants.entry(command.name().clone()).or_default();
            match &decided.outcome {
                Outcome::Granted { grant, .. } => grants.push(*grant),
                // An operator's fence, with the token that a curious holder may try under it.
                Outcome::Resolved { fence } => {
                    let token = grants.last().map_or(Token::new([0; 16]), |grant| grant.token);
                    grants.push(Grant { fence: *fence, token });
                }
                _ => {}
            }
            if self.bases.last() != Some(&decided.basis) {
                self.bases.push(decided.basis);
            }
        }
        let forgotten = self.bases.len().saturating_sub(REMEMBERED);
        self.bases.drain(..forgotten);
    }

    fn command(&mut self) -> Command {
        let name = RecordName::from_bytes(vec![self.pick(b"abc")]);
        match self.rng.random_range(0..100) {
            0..38 => Command::Claim(self.claim(name)),
            38..46 => {
                let lease = Millis::new(self.pick(&[0, 1000, 5000, 20_000]));
                Command::Renew { grant: self.grant(&name), lease, name }
            }
            46..60 => {
                let response = self.response();
                Command::Complete { grant: self.grant(&name), response, name }
            }
            60..66 => Command::Release { grant: self.grant(&name), name },
            66..73 => Command::Unknown { grant: self.grant(&name), name },
            73..81 => Command::Resolve {
                fence: self.grant(&name).fence,
                verdict: match self.rng.random_bool(0.4) {
                    true => Verdict::Completed(self.response()),
                    false => Verdict::Released,
                },
                by: "ann".to_owned(),
                reason: "checked".to_owned(),
                force: self.rng.random_bool(0.3),
                name,
            },
            81..85 => Command::Forget { fence: self.grant(&name).fence, name },
            85..90 => {
                Command::Revise { response: self.response(), operation: self.operation(), name }
            }
            _ => Command::Expire { name },
        }
    }

    fn claim(&mut self, name: RecordName) -> Claim {
        let attempt = self.pick(&[1_u8, 2, 3]);
        Claim {
            name,
            operation: self.operation(),
            holder: holder(attempt),
            seen: self.seen(),
            print: Fingerprint { version: 1, digest: [self.pick(&[1, 1, 1, 1, 2]); 32] }.into(),
            lease: Millis::new(self.pick(&[0, 2000, 3000, 5000, 10_000, 20_000])),
            terms: Terms {
                retention: match self.pick(&[1000, 8000, 30_000, 0]) {
                    0 => Retention::Forever,
                    millis => Retention::For(Millis::new(millis)),
                },
                on_unknown: match self.pick(&[0, 0, 12_000, 40_000, 90_000]) {
                    0 => OnUnknown::FailClosed,
                    millis => OnUnknown::Takeover { downstream_retention: Millis::new(millis) },
                },
                max_execution: Millis::new(self.pick(&[2000, 8000])),
            },
            token: Token::new(self.rng.random()),
        }
    }

    /// What a sender had seen: mostly the newest, sometimes less, nothing, or another epoch.
    fn seen(&mut self) -> Basis {
        let newest = *self.bases.last().expect("at least the empty basis");
        let time = Timestamp::from_millis(self.now - self.pick(&[0, 0, 0, 400, 1600, 5000]));
        match self.rng.random_range(0..20) {
            0..13 => Basis { time, ..newest },
            13..17 => Basis { time, ..*self.bases.choose(&mut self.rng).expect("a basis") },
            17..19 => Basis { index: 0, time, ..newest },
            _ => Basis { epoch: newest.epoch.wrapping_add(1), time, ..newest },
        }
    }

    /// Mostly the newest grant of the name, sometimes an old or a forged one.
    fn grant(&mut self, name: &RecordName) -> Grant {
        let forged = Grant { fence: Fence::new(0, 1), token: Token::new([0; 16]) };
        let grants = self.grants.get(name).map_or(&[][..], Vec::as_slice);
        match self.rng.random_range(0..20) {
            0..16 => grants.last().copied().unwrap_or(forged),
            16..19 => grants.choose(&mut self.rng).copied().unwrap_or(forged),
            _ => Grant { token: forged.token, ..grants.last().copied().unwrap_or(forged) },
        }
    }

    fn operation(&mut self) -> Option<String> {
        self.pick(&[None, None, None, Some("other")]).map(str::to_owned)
    }

    fn response(&mut self) -> StoredResponse {
        let body = StoredBody::Whole(vec![self.pick(&[1, 2, 3])]);
        StoredResponse { status: 200, headers: Vec::new(), body }
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        *values.choose(&mut self.rng).expect("something to choose from")
    }
}

pub(crate) fn holder(attempt: u8) -> HolderId {
    HolderId::of(b"random", &[attempt])
}
