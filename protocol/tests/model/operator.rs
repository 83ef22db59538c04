//! An operator, who decides about what nobody knows, and removes outcomes.

use std::sync::Arc;

use protocol::command::{Command, Verdict};

use super::config::Config;
use super::shard::live;
use super::upstream::OPERATOR_STATUS;
use super::variant::Variant;
use super::world::{Address, Ask, Parcel, World, name, response};

impl World {
    pub(crate) fn resolve(&mut self, config: &Config, released: bool) {
        let Some(generation) = live(self.shard.record.as_ref()) else { return };
        let verdict = if released {
            Verdict::Released
        } else {
            Verdict::Completed(response(OPERATOR_STATUS, 0))
        };
        let command = Command::Resolve {
            name: name(),
            fence: generation.fence,
            verdict,
            by: String::new(),
            reason: String::new(),
            force: config.breaks(Variant::ReleasesEarly),
        };
        let (number, meant) = (u32::from(self.left.verdicts), Some(generation.id));
        let ask = Ask::Command(command);
        self.wire.insert(Address { sender: None, number }, Parcel::new(Arc::new(ask), meant));
    }

    pub(crate) fn forget(&mut self) {
        let Some(generation) = live(self.shard.record.as_ref()) else { return };
        let command = Command::Forget { name: name(), fence: generation.fence };
        let (number, meant) = (100 + u32::from(self.left.forgets), Some(generation.id));
        let ask = Ask::Command(command);
        self.wire.insert(Address { sender: None, number }, Parcel::new(Arc::new(ask), meant));
    }
}
