//! Fault tests of oncegate, in the words of Jepsen.
//!
//! The product is a black box: its binary is started as processes, its scripts are called, it is
//! spoken to over HTTP. Nothing of it is imported, so that the judge shares no defect with the
//! accused.
//!
//! A [`workload`] says which calls its clients make, on what its [`generator`] draws from a seed.
//! A [`client`] makes the calls and writes each into the [`history`]: begun, then *ok* (it took
//! effect), *fail* (it did not and never will) or *info* (nobody can tell). A [`nemesis`] breaks
//! processes, links, disks and clocks meanwhile, and says of each fault whether it was really
//! installed. The [`upstream`] keeps a ledger of what it executed, on disk. [`run`] does these in
//! order: load with faults, no more faults, recovery, final reads; and then every [`checker`] is
//! held against what was written down.

#![forbid(unsafe_code)]

pub mod checker;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod generator;
pub mod history;
pub mod http;
pub mod matrix;
pub mod model;
pub mod nemesis;
pub mod operation;
pub mod policy;
pub mod proxy;
pub mod report;
pub mod run;
pub mod script;
pub mod upstream;
pub mod workload;
