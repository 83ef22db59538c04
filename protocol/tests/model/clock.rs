//! Time goes on, from one moment at which something can change by itself to the next.

use protocol::command::Command;
use protocol::execution::Event;
use protocol::lease::{DRAIN_MARGIN, claim_ttl, send_window};
use protocol::record::{Record, State};
use protocol::time::{Millis, Timestamp};

use super::config::Config;
use super::gateway::Stage;
use super::shard::live;
use super::world::{Ask, World};

impl World {
    /// The next moment at which something can change by itself, or is possible for the last time;
    /// `None` when nothing happens any more, however long one waits.
    pub(crate) fn next_moment(&self, config: &Config) -> Option<u64> {
        let mut moments = Moments { now: self.now, next: None };
        self.moments_of_gateways(config, &mut moments);
        if !self.is_quiet() {
            self.moments_of_shard(config, &mut moments);
        }
        moments.next
    }

    /// Time goes on, and wakes the executions that want to be woken by then.
    pub(crate) fn pass(&mut self, config: &Config) {
        let Some(next) = self.next_moment(config) else { return };
        self.now = next;
        for place in 0..self.gateways.len() {
            let wakes_at = |world: &Self| world.gateways[place].wakes_at(config, world.now);
            if wakes_at(self).is_some_and(|at| at <= self.now) {
                self.tell(config, place, Event::Wake);
                let again = wakes_at(self).is_some_and(|at| at <= self.now);
                assert!(!again, "an execution that was woken has done what was due");
            }
        }
    }

    /// Whether nobody is left to whom the record could make a difference, and it is settled.
    fn is_quiet(&self) -> bool {
        let gone = |stage: &Stage| matches!(stage, Stage::Finished | Stage::Crashed);
        let settled = match live(self.shard.record.as_ref()).map(|generation| &generation.state) {
            Some(State::InFlight { .. } | State::Over { watermark: None }) => false,
            Some(State::Indeterminate { .. }) => self.left.verdicts == 0,
            _ => true,
        };
        settled && self.wire.is_empty() && self.gateways.iter().all(|gateway| gone(&gateway.stage))
    }

    fn moments_of_gateways(&self, config: &Config, moments: &mut Moments) {
        for gateway in &self.gateways {
            if let Some(at) = gateway.wakes_at(config, self.now) {
                // Bytes may leave until just before the connection is given up.
                if gateway.connecting.is_some() {
                    moments.add(at - 1);
                }
                moments.add(at);
            }
            if let (Some((first, _)), None) = (gateway.copies, gateway.connecting) {
                // From here on, a grant comes too late.
                moments.add(first + send_window(Millis::new(config.lease)).get());
            }
            if let Some(request) = gateway.request
                && !request.executed
            {
                moments.add(request.sent_at + config.max_execution);
            }
        }
    }

    fn moments_of_shard(&self, config: &Config, moments: &mut Moments) {
        let mut at = |time: Timestamp| moments.add(self.true_time(config, time));
        if let Some(due) = self.shard.record.as_ref().and_then(Record::due_at) {
            at(due);
            // From here on, a claim that comes is still alive then.
            if self.gateways.iter().any(|gateway| gateway.stage == Stage::Idle) {
                let ttl = claim_ttl(Millis::new(config.lease));
                at(due.minus(ttl).unwrap_or_default());
            }
        }
        for parcel in self.wire.values().filter(|parcel| !parcel.arrived) {
            if let Ask::Command(Command::Claim(claim)) = &*parcel.ask {
                // The last moment at which the copy may be admitted, and the first of the rest.
                let last = claim.seen.time.plus(claim_ttl(claim.lease));
                at(last);
                at(last.plus(Millis::new(1)));
            }
        }
        if let Some(generation) = live(self.shard.record.as_ref())
            && matches!(generation.state, State::Indeterminate { .. })
        {
            let longest = generation.terms.max_execution.plus(generation.lease);
            at(generation.granted_at.plus(longest).plus(DRAIN_MARGIN));
        }
        if let Some(replica) = &self.replica {
            moments.add(replica.fresh_at + super::replica::FRESH_FOR);
            moments.add(replica.fresh_at + super::replica::FRESH_FOR + 1);
        }
    }
}

/// Looks for the earliest of many moments that are not over.
struct Moments {
    now: u64,
    next: Option<u64>,
}

impl Moments {
    fn add(&mut self, at: u64) {
        if at > self.now && self.next.is_none_or(|next| at < next) {
            self.next = Some(at);
        }
    }
}
