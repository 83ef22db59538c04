//! Bugs that are put in on purpose, to show that the simulation finds them. Each is in force on the
//! thread that planted it, which is the one that a simulation runs on.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A vote is told before it is durable.
    VoteNotSynced,
    /// An append is told before it is durable.
    AppendNotSynced,
    /// A leader that restarts leads on in its term, without the entries that it lost.
    LeaderRestored,
    /// A read through the log is answered from any replica as it is.
    StaleRead,
    /// A completion counts whatever its fence is.
    FenceIgnored,
    /// What is indeterminate runs again.
    IndeterminateRunsAgain,
    /// Each replica decides by its own clock when a lease or a retention is over.
    LocalClock,
    /// A snapshot leaves out what is in flight.
    SnapshotWithoutInFlight,
    /// A replay is given to whoever knows the key, whatever the request is.
    FingerprintIgnored,
    /// The answers of one entry go to each other's callers.
    AnswersOutOfOrder,
    /// The tenant is no part of a record's name.
    TenantLeftOut,
    /// What a holder says may have run is given back as not sent.
    ReleasedAfterSent,
    /// Records are not synced before the log forgets their entries.
    CheckpointNotSynced,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::VoteNotSynced,
        Self::AppendNotSynced,
        Self::LeaderRestored,
        Self::StaleRead,
        Self::FenceIgnored,
        Self::IndeterminateRunsAgain,
        Self::LocalClock,
        Self::SnapshotWithoutInFlight,
        Self::FingerprintIgnored,
        Self::AnswersOutOfOrder,
        Self::TenantLeftOut,
        Self::ReleasedAfterSent,
        Self::CheckpointNotSynced,
    ];
}

/// Plants a bug on this thread, or takes it away.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
