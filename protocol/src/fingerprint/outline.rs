//! The outline of a JSON document: short keyed hashes, by which another document's differences can
//! be named though nothing of the first one is kept.
//!
//! An entry is for one value of the document: a hash of its pointer, and one of its text, or, for
//! an object or a list, one of its text and one of how many members it has. The first entry is for
//! the document itself, then come its members, then theirs, so that where there are too many, the
//! outer ones are there.
//!
//! What a payment says can be guessed: an amount, a card's last digits. So the hashes are keyed,
//! with a secret that no record holds, and with the record's name, so that equal values of two
//! records have different hashes.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use self::members::{Member, outer_members};
use crate::scope::RecordName;

mod members;
#[cfg(test)]
mod tests;

/// The most values of a document that its outline has an entry for.
pub const MEMBERS_MAX: usize = 64;

/// The most differences that are named, and the most bytes that their pointers have together: an
/// answer says where to look, it does not list a document.
const NAMED_MAX: usize = 16;
const NAMED_BYTES_MAX: usize = 1024;

/// Bytes of an entry: four for the pointer, four for what stands there.
const ENTRY_BYTES: usize = 8;

/// Keeps this use of a key apart from every other one.
const PURPOSE: &[u8] = b"oncegate outline 1\0";

/// The entries of a document, one after the other; empty for what is no JSON document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outline(#[serde(with = "serde_bytes")] Vec<u8>);

/// The key of one record's outline.
#[derive(Clone)]
pub struct OutlineKey(Hmac<Sha256>);

/// A hash as it stands in an entry.
type Short = [u8; 4];

/// What another document's value is to an outline.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Same,
    Changed,
    /// It was not there.
    New,
    /// It is within one that was not there, or it cannot be told.
    Untold,
}

impl OutlineKey {
    /// The key for the outlines of the record of this name, of a secret that all gateways have.
    pub fn new(secret: &[u8; 32], name: &RecordName) -> Self {
        let mut mac = keyed(secret);
        mac.update(PURPOSE);
        mac.update(name.as_bytes());
        Self(keyed(&mac.finalize().into_bytes()))
    }

    fn short(&self, kind: u8, pointer: &str, rest: &[u8]) -> Short {
        let mut mac = self.0.clone();
        mac.update(&[kind]);
        mac.update(&(pointer.len() as u64).to_be_bytes());
        mac.update(pointer.as_bytes());
        mac.update(rest);
        let [a, b, c, d, ..]: [u8; 32] = mac.finalize().into_bytes().into();
        [a, b, c, d]
    }

    fn pointer(&self, member: &Member<'_>) -> Short {
        self.short(b'p', &member.pointer, b"")
    }

    /// What stands at the member's pointer; for a container with `count` members.
    fn value(&self, member: &Member<'_>, count: Option<usize>) -> Short {
        let text = self.short(b'v', &member.pointer, member.text);
        match count {
            None => text,
            Some(count) => {
                let count = (count as u64).to_be_bytes();
                let count = self.short(b'n', &member.pointer, &count);
                [text[0], text[1], count[0], count[1]]
            }
        }
    }
}

impl Outline {
    /// The outline of a canonical document.
    pub(super) fn of(key: &OutlineKey, text: &[u8]) -> Self {
        let members = outer_members(text);
        let entries = members.iter().flat_map(|member| {
            let (pointer, value) = (key.pointer(member), key.value(member, member.count));
            pointer.into_iter().chain(value)
        });
        Self(entries.collect())
    }

    /// How many bytes the entries have; none where there is nothing to compare with.
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Pointers to what of another canonical document, `text`, differs from the one that the
    /// outline is of: values that are others, values that were not there, and objects and lists in
    /// which some are missing. Where a difference lies deeper than the outline goes, the value
    /// around it. Nothing where the outline was made with another key.
    pub(super) fn differences(&self, key: &OutlineKey, text: &[u8]) -> Vec<String> {
        let members = outer_members(text);
        let stored: BTreeMap<Short, Short> = self.0.chunks_exact(ENTRY_BYTES).map(entry).collect();
        if members.first().is_none_or(|root| !stored.contains_key(&key.pointer(root))) {
            return Vec::new();
        }
        let complete = self.0.len() < MEMBERS_MAX * ENTRY_BYTES;
        let standings = standings(key, &members, &stored, complete);
        let mut named = vec![false; members.len()];
        let (mut below, mut new) = (vec![false; members.len()], vec![0; members.len()]);
        // Those within a member come after it.
        for (nth, member) in members.iter().enumerate().rev() {
            let is_new = standings[nth] == Standing::New;
            let missing = || {
                let count = member.count.filter(|count| complete && *count == member.told);
                let before = stored.get(&key.pointer(member));
                count.zip(before).is_some_and(|(count, before)| {
                    key.value(member, Some(count - new[nth]))[2..] != before[2..]
                })
            };
            let changed = standings[nth] == Standing::Changed;
            named[nth] = is_new || (changed && (!below[nth] || missing()));
            if let Some(parent) = member.parent {
                below[parent] |= named[nth] || below[nth];
                new[parent] += usize::from(is_new);
            }
        }
        let named = members.into_iter().zip(named).filter(|(_, named)| *named);
        bounded(named.map(|(member, _)| member.pointer))
    }
}

fn standings(
    key: &OutlineKey,
    members: &[Member<'_>],
    stored: &BTreeMap<Short, Short>,
    complete: bool,
) -> Vec<Standing> {
    let mut standings: Vec<Standing> = Vec::with_capacity(members.len());
    for member in members {
        let around = member.parent.map(|parent| standings[parent]);
        standings.push(match (around, stored.get(&key.pointer(member))) {
            (Some(Standing::Same), _) => Standing::Same,
            (Some(Standing::New | Standing::Untold), _) => Standing::Untold,
            (_, Some(value)) if *value == key.value(member, member.count) => Standing::Same,
            (_, Some(_)) => Standing::Changed,
            (_, None) if complete => Standing::New,
            (_, None) => Standing::Untold,
        });
    }
    standings
}

fn entry(bytes: &[u8]) -> (Short, Short) {
    let short = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    (short(0), short(4))
}

fn bounded(pointers: impl Iterator<Item = String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |pointer: &String| {
        let fits = bytes + pointer.len() <= NAMED_BYTES_MAX;
        bytes += if fits { pointer.len() } else { 0 };
        fits
    };
    pointers.filter(fits).take(NAMED_MAX).collect()
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length")
}
