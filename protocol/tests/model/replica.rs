//! A replica that lags behind its leader, and what it may answer without the log.
//!
//! What is final is answered by the real [`answer_applied`]. The product does not say "in progress"
//! without the log; that rule is the one that it would have to follow.

use protocol::Basis;
use protocol::command::{Claim, Command, Decided, Outcome};
use protocol::decide::answer_applied;
use protocol::record::State;

use super::config::Config;
use super::shard::live;
use super::variant::Variant;
use super::world::{Ask, Replica, World, stamp};

/// For how long a replica may answer after a quorum confirmed that it was up to date, in
/// milliseconds.
pub(crate) const FRESH_FOR: u64 = 2_000;

impl World {
    /// The replica catches up.
    pub(crate) fn catch_up(&mut self) {
        self.replica = Some(Replica {
            record: self.shard.record.clone(),
            time: self.shard.time,
            index: self.shard.index,
            fresh_at: self.now,
        });
    }

    /// What the replica answers to the gateway's newest claim, if it may answer.
    pub(crate) fn replica_answers(
        &self,
        config: &Config,
        gateway: usize,
    ) -> Option<(u32, Decided)> {
        let replica = self.replica.as_ref()?;
        if self.now > replica.fresh_at + FRESH_FOR {
            return None;
        }
        let (number, claim) = self.newest_claim(gateway)?;
        let generation = live(replica.record.as_ref())?;
        let clock = stamp(self.now, 0);
        let outcome = match &generation.state {
            State::Done { .. } => answer_applied(replica.record.as_ref(), claim, clock)?,
            State::InFlight { lease_until } => {
                let others = generation.holder != Some(claim.holder);
                let same = generation.print == claim.print;
                let seen = replica.index >= claim.seen.index
                    || config.breaks(Variant::InProgressFromBehind);
                if !(others && same && seen && clock < *lease_until) {
                    return None;
                }
                Outcome::InProgress { lease_until: *lease_until }
            }
            _ => return None,
        };
        let basis = Basis { epoch: 0, index: replica.index, time: replica.time };
        Some((number, Decided { outcome, basis }))
    }

    /// The replica answers.
    pub(crate) fn answer_from_replica(&mut self, config: &Config, gateway: usize) {
        if let Some((number, decided)) = self.replica_answers(config, gateway) {
            self.reply(config, gateway, number, decided);
        }
    }

    fn newest_claim(&self, gateway: usize) -> Option<(u32, &Claim)> {
        let (number, ask) = self.gateways[gateway].awaited.last_key_value()?;
        match &**ask {
            Ask::Command(Command::Claim(claim)) => Some((*number, claim)),
            _ => None,
        }
    }
}
