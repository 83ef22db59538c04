//! A gateway: carries out what its execution asks for, and nothing else, unless a variant says so.

use std::sync::Arc;

use protocol::Fingerprint;
use protocol::command::{Command, Decided, Outcome};
use protocol::execution::{Action, Answer, Event, Execution, Failure, RecordAt};
use protocol::lease::{Fence, PAUSE, claim_ttl};
use protocol::record::State;
use protocol::time::Millis;

use super::config::Config;
use super::gateway::{Connecting, Knowing, Request, Stage, Told};
use super::shard::live;
use super::variant::Variant;
use super::witness::Rule;
use super::world::{Address, Ask, Parcel, World, fingerprint, stamp};

impl World {
    /// A client's request comes to a gateway.
    pub(crate) fn begin(&mut self, config: &Config, gateway: usize, knowing: Knowing) {
        let claim = self.claim(config, gateway, knowing);
        let (execution, actions) =
            Execution::begin(claim, Millis::new(config.answer_within), Millis::new(self.now));
        self.gateways[gateway].stage = Stage::Live(Arc::new(execution));
        self.carry_out(config, gateway, actions);
    }

    /// Something happens to a gateway's execution.
    pub(crate) fn tell(&mut self, config: &Config, gateway: usize, event: Event) {
        let now = self.now - self.gateways[gateway].clock_is_behind(config, self.now);
        self.gateways[gateway].asleep = false;
        if let Stage::Live(execution) = &mut self.gateways[gateway].stage {
            let actions = Arc::make_mut(execution).handle(Millis::new(now), event);
            self.carry_out(config, gateway, actions);
        }
    }

    /// One of the gateway's requests to the shard is answered.
    pub(crate) fn reply(&mut self, config: &Config, gateway: usize, number: u32, decided: Decided) {
        let awaited = &mut self.gateways[gateway].awaited;
        awaited.remove(&number);
        let (mut number, mut decided) = (number, decided);
        match (config.variant, &decided.outcome) {
            (Some(Variant::SupersededIsFinal), Outcome::Superseded) => {
                self.gateways[gateway].leave();
                return;
            }
            (Some(Variant::BelievesOldReply), _) => {
                // The reply is taken for that to the newest copy.
                number = awaited.pop_last().map_or(number, |(newest, _)| newest);
            }
            (Some(Variant::OwnAnswerOnStale), Outcome::Stale { .. })
                if self.gateways[gateway].kept.is_some() =>
            {
                decided.outcome = Outcome::Completed;
            }
            _ => {}
        }
        self.tell(config, gateway, Event::Reply { number, reply: Ok(decided) });
    }

    /// A read of the gateway has gone through the log.
    pub(crate) fn read(&mut self, config: &Config, gateway: usize, number: u32) {
        self.gateways[gateway].awaited.remove(&number);
        let record = self.shard.record.clone().map(Box::new);
        let found = RecordAt { at: self.shard.time, record };
        self.tell(config, gateway, Event::Read { number, reply: Ok(found) });
    }

    /// One of the gateway's requests to the shard is not answered in time. It may still arrive.
    pub(crate) fn time_out(&mut self, config: &Config, gateway: usize, number: u32) {
        let Some(ask) = self.gateways[gateway].awaited.remove(&number) else { return };
        if let Some(parcel) = self.wire.get_mut(&Address { sender: Some(gateway), number }) {
            parcel.delayed = true;
        }
        let Ask::Command(command) = &*ask else {
            let reply = Err(Failure::Indefinite);
            return self.tell(config, gateway, Event::Read { number, reply });
        };
        let mut reply = Err(Failure::Indefinite);
        match (config.variant, command) {
            (Some(Variant::ClaimsAgainUnconfirmed), Command::Release { .. }) => {
                let basis = self.shard.basis();
                reply = Ok(Decided { outcome: Outcome::Released, basis });
            }
            (Some(Variant::ReleasesOnFailedRenewal), Command::Renew { name, grant, .. }) => {
                let release = Command::Release { name: name.clone(), grant: *grant };
                self.send(gateway, u32::MAX, Arc::new(Ask::Command(release)));
                self.gateways[gateway].leave();
                return;
            }
            _ => {}
        }
        self.tell(config, gateway, Event::Reply { number, reply });
    }

    /// One of the gateways' requests to the shard is refused, and will never arrive.
    pub(crate) fn refuse(&mut self, config: &Config, address: Address) {
        let Address { sender: Some(gateway), number } = address else { return };
        self.wire.remove(&address);
        let event = match self.gateways[gateway].awaited.remove(&number).as_deref() {
            Some(Ask::Read) => Event::Read { number, reply: Err(Failure::Definite) },
            Some(Ask::Command(_)) => Event::Reply { number, reply: Err(Failure::Definite) },
            None => return,
        };
        self.tell(config, gateway, event);
    }

    /// Whether the gateway of a variant may give up its claim: by the age of its first copy.
    pub(crate) fn may_give_up(&self, config: &Config, gateway: usize) -> bool {
        let gateway = &self.gateways[gateway];
        let Some((first, _)) = gateway.copies else { return false };
        let first_ends = stamp(first, 0).plus(claim_ttl(Millis::new(config.lease)));
        config.breaks(Variant::GivesUpByFirstCopy)
            && gateway.told == Some(Told::NotRun)
            && self.leader_time(config) > first_ends
    }

    fn carry_out(&mut self, config: &Config, gateway: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Submit { number, command } => {
                    self.gateways[gateway].note_copies(&command, self.now);
                    self.ask(gateway, number, Ask::Command(command));
                }
                Action::Read { number, .. } => self.ask(gateway, number, Ask::Read),
                Action::Connect { fence, .. } => {
                    let since = self.now;
                    self.gateways[gateway].connecting =
                        Some(Connecting { fence, since, delayed: false });
                }
                Action::Send => self.bytes_leave(config, gateway),
                Action::CloseUpstream => self.gateways[gateway].close(),
                Action::Answer(answer) => self.answer_client(config, gateway, &answer),
                Action::Finish => self.gateways[gateway].leave(),
            }
        }
    }

    fn ask(&mut self, gateway: usize, number: u32, ask: Ask) {
        let ask = Arc::new(ask);
        self.gateways[gateway].awaited.insert(number, Arc::clone(&ask));
        self.send(gateway, number, ask);
    }

    fn send(&mut self, gateway: usize, number: u32, ask: Arc<Ask>) {
        let address = Address { sender: Some(gateway), number };
        self.wire.insert(address, Parcel::new(ask, None));
    }

    fn bytes_leave(&mut self, config: &Config, gateway: usize) {
        let Some(Connecting { fence, .. }) = self.gateways[gateway].connecting.take() else {
            return;
        };
        let request =
            Request { fence, sent_at: self.now, executed: false, heard: true, delayed: false };
        self.gateways[gateway].request = Some(request);
        self.witness.bytes_left(fence);
        if self.gateways[gateway].told == Some(Told::NotRun) {
            self.witness.breaks(Rule::NotRunIsTrue);
        }
        if !self.is_leased(config, fence) {
            self.witness.breaks(Rule::SentUnderLease);
        }
    }

    /// Whether the fence's lease is live, for whichever leader, until bytes that leave now are on
    /// the wire.
    fn is_leased(&self, config: &Config, fence: Fence) -> bool {
        let latest = config.leaders.iter().copied().max().unwrap_or_default();
        let on_wire = stamp(self.now, latest).plus(PAUSE);
        live(self.shard.record.as_ref()).is_some_and(|generation| {
            let State::InFlight { lease_until } = generation.state else { return false };
            generation.fence == fence && on_wire < lease_until
        })
    }

    /// What the client is told; a replay must be lawful.
    fn answer_client(&mut self, config: &Config, gateway: usize, answer: &Answer) {
        let told = match answer {
            Answer::Own => {
                if let Some((fence, own)) = &self.gateways[gateway].kept {
                    self.witness.told_own(*fence, own);
                }
                Told::Outcome
            }
            Answer::Replay(replay) => {
                self.witness.outcome(replay.generation, &replay.response);
                let request = fingerprint(config.requests[gateway]);
                if !self.is_present(replay.generation, request) {
                    self.witness.breaks(Rule::OwnReplay);
                }
                Told::Outcome
            }
            Answer::InProgress { .. }
            | Answer::Reused { .. }
            | Answer::OtherOperation
            | Answer::Indeterminate
            | Answer::Forgetting { .. } => Told::Refused,
            Answer::PassThrough | Answer::Unreachable { .. } | Answer::ShardUnavailable => {
                Told::NotRun
            }
            Answer::OutcomePending | Answer::OutcomeUnknown(_) => Told::Unknown,
        };
        let sent = self.gateways[gateway].request.map(|request| request.fence);
        if told == Told::NotRun && sent.is_some_and(|fence| self.witness.has_executed(fence)) {
            self.witness.breaks(Rule::NotRunIsTrue);
        }
        self.gateways[gateway].told = Some(told);
        if config.breaks(Variant::GivesUp) && *answer == Answer::ShardUnavailable {
            self.gateways[gateway].leave();
        }
    }

    /// Whether this is the key's present generation, made by this request.
    fn is_present(&self, generation: Fence, request: Fingerprint) -> bool {
        live(self.shard.record.as_ref())
            .is_some_and(|present| present.id == generation && present.print == request.into())
    }
}
