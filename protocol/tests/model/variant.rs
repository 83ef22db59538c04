//! The rules that a run can break on purpose.

/// A rule that is broken, to show that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Neither watermark nor time to live keep an old copy of a claim from being admitted.
    NoMemory,
    /// Only the copies of attempts that were granted before are kept from being admitted.
    GrantedAttemptsOnly,
    /// Only the time to live keeps an old copy from being admitted.
    TimeToLiveOnly,
    /// Only the watermark does.
    WatermarkOnly,
    /// The end of a lease makes the key claimable for copies that were made before it.
    LeaseEndFrees,
    /// The end of a retention does.
    RetentionEndFrees,
    /// The gateway gives up an unanswered claim.
    GivesUp,
    /// The gateway gives up an unanswered claim once its first copy is too old.
    GivesUpByFirstCopy,
    /// The gateway gives up when its newest copy is superseded.
    SupersededIsFinal,
    /// The gateway sends without a look at the clock.
    SendsLate,
    /// The gateway counts its lease from the newest copy.
    LeaseFromNewestCopy,
    /// The gateway believes a reply to an older copy.
    BelievesOldReply,
    /// The gateway claims again though its release is not definite.
    ClaimsAgainUnconfirmed,
    /// The gateway gives up and releases when a renewal fails.
    ReleasesOnFailedRenewal,
    /// The gateway answers with its own answer though its grant is lost.
    OwnAnswerOnStale,
    /// A takeover run stores the downstream's "in use".
    InUseIsFinal,
    /// Fences are counted per record.
    FencePerRecord,
    /// An operator's decision takes no fence, and a complete overwrites an outcome.
    CompleteOverwrites,
    /// An operator's decision does not compare fences.
    ResolveWithoutCompare,
    /// An operator releases before the waiting time is over.
    ReleasesEarly,
    /// A takeover forgets that an earlier attempt may have run.
    ForgetsFirstRun,
    /// A grant that was given back still counts while nobody has taken over.
    UnheldCounts,
    /// A tombstone is removed at once.
    TombstoneTooShort,
    /// A forgotten record is free at once.
    ForgetsAtOnce,
    /// A replica says "in progress" though it is behind what the claim had seen.
    InProgressFromBehind,
}

impl Variant {
    /// All of them.
    pub(crate) const ALL: [Self; 25] = [
        Self::NoMemory,
        Self::GrantedAttemptsOnly,
        Self::TimeToLiveOnly,
        Self::WatermarkOnly,
        Self::LeaseEndFrees,
        Self::RetentionEndFrees,
        Self::GivesUp,
        Self::GivesUpByFirstCopy,
        Self::SupersededIsFinal,
        Self::SendsLate,
        Self::LeaseFromNewestCopy,
        Self::BelievesOldReply,
        Self::ClaimsAgainUnconfirmed,
        Self::ReleasesOnFailedRenewal,
        Self::OwnAnswerOnStale,
        Self::InUseIsFinal,
        Self::FencePerRecord,
        Self::CompleteOverwrites,
        Self::ResolveWithoutCompare,
        Self::ReleasesEarly,
        Self::ForgetsFirstRun,
        Self::UnheldCounts,
        Self::TombstoneTooShort,
        Self::ForgetsAtOnce,
        Self::InProgressFromBehind,
    ];
}
