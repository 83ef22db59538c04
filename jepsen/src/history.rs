//! The history of a run: what was asked, told and broken, in the order of one clock.
//!
//! It is a file of one JSON document a line, only ever appended to. A call is written before
//! anything of it is sent, so whatever the product did, the history knows why.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::operation::{Answer, Call};

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Microseconds since the run began, by the monotonic clock of the harness.
    pub at: u64,
    /// The client; the nemesis is none and has 0.
    pub process: u32,
    /// Which call, or which fault, this is about.
    pub id: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A client is about to call.
    Invoke(Call),
    /// The call took effect, and this is its result.
    Ok(Answer),
    /// The call did not take effect and never will.
    Fail(Answer),
    /// Nobody can tell: it may have taken effect, or may yet.
    Info(Answer),
    /// The nemesis begins to install a fault; until `Healed` what fails is its doing.
    Break(String),
    /// What came of it.
    Broken(Installation),
    /// The fault that is installed cuts exactly this node off; the others have a majority.
    Isolated(u8),
    /// The fault is gone.
    Healed,
    /// Every node can get claims decided again, so many milliseconds after the fault was gone.
    Recovered(u64),
    /// A phase of the run begins.
    Phase(Phase),
    /// Digest of a shard's records at a node.
    Digest(Digest),
    /// Damage that a node did not find, and where it is.
    Undetected(String),
    /// Something that a person who reads this wants to know.
    Note(String),
}

/// Whether a fault was really there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Installation {
    /// It was, and on what.
    Installed(String),
    /// It cannot be made here, and why.
    Skipped(String),
    /// Nobody can tell.
    Indeterminate(String),
}

/// The order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Clients call, the nemesis breaks.
    Load,
    /// Nothing breaks any more; waits until every node is ready.
    Recovery,
    /// Everything that was acknowledged is read from every node.
    FinalReads,
    /// It is over.
    End,
}

/// The records of one shard, at one node, at one position of its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// The node.
    pub node: u8,
    /// The shard.
    pub shard: u16,
    /// Index of the last entry that was applied.
    pub index: u64,
    /// Digest of all records there.
    pub digest: String,
}

/// Writes a history, and keeps it for the checkers. Shared by all clients.
pub struct Recorder {
    begin: Instant,
    next: AtomicU64,
    written: Mutex<Written>,
}

struct Written {
    file: BufWriter<File>,
    events: Vec<Event>,
    /// The first failure to write; a history with a hole proves nothing.
    failure: Option<io::Error>,
}

impl Recorder {
    /// Begins a history in a new file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create_new(path)?);
        let written = Mutex::new(Written { file, events: Vec::new(), failure: None });
        Ok(Self { begin: Instant::now(), next: AtomicU64::new(1), written })
    }

    /// Microseconds since the run began.
    pub fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A number for a call or a fault.
    pub fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes down what happened, now.
    pub fn record(&self, process: u32, id: u64, what: What) {
        let mut written = self.lock();
        // Read under the lock, so that the file is in the order of its times.
        let event = Event { at: self.now(), process, id, what };
        if let Err(error) = append(&mut written.file, &event) {
            written.failure.get_or_insert(error);
        }
        written.events.push(event);
    }

    /// Everything written so far.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn events(&self) -> io::Result<Vec<Event>> {
        let mut written = self.lock();
        if let Some(error) = written.failure.take() {
            return Err(error);
        }
        written.file.flush()?;
        Ok(written.events.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock().expect("nothing panics while it writes")
    }
}

fn append(file: &mut impl Write, event: &Event) -> io::Result<()> {
    serde_json::to_writer(&mut *file, event)?;
    file.write_all(b"\n")
}

/// Reads a file of one JSON document a line.
///
/// # Errors
/// When it cannot be read, or a line of it is none.
pub fn read_lines<T: for<'a> Deserialize<'a>>(path: &Path) -> io::Result<Vec<T>> {
    let lines = BufReader::new(File::open(path)?).lines();
    lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{How, Name, Verb};

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.ndjson");
        let recorder = Recorder::create(&path).unwrap();
        let verb = Verb::Post { variant: 1, how: How::After(5) };
        let call = Call { node: 1, name: Name::default(), verb, last: false };
        let id = recorder.next_id();
        recorder.record(1, id, What::Invoke(call));
        let answer = Answer { status: 201, fence: 1 << 53, ..Answer::default() };
        recorder.record(1, id, What::Ok(answer));
        recorder.record(0, 2, What::Broken(Installation::Skipped("no root".to_owned())));
        let events = recorder.events().unwrap();
        assert_eq!(read_lines::<Event>(&path).unwrap(), events);
        assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(Recorder::create(&path).is_err(), "a history is never overwritten");
    }
}
