//! Where to begin looking for what is due.
//!
//! Most entries of the index are removed long before their time: a lease's when its execution ends.
//! What is removed stays in the tables as a tombstone until a merge drops it, and a search from the
//! beginning would walk over all of them every time. So each search begins at the earliest time
//! that may still have an entry.

use std::sync::Mutex;

/// The earliest time that may have an entry in a shard's due index, in milliseconds.
#[derive(Debug)]
pub(super) struct DueFloor {
    times: Mutex<Times>,
    /// Held by a search from its beginning to its end: one at a time.
    search: Mutex<()>,
}

#[derive(Debug)]
struct Times {
    floor: u64,
    /// The earliest entry that was added since the last search began, which may not have seen it.
    added: u64,
}

impl DueFloor {
    pub(super) fn new() -> Self {
        let times = Mutex::new(Times { floor: 0, added: u64::MAX });
        Self { times, search: Mutex::new(()) }
    }

    /// Takes note of an entry, after it is committed.
    pub(super) fn add(&self, time_ms: u64) {
        let mut times = self.times.lock().expect("no holder panics");
        times.floor = times.floor.min(time_ms);
        times.added = times.added.min(time_ms);
    }

    /// Runs a search from the floor on. The search returns its findings and the time up to which,
    /// exclusively, it found nothing at all.
    pub(super) fn search<T, E>(
        &self,
        search: impl FnOnce(u64) -> Result<(T, u64), E>,
    ) -> Result<T, E> {
        let _one = self.search.lock().expect("no search panics");
        let from = {
            let mut times = self.times.lock().expect("no holder panics");
            times.added = u64::MAX;
            times.floor
        };
        let (found, empty_until) = search(from)?;
        let mut times = self.times.lock().expect("no holder panics");
        times.floor = empty_until.min(times.added);
        Ok(found)
    }

    /// Forgets everything, since the index was replaced.
    pub(super) fn reset(&self) {
        self.add(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(due: &DueFloor) -> u64 {
        due.search(|from| Ok::<_, ()>((from, from))).unwrap()
    }

    #[test]
    fn a_search_begins_where_the_last_one_found_nothing_before() {
        let due = DueFloor::new();
        assert_eq!(floor(&due), 0);
        due.search(|_| Ok::<_, ()>(((), 50))).unwrap();
        assert_eq!(floor(&due), 50);
        due.add(70);
        assert_eq!(floor(&due), 50);
        due.add(20);
        assert_eq!(floor(&due), 20);
        due.search(|_| Err::<((), u64), _>(())).unwrap_err();
        assert_eq!(floor(&due), 20);
    }

    #[test]
    fn an_entry_added_during_a_search_is_not_passed_over() {
        let due = DueFloor::new();
        due.search(|_| {
            due.add(30);
            Ok::<_, ()>(((), 100))
        })
        .unwrap();
        assert_eq!(floor(&due), 30);
        due.search(|_| {
            due.reset();
            Ok::<_, ()>(((), 100))
        })
        .unwrap();
        assert_eq!(floor(&due), 0);
    }
}
