//! The seal that proves a secret: a MAC over the whole conversation.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::Secret;

/// Keeps this use of the secret apart from every other one.
const PURPOSE: &[u8] = b"oncegate peer handshake 1";

/// Bytes of a seal.
pub(super) const SEAL_BYTES: usize = 32;

/// Which end of the connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Dialer,
    Acceptor,
}

impl Role {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Acceptor,
            Self::Acceptor => Self::Dialer,
        }
    }

    const fn label(self) -> u8 {
        match self {
            Self::Dialer => b'D',
            Self::Acceptor => b'A',
        }
    }
}

/// What the seals of one cluster are made with: of its secret and its name, so that two clusters
/// that were given the same secret still are strangers.
pub(super) struct ClusterKey([u8; SEAL_BYTES]);

impl ClusterKey {
    pub(super) fn new(secret: &Secret, cluster: &str) -> Self {
        let mut mac = keyed(secret.as_bytes());
        mac.update(PURPOSE);
        mac.update(cluster.as_bytes());
        Self(mac.finalize().into_bytes().into())
    }
}

/// All that was said, in order, with who said it.
pub(super) struct Transcript<'k> {
    key: &'k ClusterKey,
    said: Vec<u8>,
}

impl<'k> Transcript<'k> {
    pub(super) fn new(key: &'k ClusterKey) -> Self {
        Self { key, said: Vec::new() }
    }

    /// Adds a message that `role` said.
    pub(super) fn note(&mut self, role: Role, message: &[u8]) {
        append(&mut self.said, role, message);
    }

    /// The seal with which `role` says `message` next.
    pub(super) fn seal(&self, role: Role, message: &[u8]) -> [u8; SEAL_BYTES] {
        self.mac(role, message).finalize().into_bytes().into()
    }

    /// Whether `seal` is the one with which `role` says `message` next; takes the same time either
    /// way.
    pub(super) fn verify(&self, role: Role, message: &[u8], seal: &[u8; SEAL_BYTES]) -> bool {
        self.mac(role, message).verify_slice(seal).is_ok()
    }

    fn mac(&self, role: Role, message: &[u8]) -> Hmac<Sha256> {
        let mut said = self.said.clone();
        append(&mut said, role, message);
        let mut mac = keyed(&self.key.0);
        mac.update(&said);
        mac
    }
}

/// With role and length before each message, no two conversations have the same bytes.
fn append(said: &mut Vec<u8>, role: Role, message: &[u8]) {
    said.push(role.label());
    said.extend_from_slice(&(message.len() as u64).to_le_bytes());
    said.extend_from_slice(message);
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &[u8], cluster: &str) -> ClusterKey {
        ClusterKey::new(&Secret::new(secret.to_vec()).unwrap(), cluster)
    }

    #[test]
    fn a_seal_holds_for_its_speaker_its_message_and_its_conversation_only() {
        let (ours, other_secret) = (key(&[1; 16], "payments"), key(&[2; 16], "payments"));
        let other_cluster = key(&[1; 16], "orders");
        let mut said = Transcript::new(&ours);
        said.note(Role::Dialer, b"opening");
        let seal = said.seal(Role::Dialer, b"hello");
        assert!(said.verify(Role::Dialer, b"hello", &seal));
        assert!(!said.verify(Role::Acceptor, b"hello", &seal), "reflected");
        assert!(!said.verify(Role::Dialer, b"hallo", &seal), "altered");
        for key in [&other_secret, &other_cluster] {
            let mut said = Transcript::new(key);
            said.note(Role::Dialer, b"opening");
            assert!(!said.verify(Role::Dialer, b"hello", &seal), "another key");
        }
        let mut other = Transcript::new(&ours);
        assert!(!other.verify(Role::Dialer, b"hello", &seal), "replayed");
        other.note(Role::Acceptor, b"opening");
        assert!(!other.verify(Role::Dialer, b"hello", &seal), "said by the other side");
    }

    #[test]
    fn moving_bytes_between_messages_breaks_the_seal() {
        let key = key(&[1; 16], "payments");
        let (mut one, mut two) = (Transcript::new(&key), Transcript::new(&key));
        one.note(Role::Dialer, b"ab");
        two.note(Role::Dialer, b"a");
        assert_ne!(one.seal(Role::Dialer, b"c"), two.seal(Role::Dialer, b"bc"));
    }
}
