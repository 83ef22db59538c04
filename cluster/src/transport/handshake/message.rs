//! The messages of the handshake and their frozen layout; numbers are little-endian.

use std::fmt;

use bytes::{Buf, BufMut};
use protocol::Timestamp;
use rand::RngExt;

use crate::config::NodeId;

/// The first bytes of every connection, in either direction.
const MAGIC: [u8; 8] = *b"oncegate";

const OPENING_BYTES: usize = 8 + 8 + 8 + 32;
const HELLO_BYTES: usize = 2 + 2 + 2 + 16 + 32 + 8;

/// The longest reason that travels; longer ones are cut.
const REASON_BYTES_MAX: usize = 512;

const ADMITTED: u8 = 0;
const REFUSED: u8 = 1;

/// Who speaks to whom, and a challenge that no earlier conversation can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) nonce: [u8; 32],
}

impl Opening {
    /// With a nonce of its own.
    pub(super) fn new(from: NodeId, to: NodeId) -> Self {
        Self { from, to, nonce: rand::rng().random() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(OPENING_BYTES);
        bytes.put_slice(&MAGIC);
        bytes.put_u64_le(self.from.0);
        bytes.put_u64_le(self.to.0);
        bytes.put_slice(&self.nonce);
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() != OPENING_BYTES || !bytes.starts_with(&MAGIC) {
            return None;
        }
        bytes.advance(MAGIC.len());
        let (from, to) = (NodeId(bytes.get_u64_le()), NodeId(bytes.get_u64_le()));
        let mut nonce = [0; 32];
        bytes.copy_to_slice(&mut nonce);
        Some(Self { from, to, nonce })
    }
}

/// What a process says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: Versions,
    pub(super) shards: u16,
    pub(super) instance: [u8; 16],
    pub(super) naming: [u8; 32],
    pub(super) wall: Timestamp,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.put_u16_le(self.versions.oldest);
        bytes.put_u16_le(self.versions.newest);
        bytes.put_u16_le(self.shards);
        bytes.put_slice(&self.instance);
        bytes.put_slice(&self.naming);
        bytes.put_u64_le(self.wall.as_millis());
        bytes
    }

    /// Later versions may add to a hello: what follows is passed over.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HELLO_BYTES {
            return None;
        }
        let versions = Versions { oldest: bytes.get_u16_le(), newest: bytes.get_u16_le() };
        let shards = bytes.get_u16_le();
        let (mut instance, mut naming) = ([0; 16], [0; 32]);
        bytes.copy_to_slice(&mut instance);
        bytes.copy_to_slice(&mut naming);
        let wall = Timestamp::from_millis(bytes.get_u64_le());
        Some(Self { versions, shards, instance, naming, wall })
    }
}

/// A range of wire versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) oldest: u16,
    pub(super) newest: u16,
}

impl Versions {
    /// Whether some version is in both ranges.
    pub(super) const fn overlap(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

/// Whether a process talks with the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict(Option<String>);

impl Verdict {
    /// A refusal for this reason, or an admission without one.
    pub(super) fn of(reason: Option<&String>) -> Self {
        Self(reason.cloned())
    }

    /// Why the other side refuses.
    pub(super) fn refusal(self) -> Option<String> {
        self.0
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Some(reason) = &self.0 else { return vec![ADMITTED] };
        let mut bytes = vec![REFUSED];
        bytes.put_slice(&reason.as_bytes()[..reason.floor_char_boundary(REASON_BYTES_MAX)]);
        bytes
    }

    /// The reason comes from another process and goes to terminals, so control characters are left
    /// out of it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&ADMITTED, []) => Some(Self(None)),
            (&REFUSED, reason) => {
                let reason = String::from_utf8_lossy(reason);
                Some(Self(Some(reason.chars().filter(|c| !c.is_control()).collect())))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let opening = Opening::new(NodeId(1), NodeId(u64::MAX));
        assert_eq!(Opening::decode(&opening.encode()), Some(opening));
        let hello = Hello {
            versions: Versions { oldest: 3, newest: 4 },
            shards: 16,
            instance: [5; 16],
            naming: [6; 32],
            wall: Timestamp::from_millis(7),
        };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        for verdict in [Verdict(None), Verdict(Some("because".to_owned()))] {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        let opening = Opening { from: NodeId(1), to: NodeId(2), nonce: [9; 32] };
        let mut expected = b"oncegate".to_vec();
        expected.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([9; 32]);
        assert_eq!(opening.encode(), expected);
        let hello = Hello {
            versions: Versions { oldest: 1, newest: 2 },
            shards: 0x0304,
            instance: [5; 16],
            naming: [6; 32],
            wall: Timestamp::from_millis(7),
        };
        let mut expected = vec![1, 0, 2, 0, 4, 3];
        expected.extend([5; 16]);
        expected.extend([6; 32]);
        expected.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(hello.encode(), expected);
    }

    #[test]
    fn what_is_no_message_is_none() {
        let opening = Opening::new(NodeId(1), NodeId(2)).encode();
        assert_eq!(Opening::decode(&opening[1..]), None);
        assert_eq!(Opening::decode(&[&opening[..], &[0]].concat()), None);
        assert_eq!(Opening::decode(&[0; OPENING_BYTES]), None);
        assert_eq!(Hello::decode(&[0; HELLO_BYTES - 1]), None);
        for bytes in [&[][..], &[ADMITTED, 1], &[2]] {
            assert_eq!(Verdict::decode(bytes), None);
        }
    }

    #[test]
    fn a_reason_is_cut_at_a_whole_character_and_cannot_steer_a_terminal() {
        let long = Verdict(Some("é".repeat(400)));
        let Some(Verdict(Some(cut))) = Verdict::decode(&long.encode()) else { panic!("no reason") };
        assert_eq!(cut, "é".repeat(256));
        let sly = Verdict(Some("a\u{1b}[2Jb\n".to_owned()));
        assert_eq!(Verdict::decode(&sly.encode()), Some(Verdict(Some("a[2Jb".to_owned()))));
    }

    #[test]
    fn versions_overlap_when_one_is_spoken_by_both() {
        let range = |oldest, newest| Versions { oldest, newest };
        for (other, overlap) in [((1, 1), false), ((1, 2), true), ((3, 9), true), ((4, 9), false)] {
            assert_eq!(range(2, 3).overlap(range(other.0, other.1)), overlap, "{other:?}");
            assert_eq!(range(other.0, other.1).overlap(range(2, 3)), overlap, "{other:?}");
        }
    }
}
