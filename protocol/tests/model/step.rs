//! The steps of the modelled world, and what comes of each.

use protocol::command::{Command, Decided};
use protocol::execution::{Event, Upstream};
use protocol::record::State;

use super::config::Config;
use super::delay::Pending;
use super::gateway::{Knowing, SlowReply, Stage};
use super::shard::live;
use super::witness::Rule;
use super::world::{Address, Ask, Budget, Parcel, World, holder, name};

/// Something that happens. Gateways go by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client's request comes.
    Begin { gateway: usize, knowing: Knowing },
    /// A request arrives at the shard.
    Arrive(Address),
    /// A request arrives once more.
    ArriveAgain(Address),
    /// A reply that travelled by itself arrives at the gateway.
    Reply { gateway: usize, number: u32 },
    /// A request is not answered in time.
    TimeOut { gateway: usize, number: u32 },
    /// A request is refused before it was proposed.
    Refuse(Address),
    /// The connection to the upstream is ready.
    Ready(usize),
    /// There is no connection to be had.
    Unreachable(usize),
    /// The upstream executes what it was sent.
    Execute(usize),
    /// The upstream answers.
    Answer(usize),
    /// The upstream says that it has done nothing.
    TurnAway(usize),
    /// The downstream says that it is at work for an earlier attempt.
    InUse(usize),
    /// The connection to the upstream breaks.
    Break(usize),
    /// What nobody waits for any more is lost on its way to the upstream.
    Vanish(usize),
    /// The gateway sleeps past the time at which its execution wants to be woken.
    Nap(usize),
    /// It wakes up.
    WakeUp(usize),
    /// The gateway's process ends.
    Crash(usize),
    /// The gateway of a variant gives up.
    GiveUp(usize),
    /// The leader proposes what is due.
    Expire,
    /// An operator decides about an indeterminate record.
    Resolve { released: bool },
    /// An operator removes an outcome.
    Forget,
    /// The next of the configured leaders is elected.
    Elect,
    /// The replica catches up.
    CatchUp,
    /// The replica answers the gateway's claim.
    AnswerFromReplica(usize),
    /// Something that could happen at once takes its time instead.
    Delay(Pending),
    /// Time goes on to the next moment at which something can change by itself.
    Pass,
}

impl World {
    /// What comes of a step.
    pub(crate) fn take(&mut self, config: &Config, step: Step) {
        self.left.spend(step);
        match step {
            Step::Begin { gateway, knowing } => self.begin(config, gateway, knowing),
            Step::Arrive(address) | Step::ArriveAgain(address) => self.arrive(config, address),
            Step::Reply { gateway, number } => {
                if let Some(reply) = self.gateways[gateway].replies.remove(&number) {
                    self.reply(config, gateway, number, reply.decided);
                }
            }
            Step::TimeOut { gateway, number } => self.time_out(config, gateway, number),
            Step::Refuse(address) => self.refuse(config, address),
            Step::Ready(gateway) => self.tell(config, gateway, Event::Upstream(Upstream::Ready)),
            Step::Unreachable(gateway) => {
                self.gateways[gateway].connecting = None;
                let news = Upstream::Unsent { pooled: false };
                self.tell(config, gateway, Event::Upstream(news));
            }
            Step::Execute(gateway) => self.execute(config, gateway),
            Step::Answer(gateway) => self.answer(config, gateway),
            Step::TurnAway(gateway) => self.turn_away(config, gateway),
            Step::InUse(gateway) => self.say_in_use(config, gateway),
            Step::Vanish(gateway) => self.gateways[gateway].request = None,
            Step::Break(gateway) => self.break_connection(config, gateway),
            Step::Nap(gateway) => self.gateways[gateway].asleep = true,
            Step::WakeUp(gateway) => self.tell(config, gateway, Event::Wake),
            Step::Crash(gateway) => self.gateways[gateway].crash(),
            Step::GiveUp(gateway) => self.gateways[gateway].leave(),
            Step::Expire => {
                self.apply(config, &Command::Expire { name: name() }, None);
            }
            Step::Resolve { released } => self.resolve(config, released),
            Step::Forget => self.forget(),
            Step::Elect => self.shard.leader += 1,
            Step::CatchUp => self.catch_up(),
            Step::AnswerFromReplica(gateway) => self.answer_from_replica(config, gateway),
            Step::Delay(pending) => self.delay(pending),
            Step::Pass => self.pass(config),
        }
        self.look_for_ghosts();
        self.forget_what_cannot_matter(config);
    }

    fn arrive(&mut self, config: &Config, address: Address) {
        let Some(parcel) = self.wire.get_mut(&address) else { return };
        parcel.arrived = true;
        let Parcel { ask, meant, .. } = parcel.clone();
        let gateway = address.sender.filter(|gateway| {
            let awaits = &self.gateways[*gateway].awaited;
            config.slow_replies || awaits.contains_key(&address.number)
        });
        match &*ask {
            Ask::Read => {
                self.enter_log(config);
                if let Some(gateway) = gateway {
                    self.read(config, gateway, address.number);
                }
            }
            Ask::Command(command) => {
                let decided = self.apply(config, command, meant);
                if let Some(gateway) = gateway {
                    self.reply_travels(config, gateway, address.number, command, decided);
                }
            }
        }
    }

    fn reply_travels(
        &mut self,
        config: &Config,
        gateway: usize,
        number: u32,
        command: &Command,
        decided: Decided,
    ) {
        if config.slow_replies && matches!(command, Command::Claim(_)) {
            if self.gateways[gateway].execution().is_some() {
                let reply = SlowReply { decided, delayed: false };
                self.gateways[gateway].replies.insert(number, reply);
            }
        } else if self.gateways[gateway].awaited.contains_key(&number) {
            self.reply(config, gateway, number, decided);
        }
    }

    /// A claim must not be held by an execution that has ended without having sent anything. A
    /// crashed one cannot help it.
    fn look_for_ghosts(&mut self) {
        let Some(generation) = live(self.shard.record.as_ref()) else { return };
        let unsettled = match generation.state {
            State::InFlight { .. } | State::Over { .. } | State::Indeterminate { .. } => true,
            State::Done { .. } | State::Forgotten { .. } => false,
        };
        let ghost = unsettled
            && !self.witness.was_sent(generation.fence)
            && self.gateways.iter().enumerate().any(|(place, gateway)| {
                generation.holder == Some(holder(place)) && gateway.stage == Stage::Finished
            });
        if ghost {
            self.witness.breaks(Rule::NoGhost);
        }
    }

    /// Removes what can make no difference any more, so that worlds that differ by nothing else
    /// are one.
    fn forget_what_cannot_matter(&mut self, config: &Config) {
        if self.left.duplicates == 0 {
            self.wire.retain(|_, parcel| !parcel.arrived);
        }
        for place in 0..self.gateways.len() {
            let over = self.gateways[place].request.is_some_and(|request| {
                !request.heard && (request.executed || !self.is_on_its_way(config, place))
            });
            // Whether the downstream is in use matters for as long as others may ask it.
            if over && config.takeover.is_none() {
                self.gateways[place].request = None;
            }
        }
    }
}

impl Budget {
    /// Takes what a step costs.
    fn spend(&mut self, step: Step) {
        let left = match step {
            Step::TimeOut { .. } => &mut self.losses,
            Step::Refuse(_) => &mut self.refusals,
            Step::ArriveAgain(_) => &mut self.duplicates,
            Step::Delay(_) => &mut self.delays,
            Step::Nap(_) => &mut self.naps,
            Step::Crash(_) => &mut self.crashes,
            Step::Resolve { .. } => &mut self.verdicts,
            Step::Forget => &mut self.forgets,
            Step::CatchUp => &mut self.catch_ups,
            _ => return,
        };
        *left -= 1;
    }
}
