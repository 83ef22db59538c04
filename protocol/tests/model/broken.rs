//! What a variant makes of the shard's decisions: the real ones are given another question, or
//! their result is changed.

use protocol::Basis;
use protocol::command::{Claim, Command, Outcome};
use protocol::lease::{Fence, TOMBSTONE_LIFE};
use protocol::record::{Generation, Record, State, Tombstone, Watermark};
use protocol::time::Timestamp;

use super::config::Config;
use super::shard::live;
use super::variant::Variant;
use super::world::{Shard, World, holder};

/// The holder that a variant takes a grant without one to have.
const NOBODY: usize = 255;

/// What the shard takes a command for.
pub(crate) fn command(config: &Config, world: &World, command: &Command) -> Command {
    match (config.variant, command.clone()) {
        (Some(Variant::GrantedAttemptsOnly), Command::Claim(claim)) => {
            let known = world
                .gateways
                .iter()
                .enumerate()
                .any(|(place, gateway)| holder(place) == claim.holder && gateway.was_granted);
            if known { command.clone() } else { all_seen(&never_too_old(command)) }
        }
        (Some(Variant::TimeToLiveOnly), command) => all_seen(&command),
        (Some(Variant::WatermarkOnly), command) => never_too_old(&command),
        (Some(Variant::NoMemory), command) => all_seen(&never_too_old(&command)),
        (
            Some(Variant::ResolveWithoutCompare),
            Command::Resolve { name, fence, verdict, by, reason, force },
        ) => {
            let fence =
                live(world.shard.record.as_ref()).map_or(fence, |generation| generation.fence);
            Command::Resolve { name, fence, verdict, by, reason, force }
        }
        (_, command) => command,
    }
}

/// A copy of a claim that no watermark can stop.
pub(crate) fn all_seen(command: &Command) -> Command {
    seeing(command, |seen| Basis { index: u64::MAX, ..seen })
}

/// What the shard takes the record for when it decides this command.
pub(crate) fn record(config: &Config, record: Option<Record>, command: &Command) -> Option<Record> {
    let Some(Record::Live(mut generation)) = record else { return record };
    match (config.variant, &generation.state, command) {
        (Some(Variant::CompleteOverwrites), State::Done { .. }, Command::Complete { .. }) => {
            generation.state = State::Indeterminate { since: Timestamp::ZERO };
        }
        (Some(Variant::UnheldCounts), _, _) if generation.holder.is_none() => {
            generation.holder = Some(holder(NOBODY));
        }
        _ => {}
    }
    Some(Record::Live(generation))
}

/// What the shard makes of the record after it was `before`, at this position of the log.
pub(crate) fn result(
    config: &Config,
    before: Option<&Record>,
    after: Option<Record>,
    outcome: &Outcome,
    at: Basis,
) -> Option<Record> {
    match (config.variant, after) {
        (Some(Variant::TombstoneTooShort), Some(Record::Tombstone(tombstone))) => {
            let keep_until = tombstone.watermark.time;
            Some(Record::Tombstone(Tombstone { keep_until, ..tombstone }))
        }
        (Some(Variant::ForgetsAtOnce), Some(Record::Live(generation)))
            if matches!(generation.state, State::Forgotten { .. }) =>
        {
            let watermark = Watermark { index: at.index, time: at.time };
            let keep_until = at.time.plus(TOMBSTONE_LIFE);
            Some(Record::Tombstone(Tombstone { watermark, keep_until, history: Vec::new() }))
        }
        (Some(Variant::ForgetsFirstRun), Some(Record::Live(generation))) => {
            Some(Generation { tainted: false, ..*generation }.into())
        }
        (Some(Variant::CompleteOverwrites), Some(Record::Live(generation)))
            if matches!(outcome, Outcome::Resolved { .. }) =>
        {
            let fence = live(before).map_or(generation.fence, |generation| generation.fence);
            Some(Generation { fence, ..*generation }.into())
        }
        (_, after) => after,
    }
}

/// The fence that the next grant takes.
pub(crate) fn next_fence(config: &Config, shard: &Shard) -> Fence {
    let of_record = live(shard.record.as_ref()).map_or(0, |record| record.fence.as_number());
    let given = if config.breaks(Variant::FencePerRecord) { of_record } else { shard.grants };
    Fence::new(0, given + 1)
}

/// A copy of a claim that no time can make too old.
fn never_too_old(command: &Command) -> Command {
    seeing(command, |seen| Basis { time: Timestamp::MAX, ..seen })
}

fn seeing(command: &Command, change: impl Fn(Basis) -> Basis) -> Command {
    match command {
        Command::Claim(claim) => {
            Command::Claim(Claim { seen: change(claim.seen), ..claim.clone() })
        }
        other => other.clone(),
    }
}
