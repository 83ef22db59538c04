//! The hand-over between the thread that writes and the thread that prepares segments ahead of it,
//! so that nobody who waits for a sync also waits for the file system to find space.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::failure::{Alarm, Failure};
use super::preparer::{Preparer, Trouble};
use super::segment::Segment;

/// How long a full disk is left alone. Space may come from anybody, so there is nothing to wait
/// for.
const RETRY: Duration = Duration::from_secs(1);

/// Whether the next segment could be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// It could, or is being prepared.
    Ok,
    /// The disk is full: the current segment takes what is underway, and nothing new should begin.
    Low,
}

/// One segment that is ready, and what is to be done about the others.
pub(super) struct Supply {
    state: Mutex<State>,
    changed: Condvar,
    alarm: Arc<Alarm>,
    /// Prepares here and now where there is no thread for it.
    #[cfg(feature = "testing")]
    inline: Mutex<Option<Preparer>>,
}

struct State {
    /// Sequence of the segment to prepare next.
    next: u64,
    ready: Option<Segment>,
    /// Bytes that the waiting writer needs in one segment; 0 while it does not wait.
    wanted: u64,
    /// Sequences of segments that no longer matter, oldest first. No more than were held.
    retired: VecDeque<u64>,
    /// Why the last attempt found the disk full.
    full: Option<Failure>,
    closing: bool,
    stopped: bool,
}

/// The file system failed; the alarm is raised.
#[derive(PartialEq, Eq)]
struct Broken;

enum Task {
    Prepare { sequence: u64, bytes: u64 },
    Enlarge { segment: Segment, bytes: u64 },
    Recycle { sequence: u64 },
    Stop,
}

impl Supply {
    /// A supply whose first segment will have the sequence `next`.
    pub(super) fn new(next: u64, alarm: Arc<Alarm>) -> Self {
        let state = State {
            next,
            ready: None,
            wanted: 0,
            retired: VecDeque::new(),
            full: None,
            closing: false,
            stopped: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            alarm,
            #[cfg(feature = "testing")]
            inline: Mutex::new(None),
        }
    }

    pub(super) fn space(&self) -> Space {
        if self.lock().full.is_some() { Space::Low } else { Space::Ok }
    }

    /// The next segment, with a capacity of at least `bytes`. Waits until there is one, however
    /// long the disk is full, unless the log is being closed.
    pub(super) fn take(&self, bytes: u64) -> Result<Segment, Failure> {
        let mut state = self.lock();
        state.wanted = bytes;
        self.changed.notify_all();
        loop {
            if let Some(failure) = self.alarm.raised() {
                return Err(failure);
            }
            if let Some(segment) = state.ready.take_if(|ready| ready.capacity >= bytes) {
                state.wanted = 0;
                self.changed.notify_all();
                return Ok(segment);
            }
            if let (Some(full), true) = (&state.full, state.closing) {
                return Err(full.clone());
            }
            state = self.wait(state);
        }
    }

    /// Waits for a change of the state.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        #[cfg(feature = "testing")]
        if let Some(preparer) = self.inline.lock().expect(UNPOISONED).as_mut() {
            drop(state);
            // Nobody makes room while the whole node waits here.
            if !self.serve_once(preparer) {
                self.close();
            }
            return self.lock();
        }
        self.changed.wait(state).expect(UNPOISONED)
    }

    /// Has the preparing done by whoever waits for it, and not by a thread.
    #[cfg(feature = "testing")]
    pub(super) fn serve_inline(&self, preparer: Preparer) {
        *self.inline.lock().expect(UNPOISONED) = Some(preparer);
    }

    /// Does everything that a thread would be doing now.
    #[cfg(feature = "testing")]
    pub(super) fn catch_up(&self) {
        if let Some(preparer) = self.inline.lock().expect(UNPOISONED).as_mut() {
            while self.serve_once(preparer) {}
        }
    }

    /// Does one thing; `false` when there is none to do, or it failed.
    #[cfg(feature = "testing")]
    fn serve_once(&self, preparer: &mut Preparer) -> bool {
        let task = Self::task(&mut self.lock(), false);
        task.is_some_and(|task| self.carry_out(preparer, task).is_ok())
    }

    /// No entry in this segment matters any more, and what made it so is durable.
    pub(super) fn retire(&self, sequence: u64) {
        self.lock().retired.push_back(sequence);
        self.changed.notify_all();
    }

    /// The writer no longer waits for a full disk.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// The thread that prepares leaves.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Wakes everybody who waits, after the alarm was raised elsewhere.
    pub(super) fn alarmed(&self) {
        // Taken and let go, so that nobody is between looking at the alarm and waiting. A poisoned
        // lock is as good.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// The preparing thread's life.
    pub(super) fn serve(&self, mut preparer: Preparer) {
        let mut retry = true;
        loop {
            let task = self.next_task(retry);
            retry = matches!(task, Task::Recycle { .. });
            if matches!(task, Task::Stop) || self.carry_out(&mut preparer, task) == Err(Broken) {
                return;
            }
        }
    }

    /// Does what is to be done, and says so to who waits for it.
    fn carry_out(&self, preparer: &mut Preparer, task: Task) -> Result<(), Broken> {
        let done = match task {
            Task::Prepare { sequence, bytes } => {
                preparer.prepare(sequence, bytes).map(|segment| self.offer(segment))
            }
            Task::Enlarge { mut segment, bytes } => {
                let enlarged = segment.enlarge(bytes).map_err(Trouble::of);
                self.put_back(segment, enlarged.is_ok());
                enlarged
            }
            Task::Recycle { sequence } => preparer.recycle(sequence).map_err(Trouble::Broken),
            Task::Stop => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(Trouble::Full(failure)) => self.disk_full(failure),
            Err(Trouble::Broken(failure)) => {
                self.alarm.raise(failure);
                self.alarmed();
                return Err(Broken);
            }
        }
        Ok(())
    }

    /// Waits for something to do. While the disk is full, preparing waits for `retry`, for a
    /// segment to recycle, or for [`RETRY`] to pass.
    fn next_task(&self, mut retry: bool) -> Task {
        let mut state = self.lock();
        loop {
            if let Some(task) = Self::task(&mut state, retry) {
                return task;
            }
            if state.full.is_some() {
                let (locked, waited) = self.changed.wait_timeout(state, RETRY).expect(UNPOISONED);
                (state, retry) = (locked, waited.timed_out());
            } else {
                state = self.changed.wait(state).expect(UNPOISONED);
            }
        }
    }

    /// What there is to do now. While the disk is full, preparing is for a `retry` only.
    fn task(state: &mut State, retry: bool) -> Option<Task> {
        if state.stopped {
            return Some(Task::Stop);
        }
        if let Some(sequence) = state.retired.pop_front() {
            return Some(Task::Recycle { sequence });
        }
        if state.full.is_some() && !retry {
            return None;
        }
        let bytes = state.wanted;
        match state.ready.take_if(|ready| ready.capacity < bytes) {
            Some(segment) => Some(Task::Enlarge { segment, bytes }),
            None if state.ready.is_none() => Some(Task::Prepare { sequence: state.next, bytes }),
            None => None,
        }
    }

    fn offer(&self, segment: Segment) {
        self.lock().next = segment.sequence + 1;
        self.put_back(segment, true);
    }

    fn put_back(&self, segment: Segment, large_enough: bool) {
        let mut state = self.lock();
        state.ready = Some(segment);
        if large_enough && state.full.take().is_some() {
            tracing::info!("disk has room for the log again");
        }
        self.changed.notify_all();
    }

    fn disk_full(&self, failure: Failure) {
        let mut state = self.lock();
        if state.full.is_none() {
            tracing::error!(error = %failure.to_io(), "no room for the log's next segment");
        }
        state.full = Some(failure);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics under the supply's lock";
