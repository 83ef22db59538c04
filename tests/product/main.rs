//! The product from outside: the real binary, real HTTP, real crashes.
//!
//! Tests that replay a failure of another system carry the number of the case in their names.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

mod answers;
mod apart;
mod bodies;
mod callers;
mod claiming;
mod claims_api;
mod clients;
mod crashes;
mod expect;
mod full_disk;
mod keys;
mod leading;
mod leases;
mod natural_keys;
mod pace;
mod policies;
mod profiles;
mod published;
mod quickstart;
mod quota;
mod regional;
mod retention;
mod rules;
mod scope;
mod settling;
mod shadow;
mod startup;
mod support;
