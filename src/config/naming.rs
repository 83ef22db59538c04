//! Digest of everything in a policy that names records.
//!
//! Two processes whose policies name records differently would keep one key under two names and run
//! its request twice. So they compare this digest when they connect. It covers, of every operation:
//! its name, the shape of its route (a parameter's own name does not matter), and the settings that
//! add to a record's name or take from it: scope, sub-account fields, isolation, natural key, and
//! the home of tenants. Of some this version honours the default only, which is digested all the
//! same, so that a later version that honours more computes the same digest for the same names.
//!
//! Not covered, because they rename nothing: tenants and credentials, retention, leases, and every
//! other setting that only says how a record is treated.

use sha2::{Digest, Sha256};

use super::{Isolate, KeyScope, Operation, Route};

/// What is digested first, so that no other digest of the project has the same bytes.
const DOMAIN: &[u8] = b"oncegate naming 1\0";

/// The digest of a policy with these operations, in whatever order they stand in the file.
pub(super) fn digest(unlisted: &Operation, operations: &[Operation]) -> [u8; 32] {
    let mut sorted: Vec<&Operation> = operations.iter().collect();
    sorted.sort_by(|left, right| left.name.cmp(&right.name));
    let mut digest = Sha256::new();
    digest.update(DOMAIN);
    put(&mut digest, "unlisted");
    put_settings(&mut digest, unlisted);
    digest.update((sorted.len() as u64).to_be_bytes());
    for operation in sorted {
        put(&mut digest, &operation.name);
        put(&mut digest, &operation.route.as_ref().map(Route::shape).unwrap_or_default());
        put_settings(&mut digest, operation);
    }
    put(&mut digest, "homes");
    digest.update(0u64.to_be_bytes());
    digest.finalize().into()
}

/// What adds to a record's name.
fn put_settings(digest: &mut Sha256, operation: &Operation) {
    put(
        digest,
        match operation.scope {
            KeyScope::Route => "scope=route",
            KeyScope::Account => "scope=account",
        },
    );
    put(
        digest,
        match operation.isolate {
            Isolate::Tenant => "isolate=tenant",
            Isolate::Credential => "isolate=credential",
        },
    );
    put(digest, "scope_by");
    digest.update((operation.scope_by.len() as u64).to_be_bytes());
    for field in &operation.scope_by {
        put(digest, &field.to_string());
    }
    put(digest, "natural_key");
    digest.update((operation.natural_key.len() as u64).to_be_bytes());
    for member in &operation.natural_key {
        put(digest, &member.to_string());
    }
}

fn put(digest: &mut Sha256, part: &str) {
    digest.update((part.len() as u64).to_be_bytes());
    digest.update(part.as_bytes());
}
