//! The shard: the real decisions, a judge of what they do, and the broken ones of the variants.

use protocol::Basis;
use protocol::command::{Command, Decided, Grant, Outcome, Verdict};
use protocol::decide::{Context, Next, decide};
use protocol::lease::Fence;
use protocol::record::{Generation, Record, State};

use super::broken;
use super::config::Config;
use super::upstream::{DONE_STATUS, OPERATOR_STATUS};
use super::variant::Variant;
use super::witness::{Rule, Witness};
use super::world::{Shard, World, holder};

impl World {
    /// The next log entry holds this command; `meant` is the generation that an operator means.
    pub(crate) fn apply(
        &mut self,
        config: &Config,
        command: &Command,
        meant: Option<Fence>,
    ) -> Decided {
        self.enter_log(config);
        let before = self.shard.record.clone();
        let command = &broken::command(config, self, command);
        let mut outcome = self.shard.decide(config, command);
        let freed = outcome == Outcome::Superseded && self.shard.record != before;
        let at_once = match self.shard.record {
            Some(Record::Tombstone(_)) => config.breaks(Variant::RetentionEndFrees),
            _ => config.breaks(Variant::LeaseEndFrees),
        };
        if freed && at_once {
            // What made the key claimable is not an event of its own: the claim goes on.
            outcome = self.shard.decide(config, &broken::all_seen(command));
        }
        self.judge(before.as_ref(), command, &outcome, meant);
        Decided { outcome, basis: self.shard.basis() }
    }

    /// The next log entry is stamped by the leader.
    pub(crate) fn enter_log(&mut self, config: &Config) {
        self.shard.time = self.shard.time.max(self.leader_time(config));
        self.shard.index += 1;
    }

    /// Looks at what a command has done.
    fn judge(
        &mut self,
        before: Option<&Record>,
        command: &Command,
        outcome: &Outcome,
        meant: Option<Fence>,
    ) {
        let witness = &mut self.witness;
        let after = self.shard.record.as_ref();
        let changed = before != after;
        if let Some(grant) = proof(command) {
            if changed && !is_held(before, grant) {
                witness.breaks(Rule::StaleChangesNothing);
            }
            if changed && by_operator(before) {
                witness.breaks(Rule::OperatorStands);
            }
        }
        if let (Some(meant), Some(Record::Live(generation))) = (meant, before)
            && changed
            && generation.id != meant
        {
            witness.breaks(Rule::OperatorStands);
        }
        if let (Command::Claim(claim), Outcome::Granted { .. }) = (command, outcome) {
            let holds = |place: &usize| holder(*place) == claim.holder;
            let place = (0..self.gateways.len()).find(holds).expect("a gateway claims");
            self.gateways[place].was_granted = true;
        }
        match outcome {
            Outcome::Granted { grant, .. } if changed => {
                let generation = live(after).map_or(grant.fence, |generation| generation.id);
                witness.fence_given(grant.fence, generation);
            }
            Outcome::Resolved { fence } => {
                let generation = live(before).expect("only a live record is settled");
                witness.fence_given(*fence, generation.id);
                if matches!(command, Command::Resolve { verdict: Verdict::Released, .. }) {
                    witness.operator_releases(generation.id);
                }
            }
            Outcome::Released => {
                let grant = proof(command).expect("a release proves its grant");
                let ends = matches!(after, Some(Record::Tombstone(_)));
                witness.gives_back(grant.fence, ends);
            }
            _ => {}
        }
        if let Some(generation) = live(after) {
            look_at(generation, witness);
        }
    }
}

impl Shard {
    /// How far the shard is.
    pub(crate) fn basis(&self) -> Basis {
        Basis { epoch: 0, index: self.index, time: self.time }
    }

    /// Decides a command, and does what the decision says.
    fn decide(&mut self, config: &Config, command: &Command) -> Outcome {
        let context = Context {
            now: self.time,
            index: self.index,
            epoch: 0,
            next_fence: broken::next_fence(config, self),
        };
        let before = broken::record(config, self.record.clone(), command);
        let decision = decide(&context, before.as_ref(), command);
        let after = match decision.next {
            Next::Keep => self.record.clone(),
            Next::Put(record) => Some(record),
            Next::Remove => None,
        };
        self.record =
            broken::result(config, before.as_ref(), after, &decision.outcome, self.basis());
        self.grants += u64::from(decision.took_fence);
        decision.outcome
    }
}

/// The record's generation, where it is live.
pub(crate) fn live(record: Option<&Record>) -> Option<&Generation> {
    match record {
        Some(Record::Live(generation)) => Some(generation),
        _ => None,
    }
}

/// The grant that a holder's command proves itself with.
fn proof(command: &Command) -> Option<&Grant> {
    match command {
        Command::Renew { grant, .. }
        | Command::Complete { grant, .. }
        | Command::Release { grant, .. }
        | Command::Unknown { grant, .. } => Some(grant),
        _ => None,
    }
}

fn is_held(record: Option<&Record>, grant: &Grant) -> bool {
    live(record).is_some_and(|generation| {
        generation.holder.is_some()
            && generation.fence == grant.fence
            && generation.token == grant.token
    })
}

fn by_operator(record: Option<&Record>) -> bool {
    live(record)
        .is_some_and(|generation| matches!(generation.state, State::Done { by_operator: true, .. }))
}

/// What must hold for a generation in any state.
fn look_at(generation: &Generation, witness: &mut Witness) {
    match &generation.state {
        State::InFlight { lease_until } => {
            let longest = generation.terms.max_execution.plus(generation.lease);
            if *lease_until > generation.granted_at.plus(longest) {
                witness.breaks(Rule::LeaseEnds);
            }
        }
        State::Done { revisions, by_operator, .. } => {
            let first = &revisions.first().expect("an outcome was stored").response;
            witness.outcome(generation.id, first);
            let operators = first.status == OPERATOR_STATUS;
            let real = if operators {
                *by_operator
            } else {
                first.status == DONE_STATUS && witness.executions_of(generation.id) > 0
            };
            if !real {
                witness.breaks(Rule::RealOutcome);
            }
        }
        State::Over { .. } | State::Indeterminate { .. } | State::Forgotten { .. } => {}
    }
}
