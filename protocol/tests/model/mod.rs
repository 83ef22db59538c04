//! The model: one key, a shard, a few gateways, an operator and a replica, explored state by state.
//!
//! The shard decides by the real [`decide`](protocol::decide()), each gateway by the real
//! [`Execution`](protocol::execution::Execution); the model itself decides nothing about a claim.
//! It says what can happen next ([`options`]): requests arrive, once or twice, late or never,
//! replies are lost, processes crash or sleep, the upstream executes or refuses or breaks off, an
//! operator decides, leaders with other clocks are elected. After each step a [`witness`] remembers
//! what the properties P1 to P7 need, and says which [rule](witness::Rule) was broken.
//!
//! **Time** is real: the very timestamps and numbers of the protocol. It goes on in jumps, to the
//! next moment at which something can change by itself or is possible for the last time
//! ([`clock`]), and only once nothing is left that happens at once. What may take its time instead,
//! and how much else may go wrong, is bounded by the run's [`config`]; within that everything is
//! explored.
//!
//! **Not modelled**: restore epochs, revisions, dead pooled connections and the claims API's
//! clients, who may hold on to a claim that is spent.
//!
//! **Variants.** A model that finds nothing may just not look. Each variant breaks one rule of the
//! protocol without touching the code that is tested: the shard is asked another question or its
//! result is changed ([`broken`]), or a gateway's machine is told something else than what happened
//! ([`driver`], [`upstream`]). [`runs::planted`] gives the run that must show it.
//!
//! | variant | how it is planted | what notices |
//! |---|---|---|
//! | `NoMemory` | arriving copies have seen everything, and just now | P4 ghost |
//! | `GrantedAttemptsOnly` | the same, for attempts that were never granted | P4 ghost |
//! | `TimeToLiveOnly` | arriving copies have seen everything | P4 ghost |
//! | `WatermarkOnly` | arriving copies were made just now | P4 ghost |
//! | `LeaseEndFrees` | a claim that sets a watermark has seen it | P4 ghost |
//! | `RetentionEndFrees` | the same for a claim that buries an outcome | P4 ghost |
//! | `GivesUp` | the execution is dropped once its client was told to come back | P4 ghost |
//! | `GivesUpByFirstCopy` | the same once its first copy is too old | P4 ghost |
//! | `SupersededIsFinal` | the execution is dropped when it is told so | P4 ghost |
//! | `SendsLate` | the execution's clock stands still while it connects | P5 live lease |
//! | `LeaseFromNewestCopy` | its clock is set back by the time between the copies | P5 live lease |
//! | `BelievesOldReply` | a reply gets the number of the newest copy | P4 ghost |
//! | `ClaimsAgainUnconfirmed` | an unanswered release is reported as done | P1 given back |
//! | `ReleasesOnFailedRenewal` | a release is sent when a renewal is not answered | P1 given back |
//! | `OwnAnswerOnStale` | a stale complete is reported as completed | P2 one answer |
//! | `InUseIsFinal` | the downstream's 409 is reported with another status | P2 real outcome |
//! | `FencePerRecord` | the next fence is counted from the record's | P3 fences grow |
//! | `CompleteOverwrites` | an operator takes no fence, a complete sees no outcome | P7 operator |
//! | `ResolveWithoutCompare` | the decision gets the record's fence when it arrives | P7 operator |
//! | `ReleasesEarly` | the operator forces the release | P5 drained |
//! | `ForgetsFirstRun` | a takeover's record is not tainted | P1 given back |
//! | `UnheldCounts` | a record without holder gets one | P3 stale |
//! | `TombstoneTooShort` | the tombstone is kept until its own time only | P4 ghost |
//! | `ForgetsAtOnce` | the forgotten record becomes a tombstone | P6 own replay |
//! | `InProgressFromBehind` | the replica does not compare its index | P4 ghost |
//!
//! Three rules hide behind others here, so only the table test of `decide` shows them:
//!
//! - *a complete does not overwrite an outcome*, and *an operator's decision takes a fence*:
//!   without one of them the other still stops a late complete, so `CompleteOverwrites` breaks
//!   both;
//! - *a renewal does not revive an ended lease*: a gateway renews only after its bytes have left,
//!   and a revived lease would end by the same cap, with a new watermark.

pub(crate) mod broken;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod delay;
pub(crate) mod driver;
pub(crate) mod explore;
pub(crate) mod gateway;
pub(crate) mod goal;
pub(crate) mod operator;
pub(crate) mod options;
pub(crate) mod replica;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod shard;
pub(crate) mod step;
pub(crate) mod upstream;
pub(crate) mod variant;
pub(crate) mod witness;
pub(crate) mod world;
