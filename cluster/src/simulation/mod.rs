//! Whole nodes on simulated machines: one thread, tokio's paused time, and one seed.
//!
//! What runs is the product: node, router, shards, replicas, the log's writer and its replay. What
//! is simulated lies below the seams: the disk under the log ([`Host`]), the engine under the
//! records, the network between the nodes ([`Network`]), the clocks, and where randomness comes
//! from ([`Machine`]). With all of them drawn from a seed, a run does the same every time.
//!
//! A machine is more than a runtime's task group: killed, everything on it is gone at once and
//! nothing of it is polled again; stopped, its tasks stand still while time goes on, as with
//! SIGSTOP. Work that production gives to threads is done by tasks of the machine.

mod host;
mod machine;
mod network;

pub use self::host::{Host, Pace};
pub(crate) use self::machine::Dice;
pub use self::machine::{Machine, take_steps};
pub use self::network::Network;
