use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SALT: u32 = 0x5eed;

fn random_payload(rng: &mut StdRng) -> Vec<u8> {
    let mut payload = vec![0; rng.random_range(0..100)];
    rng.fill(&mut payload[..]);
    payload
}

fn one(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, ShardId(7), 3, &[payload]);
    seal(&mut bytes, 9, SALT);
    bytes
}

#[test]
fn random_groups_come_back_as_they_were_pushed() {
    let mut rng = StdRng::seed_from_u64(1);
    for group in 0..200 {
        let frames: Vec<(u16, u8, Vec<u8>)> = (0..rng.random_range(1..20))
            .map(|_| (rng.random(), rng.random_range(0..LAST), random_payload(&mut rng)))
            .collect();
        let mut bytes = Vec::new();
        for (shard, kind, payload) in &frames {
            let (head, tail) = payload.split_at(payload.len() / 2);
            push(&mut bytes, ShardId(*shard), *kind, &[head, tail]);
        }
        seal(&mut bytes, group, SALT);

        let walked: Vec<Frame> = walk(&bytes).collect();
        let mut rest = &bytes[..];
        for (place, (shard, kind, payload)) in frames.iter().enumerate() {
            let (frame, taken) = decode(rest, SALT).unwrap();
            let last = place + 1 == frames.len();
            let (shard, kind) = (ShardId(*shard), *kind);
            assert_eq!(frame, Frame { group, last, shard, kind, payload });
            assert_eq!(frame, walked[place]);
            assert_eq!((taken, taken % ALIGN), (frame_bytes(payload.len()), 0));
            rest = &rest[taken..];
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let intact = one(b"seventeen letters");
    for bit in 0..intact.len() * 8 {
        let mut bytes = intact.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decode(&bytes, SALT).unwrap_err();
        let in_header = bit / 8 < HEADER_BYTES;
        assert_eq!(error, if in_header { FrameError::Header } else { FrameError::Payload });
        assert_eq!(group_at(&bytes, SALT).is_some(), !in_header, "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let intact = one(b"seventeen letters");
    for cut in 0..intact.len() {
        let error = decode(&intact[..cut], SALT).unwrap_err();
        let expected = if cut < HEADER_BYTES { FrameError::Header } else { FrameError::Short };
        assert_eq!(error, expected, "cut at {cut}");
    }
}

#[test]
fn another_salt_never_matches() {
    let bytes = one(b"payload");
    for salt in (0..32).map(|bit| SALT ^ (1 << bit)).chain([0, u32::MAX]) {
        assert_eq!(decode(&bytes, salt), Err(FrameError::Header));
        assert_eq!(group_at(&bytes, salt), None);
    }
}

#[test]
fn an_intact_frame_of_another_version_is_told_from_garbage() {
    let mut bytes = one(b"");
    bytes[23] = 2;
    let check = checksum(&bytes[4..HEADER_BYTES], SALT);
    bytes[..4].copy_from_slice(&check.to_le_bytes());
    assert_eq!(decode(&bytes, SALT), Err(FrameError::Version(2)));
}

#[test]
fn hostile_bytes_are_refused_without_a_panic() {
    let mut rng = StdRng::seed_from_u64(2);
    for _ in 0..20_000 {
        let mut bytes = random_payload(&mut rng);
        // Half of them have a header that is intact and lies about its length.
        if bytes.len() >= HEADER_BYTES && rng.random() {
            bytes[23] = VERSION;
            let check = checksum(&bytes[4..HEADER_BYTES], SALT);
            bytes[..4].copy_from_slice(&check.to_le_bytes());
            assert!(matches!(decode(&bytes, SALT), Err(FrameError::Short | FrameError::Payload)));
        } else {
            assert_eq!(decode(&bytes, SALT), Err(FrameError::Header));
        }
    }
}
