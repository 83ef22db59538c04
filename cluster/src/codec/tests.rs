//! Layouts stay what they are, and hostile bytes are refused without harm.

use std::collections::BTreeMap;
use std::fmt::Debug;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;

use super::*;

const VERSION: u8 = 7;

/// One of everything that our layouts are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    small: u8,
    number: u64,
    text: String,
    bytes: Bytes,
    fixed: [u8; 4],
    map: BTreeMap<u64, Vec<u16>>,
    choice: Option<Choice>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Choice {
    Nothing,
    Something(Vec<(u32, String)>),
}

fn sample() -> Sample {
    Sample {
        small: 255,
        number: 1_700_000_000_000,
        text: "grüße".to_owned(),
        bytes: Bytes::from_static(b"\0\x01\xff"),
        fixed: [1, 2, 3, 4],
        map: BTreeMap::from([(250, vec![]), (251, vec![1, 1000])]),
        choice: Some(Choice::Nothing),
    }
}

fn larger() -> Sample {
    let listed = vec![(7, "x".repeat(300)), (70_000, String::new())];
    Sample { choice: Some(Choice::Something(listed)), ..sample() }
}

fn refused<T: Debug>(result: Result<T, CodecError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn values_come_back_whole() {
    for value in [sample(), larger()] {
        let bytes = encode(VERSION, &value);
        assert_eq!(bytes[0], VERSION);
        assert_eq!(decode::<Sample>(VERSION, &bytes).unwrap(), value);
    }
}

#[test]
fn the_layout_does_not_move() {
    let expected = [
        &[VERSION, 255][..],
        &[253, 0x00, 0x68, 0xe5, 0xcf, 0x8b, 0x01, 0, 0],
        &[7, b'g', b'r', 0xc3, 0xbc, 0xc3, 0x9f, b'e'],
        &[3, 0, 1, 255],
        &[1, 2, 3, 4],
        &[2, 250, 0, 251, 251, 0, 2, 1, 251, 0xe8, 0x03],
        &[1, 0],
    ];
    assert_eq!(encode(VERSION, &sample()), expected.concat());
}

#[test]
fn another_version_is_told_from_damage() {
    let bytes = encode(VERSION, &sample());
    let error = decode::<Sample>(VERSION + 1, &bytes).unwrap_err();
    assert!(matches!(error, CodecError::Version { expected: 8, found: 7 }), "{error}");
}

#[test]
fn every_cut_and_every_byte_more_is_refused() {
    let mut bytes = encode(VERSION, &larger());
    for cut in 0..bytes.len() {
        assert_eq!(refused(decode::<Sample>(VERSION, &bytes[..cut])), "value is cut off", "{cut}");
    }
    bytes.push(0);
    assert_eq!(refused(decode::<Sample>(VERSION, &bytes)), "bytes follow the value");
}

#[test]
fn values_are_taken_off_the_front_one_by_one() {
    let mut bytes = b"before".to_vec();
    encode_into(&mut bytes, VERSION, &sample());
    encode_into(&mut bytes, VERSION + 1, &7_u64);
    bytes.extend_from_slice(b"rest");
    let mut front = Bytes::from(bytes).slice(6..);
    assert_eq!(decode_prefix::<Sample>(VERSION, &mut front).unwrap(), sample());
    let before = front.clone();
    assert!(decode_prefix::<u64>(VERSION, &mut front).is_err());
    assert_eq!(front, before, "a refused value was taken off");
    assert_eq!(decode_prefix::<u64>(VERSION + 1, &mut front).unwrap(), 7);
    assert_eq!(front, "rest");
}

#[test]
fn a_claim_of_more_than_any_value_holds_is_refused() {
    let claiming = |len: u64| [&[VERSION, 253][..], &len.to_le_bytes(), b"abc"].concat();
    for len in [u64::MAX, 1 << 40, CLAIM_MAX as u64 + 1] {
        let error = decode::<Bytes>(VERSION, &claiming(len)).unwrap_err();
        assert!(matches!(error, CodecError::TooLarge), "{len}: {error}");
        assert!(decode::<String>(VERSION, &claiming(len)).is_err());
        assert!(decode::<Vec<u64>>(VERSION, &claiming(len)).is_err());
        assert!(decode::<BTreeMap<u64, u64>>(VERSION, &claiming(len)).is_err());
    }
    assert_eq!(refused(decode::<Bytes>(VERSION, &claiming(1 << 20))), "value is cut off");
}

#[test]
fn the_largest_value_can_be_read_and_a_larger_one_is_not_written() {
    // The version, and a length in five bytes.
    let largest = Bytes::from(vec![7; BYTES_MAX - 6]);
    let bytes = encode(VERSION, &largest);
    assert_eq!(bytes.len(), BYTES_MAX);
    assert_eq!(decode::<Bytes>(VERSION, &bytes).unwrap(), largest);

    let larger = Bytes::from(vec![7; BYTES_MAX - 5]);
    std::panic::catch_unwind(|| encode(VERSION, &larger)).unwrap_err();
    let forged = [&[VERSION, 252][..], &(larger.len() as u32).to_le_bytes(), &larger].concat();
    assert_eq!(forged.len(), BYTES_MAX + 1);
    let error = decode::<Bytes>(VERSION, &forged).unwrap_err();
    assert!(matches!(error, CodecError::TooLarge), "{error}");
}

#[test]
fn malformed_parts_are_refused() {
    assert!(decode::<bool>(VERSION, &[VERSION, 2]).is_err());
    assert!(decode::<String>(VERSION, &[VERSION, 2, 0xff, 0xfe]).is_err());
    assert!(decode::<Option<u8>>(VERSION, &[VERSION, 3, 1]).is_err());
    assert!(decode::<Choice>(VERSION, &[VERSION, 9]).is_err());
    assert!(decode::<u16>(VERSION, &[VERSION, 253, 0, 0, 1, 0, 0, 0, 0, 0]).is_err());
    assert_eq!(refused(decode::<u8>(VERSION, &[])), "value is cut off");
}

/// Whatever is decoded from hostile bytes is a value like any other.
#[test]
fn hostile_bytes_neither_panic_nor_give_what_cannot_be_encoded() {
    let mut rng = StdRng::seed_from_u64(42);
    let honest = encode(VERSION, &larger());
    let mut decoded = 0;
    for round in 0..20_000 {
        let mut bytes = if round % 2 == 0 {
            (0..rng.random_range(0..80)).map(|_| rng.random()).collect()
        } else {
            honest.clone()
        };
        for _ in 0..rng.random_range(1..4) {
            if !bytes.is_empty() {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
        }
        if let Some(version) = bytes.first_mut() {
            *version = VERSION;
        }
        if let Ok(value) = decode::<Sample>(VERSION, &bytes) {
            let again = encode(VERSION, &value);
            assert_eq!(decode::<Sample>(VERSION, &again).unwrap(), value, "round {round}");
            decoded += 1;
        }
    }
    assert!(decoded > 100, "hardly anything decoded: {decoded}");
}
