//! Whatever happens, in whatever order: what must hold for every execution.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::life::{BEGUN, LEASE, claim, done, generation, grant, granted, leader_time, stored};
use crate::command::{Basis, Command, Decided, Outcome};
use crate::execution::{
    Action, COPIES_MAX, Disposition, Event, Execution, Failure, RecordAt, Upstream,
};
use crate::lease::send_window;
use crate::record::State;
use crate::time::Millis;

const LIVES: u64 = 3_000;
const EVENTS_PER_LIFE: u32 = 400;

/// What an execution has done so far, judged without a look at its inside.
#[derive(Default)]
struct Witness {
    copies: u32,
    answers: u32,
    finished: bool,
    /// The first copy of the round that did not fail definitely.
    lease_from: Option<u64>,
    /// Bytes may have left under the grant, and nothing has shown that none did.
    sent: bool,
    /// Completes, releases and unknowns submitted for the grant, each kind once.
    decisions: Vec<&'static str>,
    /// What was submitted or read, and not answered yet.
    pending: Vec<(u32, &'static str)>,
}

impl Witness {
    fn sees(&mut self, now: u64, actions: &[Action]) {
        for action in actions {
            assert!(!self.finished, "{action:?} after the end");
            match action {
                Action::Submit { number, command } => {
                    let asked = self.submission(now, command);
                    self.pending.push((*number, asked));
                }
                Action::Read { number, .. } => self.pending.push((*number, "read")),
                Action::Answer(_) => self.answers += 1,
                Action::Send => {
                    let from = self.lease_from.expect("a copy was made");
                    assert!(now < from + send_window(Millis::new(LEASE)).get());
                    assert_eq!(self.answers, 0, "sent after the client was told it would not");
                    self.sent = true;
                }
                Action::Finish => self.finished = true,
                Action::Connect { .. } | Action::CloseUpstream => {}
            }
        }
        assert!(self.answers <= 1 && self.copies <= COPIES_MAX);
        assert!(!self.finished || self.answers == 1);
    }

    fn submission(&mut self, now: u64, command: &Command) -> &'static str {
        match command {
            Command::Claim(_) => {
                assert!(!self.sent && self.answers == 0);
                self.copies += 1;
                if !self.decisions.is_empty() {
                    assert_eq!(self.decisions, ["release"], "claimed again after a decision");
                    self.decisions.clear();
                    self.lease_from = None;
                }
                self.lease_from.get_or_insert(now);
                "claim"
            }
            Command::Complete { .. } => self.decision("complete"),
            Command::Release { .. } => {
                assert!(!self.sent, "released what may have run");
                self.decision("release")
            }
            Command::Unknown { .. } => self.decision("unknown"),
            _ => "renew",
        }
    }

    fn decision(&mut self, kind: &'static str) -> &'static str {
        if self.decisions.last() != Some(&kind) {
            self.decisions.push(kind);
        }
        let lawful = matches!(self.decisions[..], [_] | ["unknown", "complete"]);
        assert!(lawful, "{:?}", self.decisions);
        kind
    }
}

#[test]
fn every_rule_holds_whatever_happens() {
    let mut finished = 0;
    for seed in 0..LIVES {
        let mut random = StdRng::seed_from_u64(seed);
        let seen = Basis { time: leader_time(BEGUN), ..Basis::default() };
        let (mut execution, actions) =
            Execution::begin(claim(LEASE, seen), Millis::new(30_000), Millis::new(BEGUN));
        let (mut witness, mut now) = (Witness::default(), BEGUN);
        witness.sees(now, &actions);
        for _ in 0..EVENTS_PER_LIFE {
            now = later(&mut random, now, &execution);
            let event = event(&mut random, now, &mut witness);
            if let Event::Upstream(
                Upstream::Unsent { .. }
                | Upstream::Answered { disposition: Disposition::Retryable, .. },
            ) = event
            {
                witness.sent = false;
            }
            let actions = execution.handle(Millis::new(now), event);
            witness.sees(now, &actions);
            let wakes_later = execution.wake_at().is_none_or(|at| at.get() > now);
            assert!(wakes_later, "what was due is done");
        }
        finished += u64::from(witness.finished);
    }
    assert!(finished > LIVES / 2, "most lives are seen to their end: {finished}");
}

/// A later time, often the one at which the execution wants to be woken.
fn later(random: &mut StdRng, now: u64, execution: &Execution) -> u64 {
    match execution.wake_at() {
        Some(at) if random.random_bool(0.5) => now.max(at.get()),
        _ => now + random.random_range(0..50),
    }
}

fn event(random: &mut StdRng, now: u64, witness: &mut Witness) -> Event {
    match random.random_range(0..10) {
        0 => Event::Wake,
        1..=3 => Event::Upstream(news(random)),
        _ => answer(random, now, witness),
    }
}

fn news(random: &mut StdRng) -> Upstream {
    let disposition = match random.random_range(0..3) {
        0 => Disposition::Retryable,
        1 => Disposition::Unknown,
        _ => stored(201),
    };
    match random.random_range(0..8) {
        0..=2 => Upstream::Ready,
        3 => Upstream::Unsent { pooled: random.random_bool(0.5) },
        4 => Upstream::Broken,
        _ => Upstream::Answered { status: 201, disposition },
    }
}

/// What comes back for the last submission or read; each is answered at most once.
fn answer(random: &mut StdRng, now: u64, witness: &mut Witness) -> Event {
    let Some((number, asked)) = witness.pending.pop() else { return Event::Wake };
    let at = leader_time(now);
    if random.random_bool(0.4) {
        let reply = Err(Failure::Indefinite);
        return Event::Reply { number, reply };
    }
    if asked == "read" {
        let state = State::InFlight { lease_until: at };
        let record = random.random_bool(0.5).then(|| Box::new(generation(5, 5, state)));
        return Event::Read { number, reply: Ok(RecordAt { at, record }) };
    }
    let outcome = outcome(random, now, asked);
    let basis = Basis { epoch: 0, index: u64::from(number), time: at };
    Event::Reply { number, reply: Ok(Decided { outcome, basis }) }
}

/// An outcome that fits what was asked, and now and then one that does not.
fn outcome(random: &mut StdRng, now: u64, asked: &str) -> Outcome {
    if random.random_bool(0.1) {
        return Outcome::Stale { record: Some(Box::new(generation(5, 5, done(now)))) };
    }
    match asked {
        "claim" => match random.random_range(0..5) {
            0 => Outcome::Superseded,
            1 => Outcome::Spent { grant: grant() },
            2 => Outcome::Released,
            _ => granted(1),
        },
        "renew" => Outcome::Renewed { lease_until: leader_time(now) },
        "complete" => Outcome::Completed,
        "release" => Outcome::Released,
        _ => Outcome::Unknown { takeover: false },
    }
}
