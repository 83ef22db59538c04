//! Quotas of tenants: claims of new keys are refused to tenants that have no room left.
//!
//! A node counts what its own replicas hold, and has one of every shard, so the sum is the
//! tenant's. It is behind by what the other shards' leaders have decided and this node has not
//! applied yet, and by the answers of claims that were let in before: a quota may be overshot by
//! about a second of traffic. Nothing that is stored is ever removed for it.

use std::collections::{HashMap, VecDeque};

use protocol::decide::Standing;
use protocol::{Claim, Command};

use super::Submit;
use crate::config::Quota;
use crate::raft::tenant_tally;
use crate::storage::records::Records;

/// The quotas of a node, and what they are reckoned by.
pub(crate) struct Quotas {
    by_tenant: HashMap<String, Quota>,
    records: Records,
}

/// Tenants whose claims need a look: how many new keys each may still have.
pub(super) struct Crowded<'a>(HashMap<&'a str, u64>);

impl Quotas {
    pub(crate) fn new(by_tenant: HashMap<String, Quota>, records: Records) -> Self {
        Self { by_tenant, records }
    }

    /// The tenants that have not room for everything that waits, if all of it were new.
    pub(super) fn crowded(&self, waiting: &VecDeque<Submit>) -> Crowded<'_> {
        let mut asked: HashMap<&str, u64> = HashMap::new();
        if !self.by_tenant.is_empty() {
            let claims = waiting.iter().filter_map(|submit| claim(&submit.command));
            let tenants = claims.filter_map(|claim| self.limited(claim));
            tenants.for_each(|tenant| *asked.entry(tenant).or_default() += 1);
        }
        let rooms = asked.into_iter().map(|(tenant, asked)| (tenant, asked, self.room(tenant)));
        let crowded = rooms.filter(|(_, asked, room)| asked > room);
        Crowded(crowded.map(|(tenant, _, room)| (tenant, room)).collect())
    }

    /// The tenant of a claim, where it has a quota.
    fn limited(&self, claim: &Claim) -> Option<&str> {
        self.by_tenant.get_key_value(claim.name.tenant()?).map(|(tenant, _)| tenant.as_str())
    }

    /// How many more records the tenant may have.
    fn room(&self, tenant: &str) -> u64 {
        let Some(quota) = self.by_tenant.get(tenant) else { return u64::MAX };
        let used = tenant_tally(&self.records, tenant);
        if quota.bytes.is_some_and(|most| used.bytes >= most) {
            return 0;
        }
        quota.records.map_or(u64::MAX, |most| most.saturating_sub(used.records))
    }
}

impl Crowded<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the command is a claim of a crowded tenant.
    pub(super) fn concerns(&self, command: &Command) -> bool {
        tenant(command).is_some_and(|tenant| self.0.contains_key(tenant))
    }

    /// Whether such a claim may go on, and room for it is taken where it needs any.
    pub(super) fn admits(&mut self, command: &Command, standing: Standing) -> bool {
        if !makes_a_record(standing) {
            return true;
        }
        let Some(room) = tenant(command).and_then(|tenant| self.0.get_mut(tenant)) else {
            return true;
        };
        let admits = *room > 0;
        *room = room.saturating_sub(1);
        admits
    }
}

/// Whether a claim of a key that stands so would make a record that was not there.
fn makes_a_record(standing: Standing) -> bool {
    match standing {
        Standing::Absent | Standing::Released => true,
        Standing::Claimed
        | Standing::Claimable
        | Standing::Indeterminate
        | Standing::Completed
        | Standing::Forgotten => false,
    }
}

fn claim(command: &Command) -> Option<&Claim> {
    match command {
        Command::Claim(claim) => Some(claim),
        _ => None,
    }
}

fn tenant(command: &Command) -> Option<&str> {
    claim(command)?.name.tenant()
}
