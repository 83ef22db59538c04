//! What can happen next.

use protocol::record::{Record, State};

use super::config::Config;
use super::gateway::{Knowing, Stage};
use super::shard::live;
use super::step::Step;
use super::world::World;

impl World {
    /// What can happen next.
    pub(crate) fn steps(&self, config: &Config, steps: &mut Vec<Step>) {
        for gateway in 0..self.gateways.len() {
            self.steps_of_gateway(config, gateway, steps);
            self.steps_of_upstream(config, gateway, steps);
        }
        for (address, parcel) in &self.wire {
            if !parcel.arrived {
                steps.push(Step::Arrive(*address));
                let awaited = address.sender.is_some_and(|gateway| {
                    self.gateways[gateway].awaited.contains_key(&address.number)
                });
                if self.left.refusals > 0 && awaited {
                    steps.push(Step::Refuse(*address));
                }
            } else if self.left.duplicates > 0 {
                steps.push(Step::ArriveAgain(*address));
            }
        }
        self.steps_of_shard(config, steps);
        match self.pending(config) {
            Some(pending) if self.left.delays > 0 => steps.push(Step::Delay(pending)),
            None if self.next_moment(config).is_some() => steps.push(Step::Pass),
            _ => {}
        }
    }

    /// Whether nothing can happen any more, though an execution or its record is not settled.
    pub(crate) fn is_stuck(&self, config: &Config) -> bool {
        let executes = self.gateways.iter().any(|gateway| gateway.execution().is_some());
        let in_flight = live(self.shard.record.as_ref())
            .is_some_and(|generation| matches!(generation.state, State::InFlight { .. }));
        let mut steps = Vec::new();
        if executes || in_flight {
            self.steps(config, &mut steps);
        }
        (executes || in_flight) && steps.is_empty()
    }

    fn steps_of_gateway(&self, config: &Config, place: usize, steps: &mut Vec<Step>) {
        let gateway = &self.gateways[place];
        match &gateway.stage {
            Stage::Idle => {
                // Idle gateways are alike but for their requests: they begin in order.
                if place == 0 || self.gateways[place - 1].stage != Stage::Idle {
                    for estimate in config.estimates.iter().copied() {
                        let knowing = Knowing { warm: false, estimate };
                        steps.push(Step::Begin { gateway: place, knowing });
                        if config.warm && self.shard.index > 0 {
                            let knowing = Knowing { warm: true, estimate };
                            steps.push(Step::Begin { gateway: place, knowing });
                        }
                    }
                }
                return;
            }
            Stage::Finished | Stage::Crashed => return,
            Stage::Live(_) => {}
        }
        for number in gateway.replies.keys() {
            steps.push(Step::Reply { gateway: place, number: *number });
        }
        for number in gateway.awaited.keys().filter(|_| self.left.losses > 0) {
            steps.push(Step::TimeOut { gateway: place, number: *number });
        }
        if gateway.connecting.is_some() {
            steps.push(Step::Ready(place));
            steps.push(Step::Unreachable(place));
        }
        if gateway.asleep {
            steps.push(Step::WakeUp(place));
        } else if self.left.naps > 0 && gateway.wakes_at(config, self.now).is_some() {
            steps.push(Step::Nap(place));
        }
        if self.left.crashes > 0 {
            steps.push(Step::Crash(place));
        }
        if self.may_give_up(config, place) {
            steps.push(Step::GiveUp(place));
        }
        if self.replica_answers(config, place).is_some() {
            steps.push(Step::AnswerFromReplica(place));
        }
    }

    fn steps_of_upstream(&self, config: &Config, place: usize, steps: &mut Vec<Step>) {
        let Some(request) = self.gateways[place].request else { return };
        if self.is_on_its_way(config, place) {
            steps.push(Step::Execute(place));
            if !request.heard {
                steps.push(Step::Vanish(place));
            }
        }
        if request.heard {
            steps.push(Step::Break(place));
            if request.executed {
                steps.push(Step::Answer(place));
            } else {
                steps.push(Step::TurnAway(place));
                if config.takeover.is_some() && self.is_in_use(place) {
                    steps.push(Step::InUse(place));
                }
            }
        }
    }

    fn steps_of_shard(&self, config: &Config, steps: &mut Vec<Step>) {
        let due = self.shard.record.as_ref().and_then(Record::due_at);
        if due.is_some_and(|due| due <= self.shard.time.max(self.leader_time(config))) {
            steps.push(Step::Expire);
        }
        match live(self.shard.record.as_ref()).map(|generation| &generation.state) {
            Some(State::Indeterminate { .. }) if self.left.verdicts > 0 => {
                steps.push(Step::Resolve { released: false });
                steps.push(Step::Resolve { released: true });
            }
            Some(State::Done { .. }) if self.left.forgets > 0 => steps.push(Step::Forget),
            _ => {}
        }
        if self.shard.leader + 1 < config.leaders.len() {
            steps.push(Step::Elect);
        }
        let behind = self.replica.as_ref().is_some_and(|replica| replica.index < self.shard.index);
        if behind && self.left.catch_ups > 0 {
            steps.push(Step::CatchUp);
        }
    }
}
