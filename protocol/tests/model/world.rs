//! The state of the modelled world: a shard, the gateways that execute, and what is between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::command::{Claim, Command};
use protocol::lease::{Fence, HolderId, Token};
use protocol::record::Record;
use protocol::response::{StoredBody, StoredResponse};
use protocol::scope::RecordName;
use protocol::time::{Millis, Timestamp};
use protocol::{Basis, Fingerprint};

use super::config::Config;
use super::gateway::{Gateway, Knowing};
use super::witness::Witness;

/// When the modelled world begins, in milliseconds of true time. Boot-time clocks show true time.
pub(crate) const BEGINNING: u64 = 1_000;

/// Milliseconds from the Unix epoch to the zero of true time.
const EPOCH: u64 = 1_000_000;

/// A state of the modelled world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// True time, in milliseconds.
    pub(crate) now: u64,
    /// The shard.
    pub(crate) shard: Shard,
    /// The gateways, one per execution.
    pub(crate) gateways: Vec<Gateway>,
    /// Requests to the shard that may still arrive.
    pub(crate) wire: BTreeMap<Address, Parcel>,
    /// A replica that lags behind, where there is one.
    pub(crate) replica: Option<Replica>,
    /// What may still happen.
    pub(crate) left: Budget,
    /// What has happened, as far as the properties need it.
    pub(crate) witness: Witness,
}

/// The shard: what the log has made of the key so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    /// The record.
    pub(crate) record: Option<Record>,
    /// Index of the last log entry.
    pub(crate) index: u64,
    /// Shard time.
    pub(crate) time: Timestamp,
    /// How many fences the shard has given.
    pub(crate) grants: u64,
    /// Which of the configured leaders leads.
    pub(crate) leader: usize,
}

/// A replica's copy of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Replica {
    /// The record as it was.
    pub(crate) record: Option<Record>,
    /// Shard time as it was.
    pub(crate) time: Timestamp,
    /// The last log entry that the replica has applied.
    pub(crate) index: u64,
    /// When a quorum confirmed that the replica was up to date, in true time.
    pub(crate) fresh_at: u64,
}

/// Who sent a request to the shard, and which one of theirs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    /// The gateway; `None` is an operator.
    pub(crate) sender: Option<usize>,
    /// The number of the request.
    pub(crate) number: u32,
}

/// A request to the shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parcel {
    /// What is asked.
    pub(crate) ask: Arc<Ask>,
    /// The generation that an operator means.
    pub(crate) meant: Option<Fence>,
    /// Whether it has arrived; it may then arrive once more.
    pub(crate) arrived: bool,
    /// Whether it takes its time.
    pub(crate) delayed: bool,
}

/// What a request asks of the shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// To decide a command.
    Command(Command),
    /// To read the record through the log.
    Read,
}

impl Parcel {
    /// A request that was just sent.
    pub(crate) fn new(ask: Arc<Ask>, meant: Option<Fence>) -> Self {
        Self { ask, meant, arrived: false, delayed: false }
    }
}

/// What may still happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Requests to the shard that are reported as unanswered.
    pub(crate) losses: u8,
    /// Requests to the shard that are refused without having been proposed.
    pub(crate) refusals: u8,
    /// Requests to the shard that arrive twice.
    pub(crate) duplicates: u8,
    /// Things that take their time.
    pub(crate) delays: u8,
    /// Times that a gateway sleeps past its time to wake.
    pub(crate) naps: u8,
    /// Gateways that crash.
    pub(crate) crashes: u8,
    /// Decisions of an operator.
    pub(crate) verdicts: u8,
    /// Outcomes that an operator removes.
    pub(crate) forgets: u8,
    /// Times that the replica catches up.
    pub(crate) catch_ups: u8,
}

impl World {
    /// The world as it begins.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            now: BEGINNING,
            shard: Shard::default(),
            gateways: config.requests.iter().map(|_| Gateway::idle()).collect(),
            wire: BTreeMap::new(),
            replica: (config.catch_ups > 0).then(Replica::default),
            left: Budget {
                losses: config.losses,
                refusals: config.refusals,
                duplicates: config.duplicates,
                delays: config.delays,
                naps: config.naps,
                crashes: config.crashes,
                verdicts: config.verdicts,
                forgets: config.forgets,
                catch_ups: config.catch_ups,
            },
            witness: Witness::default(),
        }
    }

    /// What the leader's clock shows.
    pub(crate) fn leader_time(&self, config: &Config) -> Timestamp {
        stamp(self.now, config.leaders[self.shard.leader])
    }

    /// When, in true time, the leader's clock will show `time`.
    pub(crate) fn true_time(&self, config: &Config, time: Timestamp) -> u64 {
        let ahead = config.leaders[self.shard.leader];
        time.as_millis().saturating_sub(EPOCH).saturating_add_signed(-ahead)
    }

    /// The first copy of a gateway's claim.
    pub(crate) fn claim(&self, config: &Config, gateway: usize, knowing: Knowing) -> Claim {
        let index = if knowing.warm { self.shard.index } else { 0 };
        let leader = config.leaders[self.shard.leader];
        let time = stamp(self.now, leader + knowing.estimate);
        Claim {
            operation: None,
            name: name(),
            holder: holder(gateway),
            seen: Basis { epoch: 0, index, time },
            print: fingerprint(config.requests[gateway]).into(),
            lease: Millis::new(config.lease),
            terms: config.terms(),
            token: Token::new([gateway as u8; 16]),
        }
    }
}

/// What a clock shows at this true time that is ahead of it by so many milliseconds.
pub(crate) fn stamp(now: u64, ahead: i64) -> Timestamp {
    Timestamp::from_millis(EPOCH + now.saturating_add_signed(ahead))
}

/// The one record.
pub(crate) fn name() -> RecordName {
    RecordName::from_bytes(vec![1])
}

/// Who a gateway claims for.
pub(crate) fn holder(gateway: usize) -> HolderId {
    HolderId::of(b"gateway", &[gateway as u8])
}

/// The fingerprint of a request.
pub(crate) fn fingerprint(request: u8) -> Fingerprint {
    Fingerprint { version: 1, digest: [request; 32] }
}

/// A stored response that can be told from the others.
pub(crate) fn response(status: u16, body: u8) -> StoredResponse {
    StoredResponse { status, headers: Vec::new(), body: StoredBody::Whole(vec![body]) }
}
