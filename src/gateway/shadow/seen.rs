//! The table of what was seen, of bounded size: the oldest entry makes room for the newest.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::Verdict;
use crate::gateway::metrics;
use crate::problem::Code;

/// The most entries. With what holds them together each takes about 200 bytes.
const ENTRIES_MAX: usize = 100_000;

/// Bytes of a digest that identify an entry: enough that no two are alike by accident.
pub(super) const ID_BYTES: usize = 16;

pub(super) type Id = [u8; ID_BYTES];

/// The part of a request that would have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    id: Id,
    serial: u64,
}

struct Entry {
    /// Tells it from a later one of the same id.
    serial: u64,
    fingerprint: [u8; 32],
    state: State,
}

enum State {
    /// It runs; past this time nobody waits for it any more.
    Running { until: Duration },
    /// Its answer would be kept; until this time, or for ever.
    Done { until: Option<Duration> },
    /// Nobody can tell whether it ran.
    Unknown,
}

/// What was seen. Times are those of the boot-time clock.
#[derive(Default)]
pub(super) struct Seen {
    entries: HashMap<Id, Entry>,
    /// Oldest first; some are gone already.
    order: VecDeque<Ticket>,
    serials: u64,
}

impl Seen {
    /// What a request under this id would have been told, and a ticket where it would have run.
    pub(super) fn claim(
        &mut self,
        id: Id,
        fingerprint: [u8; 32],
        now: Duration,
        until: Duration,
    ) -> (Verdict, Option<Ticket>) {
        let refused = |code: Code| (Verdict::Refused(code.name()), None);
        match self.live(&id, now) {
            None => {
                let state = State::Running { until };
                (Verdict::New, Some(self.insert(id, fingerprint, state)))
            }
            Some(entry) if entry.fingerprint != fingerprint => refused(Code::KeyReused),
            Some(Entry { state: State::Done { .. }, .. }) => (Verdict::Replay, None),
            Some(Entry { state: State::Running { until }, .. }) if now < *until => {
                refused(Code::KeyInProgress)
            }
            Some(_) => refused(Code::OutcomeIndeterminate),
        }
    }

    /// Whether another request without a key had this id within `window`.
    pub(super) fn twin(&mut self, id: Id, now: Duration, window: Duration) -> bool {
        let twin = self.live(&id, now).is_some();
        let until = Some(now.saturating_add(window));
        self.insert(id, [0; 32], State::Done { until });
        twin
    }

    /// The answer would be kept until this time.
    pub(super) fn complete(&mut self, ticket: Ticket, until: Option<Duration>) {
        self.settle(ticket, State::Done { until });
    }

    /// The key would be free again.
    pub(super) fn release(&mut self, ticket: Ticket) {
        if self.entries.get(&ticket.id).is_some_and(|entry| entry.serial == ticket.serial) {
            self.entries.remove(&ticket.id);
        }
    }

    /// Nobody can tell what became of it.
    pub(super) fn give_up(&mut self, ticket: Ticket) {
        self.settle(ticket, State::Unknown);
    }

    fn settle(&mut self, ticket: Ticket, state: State) {
        let entry = self.entries.get_mut(&ticket.id).filter(|it| it.serial == ticket.serial);
        if let Some(entry) = entry {
            entry.state = state;
        }
    }

    fn live(&self, id: &Id, now: Duration) -> Option<&Entry> {
        let ended = |entry: &&Entry| match entry.state {
            State::Done { until: Some(until) } => until <= now,
            _ => false,
        };
        self.entries.get(id).filter(|entry| !ended(entry))
    }

    fn insert(&mut self, id: Id, fingerprint: [u8; 32], state: State) -> Ticket {
        while self.order.len() >= ENTRIES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            if self.entries.get(&oldest.id).is_some_and(|entry| entry.serial == oldest.serial) {
                self.entries.remove(&oldest.id);
                metrics::shadow_forgotten();
            }
        }
        self.serials += 1;
        let ticket = Ticket { id, serial: self.serials };
        self.entries.insert(id, Entry { serial: self.serials, fingerprint, state });
        self.order.push_back(ticket);
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Id = [1; ID_BYTES];
    const A: [u8; 32] = [1; 32];
    const B: [u8; 32] = [2; 32];

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn claim(seen: &mut Seen, fingerprint: [u8; 32], now: u64) -> (&'static str, Option<Ticket>) {
        let (verdict, ticket) = seen.claim(ID, fingerprint, at(now), at(now + 10));
        (verdict.label(), ticket)
    }

    #[test]
    fn a_key_is_told_what_its_record_would_tell() {
        let mut seen = Seen::default();
        let (new, ticket) = claim(&mut seen, A, 0);
        assert_eq!(new, "new");
        assert_eq!(claim(&mut seen, A, 5), ("key-in-progress", None));
        assert_eq!(claim(&mut seen, B, 5), ("key-reused", None));
        assert_eq!(claim(&mut seen, A, 10), ("outcome-indeterminate", None));
        seen.complete(ticket.unwrap(), Some(at(20)));
        assert_eq!(claim(&mut seen, A, 19), ("replay", None));
        assert_eq!(claim(&mut seen, B, 19), ("key-reused", None));
        let (anew, second) = claim(&mut seen, B, 20);
        assert_eq!(anew, "new");
        // What became of the first says nothing about the second.
        seen.release(ticket.unwrap());
        seen.give_up(ticket.unwrap());
        assert_eq!(claim(&mut seen, B, 21), ("key-in-progress", None));
        seen.give_up(second.unwrap());
        assert_eq!(claim(&mut seen, B, 21), ("outcome-indeterminate", None));
        seen.complete(second.unwrap(), None);
        assert_eq!(claim(&mut seen, B, u64::MAX / 2), ("replay", None));
    }

    #[test]
    fn a_key_that_was_given_back_is_new() {
        let mut seen = Seen::default();
        let (_, ticket) = claim(&mut seen, A, 0);
        seen.release(ticket.unwrap());
        assert_eq!(claim(&mut seen, B, 1).0, "new");
    }

    #[test]
    fn twins_are_alike_and_near_each_other() {
        let (mut seen, window) = (Seen::default(), at(60));
        assert!(!seen.twin(ID, at(0), window));
        assert!(seen.twin(ID, at(59), window));
        assert!(seen.twin(ID, at(118), window), "each counts from the one before");
        assert!(!seen.twin(ID, at(178), window));
        assert!(!seen.twin([2; ID_BYTES], at(178), window));
    }

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let mut seen = Seen::default();
        let id = |number: usize| {
            let mut id = [0; ID_BYTES];
            id[..8].copy_from_slice(&number.to_be_bytes());
            id
        };
        for number in 0..=ENTRIES_MAX {
            seen.claim(id(number), A, at(0), at(10));
        }
        assert_eq!((seen.entries.len(), seen.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert_eq!(seen.claim(id(1), A, at(0), at(10)).1, None, "the second is still there");
        assert!(seen.claim(id(0), A, at(0), at(10)).1.is_some(), "the first is not");
        // What is given back, or seen again and again, does not make the table grow either.
        for _ in 0..2 * ENTRIES_MAX {
            seen.twin(ID, at(0), at(60));
        }
        assert!(seen.entries.len() <= ENTRIES_MAX && seen.order.len() <= ENTRIES_MAX);
    }
}
