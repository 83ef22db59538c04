//! The gateway from outside: real sockets on both sides, and a judge with the real machine.

pub(in crate::gateway) mod judge;
pub(in crate::gateway) mod stub;

mod account_scope;
mod any;
mod bodies;
mod callers;
mod client;
mod compared;
mod cors;
mod expect;
mod life;
mod limits;
mod natural_keys;
mod neighbours;
mod pass;
mod profiles;
mod serving;
mod sub_accounts;
mod tls;
mod two;

use std::path::Path;

use crate::config::{Operation, Policy};

/// The API key of the tenant `acme`, and its SHA-256.
const API_KEY: &str = "acme-key";
const API_KEY_SHA256: &str = "afacab3575137afa4e00d9cbcafcb14c9ae25f779d964eb0ea5b2c4eb5dfd163";

/// A policy with the tenant `acme` and these operations.
pub(in crate::gateway) fn policy(operations: &str) -> Policy {
    let text = format!(
        "{operations}\n[[tenant]]\nname = \"acme\"\n\
         credentials = [{{ name = \"web\", api_key_sha256 = \"{API_KEY_SHA256}\", \
         use = [\"gateway\"] }}]\n",
    );
    match Policy::parse(Path::new("policy.toml"), &text) {
        Ok((policy, _)) => policy,
        Err(refused) => panic!("{refused:?}"),
    }
}

/// An operation with the default settings.
pub(in crate::gateway) fn operation() -> Operation {
    let policy = policy("[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n");
    policy.matching(&http::Method::POST, "/orders").operation.clone()
}
