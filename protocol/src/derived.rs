//! A key of the gateway's own for the upstream, in the place of the client's.
//!
//! A payment provider keeps one key space for everybody who shares an account with it, allows few
//! characters, and remembers a key whose execution was given back. A client's key is unique within
//! its tenant and operation only. So a key can be derived for each *generation* of a record: every
//! attempt at one execution brings the same key, and the next execution under the same name, after
//! a release or the end of the retention, brings another one.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::lease::Fence;
use crate::scope::RecordName;

/// Bytes of a derived key: the text of a UUID, which every provider takes.
pub const DERIVED_KEY_BYTES: usize = 36;

/// Sets this digest apart from all others that are taken of names.
const DOMAIN: &[u8] = b"oncegate derived key 1\0";

/// The key under which the upstream is called for a generation, named by its first fence.
///
/// It is a plain digest, not a keyed one: the key must stay the same for as long as a generation
/// may be taken over, whatever happens to secrets meanwhile, since another key would be another
/// payment. Nobody gets back from it to the tenant or the client's key; who knows all of them
/// can tell that they belong together.
pub fn derived_key(name: &RecordName, generation: Fence) -> String {
    let mut digest = Sha256::new();
    digest.update(DOMAIN);
    digest.update(generation.as_number().to_be_bytes());
    digest.update(name.as_bytes());
    uuid(&digest.finalize().into())
}

/// The first half of a digest as a UUID of version 8, the one for values of an application's own
/// making (RFC 9562, 5.8).
fn uuid(digest: &[u8; 32]) -> String {
    let mut text = String::with_capacity(DERIVED_KEY_BYTES);
    for (at, byte) in digest.iter().take(16).enumerate() {
        let byte = match at {
            6 => 0x80 | (byte & 0x0f),
            8 => 0x80 | (byte & 0x3f),
            _ => *byte,
        };
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::IdempotencyKey;
    use crate::scope::Scope;

    fn name(tenant: &str, key: &str) -> RecordName {
        let scope = Scope {
            tenant: tenant.into(),
            sub_account: Vec::new(),
            credential: None,
            operation: Some("orders".into()),
        };
        RecordName::new(&scope, &IdempotencyKey::from_text(key, 255).unwrap())
    }

    #[test]
    fn a_derived_key_is_the_text_of_a_uuid_and_never_changes() {
        let key = derived_key(&name("acme", "k"), Fence::new(0, 1));
        assert_eq!(key.len(), DERIVED_KEY_BYTES);
        let groups: Vec<usize> = key.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(&key[14..15], "8");
        assert!(matches!(&key[19..20], "8" | "9" | "a" | "b"), "{key}");
        assert_eq!(key, "e025361f-3364-85ba-a488-0e1cf6a31c8e");
    }

    #[test]
    fn names_and_generations_have_keys_of_their_own() {
        let names = [name("acme", "k"), name("acme", "l"), name("acm", "ek"), name("other", "k")];
        let mut keys: Vec<String> = Vec::new();
        for name in &names {
            for generation in [Fence::new(0, 1), Fence::new(0, 2), Fence::new(1, 1)] {
                keys.push(derived_key(name, generation));
                assert_eq!(derived_key(name, generation), keys[keys.len() - 1]);
            }
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 12);
    }
}
