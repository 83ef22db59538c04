//! How it is asked: the HTTP edge of oncegate.
//!
//! The edge translates and decides nothing: a request becomes a [`Command`](protocol::Command), an
//! [`Outcome`](protocol::Outcome) becomes an answer. Two ways in end in the same commands: the
//! [`gateway`] in front of an upstream, and the claims [`api`] for a service that runs the work
//! itself.

#![forbid(unsafe_code)]

pub mod admin;
pub mod api;
pub mod cli;
pub mod config;
mod encoding;
pub mod gateway;
pub mod judge;
pub mod listener;
pub mod problem;
pub mod rate_limit;
mod record_key;
pub mod replay;
pub mod sample;
pub mod shutdown;
pub mod strict;
mod sub_account;
mod subject;
pub mod telemetry;
pub mod tenant;
pub mod terms;
