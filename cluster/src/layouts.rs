//! Every layout that hostile bytes may be read as, for tests and fuzzing.

use bytes::Bytes;
use protocol::{Batch, Record};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{codec, raft, router, storage, transport};

/// A layout of what is kept or sent.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What it is the layout of.
    pub name: &'static str,
    /// The version byte that stands before it; `None` for what is made by hand.
    pub version: Option<u8>,
    /// Reads the bytes as the layout and writes what was read again; `None` when they are not it.
    pub rewrite: fn(&[u8]) -> Option<Vec<u8>>,
    /// A value of the layout that is made of these bytes, whatever they are; `None` where bytes
    /// lead to none.
    pub sample: fn(&[u8]) -> Option<Vec<u8>>,
}

impl Layout {
    /// That of a type, as the codec makes it.
    pub(crate) const fn of<T: Serialize + DeserializeOwned, const VERSION: u8>(
        name: &'static str,
    ) -> Self {
        let rewrite = |bytes: &[u8]| {
            let value: T = codec::decode(VERSION, bytes).ok()?;
            Some(codec::encode(VERSION, &value))
        };
        let sample = |seed: &[u8]| {
            // Zeros are the smallest value of everything, so a value ends in them at the latest.
            let mut bytes = Bytes::from([&[VERSION][..], seed, &[0; 4096]].concat());
            let value: T = codec::decode_prefix(VERSION, &mut bytes).ok()?;
            Some(codec::encode(VERSION, &value))
        };
        Self { name, version: Some(VERSION), rewrite, sample }
    }

    /// One that is read and written by other functions than the codec's.
    pub(crate) const fn rewritten(self, rewrite: fn(&[u8]) -> Option<Vec<u8>>) -> Self {
        Self { rewrite, ..self }
    }
}

/// All layouts.
pub fn layouts() -> Vec<Layout> {
    let mut all = vec![
        Layout::of::<Record, { codec::RECORD }>("record"),
        Layout::of::<Batch, { codec::BATCH }>("batch"),
    ];
    all.extend(raft::layouts());
    all.extend(router::layouts());
    all.push(storage::layout());
    all.push(transport::layout());
    all
}

#[cfg(test)]
mod tests;
