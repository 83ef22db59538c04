//! Tests of encoded bodies. The encoded ones were made by the reference encoders.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const JSON: &str = r#"{"amount":12.50,"currency":"EUR"}"#;

const GZIP: &str = "\
    1f8b0800000000000003ab564acccd2fcd2b51b23234d23335d0514a2e2d2a4acd4bae54b252720d \
    0d52aa0500163e464421000000";
const ZLIB: &str = "\
    789cab564acccd2fcd2b51b23234d23335d0514a2e2d2a4acd4bae54b252720d0d52aa0500b2470a \
    46";
const BARE: &str = "ab564acccd2fcd2b51b23234d23335d0514a2e2d2a4acd4bae54b252720d0d52aa0500";
const BROTLI: &str = "0b10807b22616d6f756e74223a31322e35302c2263757272656e6379223a22455552227d03";
const ZSTD: &str = "\
    28b52ffd04580901007b22616d6f756e74223a31322e35302c2263757272656e6379223a22455552 \
    227d9636af47";
/// First gzip, then brotli.
const BOTH: &str = "\
    0b1a801f8b0800000000000003ab564acccd2fcd2b51b23234d23335d0514a2e2d2a4acd4bae54b2 \
    52720d0d52aa0500163e46442100000003";
/// Ten mebibytes of zeros.
const BROTLI_BOMB: &str = "cbffff3ff82700e2b14020f7fe2fffff3ff04f00c4611180eefd07";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn headers(lines: &[&'static str]) -> HeaderMap {
    lines.iter().map(|line| (CONTENT_ENCODING, HeaderValue::from_static(line))).collect()
}

fn content<'a>(lines: &[&'static str], body: &'a [u8]) -> Content<'a> {
    Content::of(&headers(lines), body, 1 << 20).unwrap()
}

fn plain(body: &str) -> Content<'_> {
    Content { body: body.as_bytes().into(), encoding: None }
}

/// The bodies, each with its encoding.
fn encoded() -> [(&'static str, Vec<u8>); 5] {
    [("gzip", GZIP), ("deflate", ZLIB), ("deflate", BARE), ("br", BROTLI), ("zstd", ZSTD)]
        .map(|(name, hex)| (name, bytes(hex)))
}

/// A zstd frame with this byte for its window and so many blocks of 128 KiB zeros.
fn zstd_zeros(window: u8, blocks: usize) -> Vec<u8> {
    let block = |last: u32| {
        let header = (last | 1 << 1 | (128 << 10) << 3).to_le_bytes();
        [header[0], header[1], header[2], 0]
    };
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    (1..blocks).for_each(|_| frame.extend(block(0)));
    frame.extend(block(1));
    frame
}

fn gzip_zeros(mebibytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    (0..mebibytes).for_each(|_| encoder.write_all(&[0; 1 << 20]).unwrap());
    encoder.finish().unwrap()
}

#[test]
fn c43_every_known_encoding_is_undone() {
    for (name, body) in encoded() {
        assert_eq!(content(&[name], &body), plain(JSON), "{name}");
    }
    assert_eq!(content(&["X-GZip"], &bytes(GZIP)), plain(JSON));
    let two_members = bytes(GZIP).repeat(2);
    assert_eq!(content(&["gzip"], &two_members), plain(&JSON.repeat(2)));
    let two_frames = bytes(ZSTD).repeat(2);
    assert_eq!(content(&["zstd"], &two_frames), plain(&JSON.repeat(2)));
}

#[test]
fn several_encodings_are_undone_from_the_last_to_the_first() {
    let both = bytes(BOTH);
    let spellings: [&[&str]; 4] =
        [&["gzip, br"], &["gzip", "br"], &["GZIP ,,identity, Br,"], &["identity", "gzip,br"]];
    for lines in spellings {
        assert_eq!(content(lines, &both), plain(JSON), "{lines:?}");
    }
    assert_eq!(content(&["br, gzip"], &both).encoding.as_deref(), Some("br,gzip"));
}

#[test]
fn a_body_that_is_not_encoded_stays_as_it_is() {
    for lines in [&[][..], &["identity"], &[""], &["identity", ", identity"]] {
        assert_eq!(content(lines, JSON.as_bytes()), plain(JSON), "{lines:?}");
    }
    assert_eq!(content(&["gzip"], b""), plain(""));
    assert_eq!(content(&["unheard-of"], b""), plain(""));
}

#[test]
fn what_is_not_what_its_encoding_says_is_compared_as_it_came() {
    let raw = |name: &str, body: &[u8]| Content {
        body: Cow::Owned(body.to_vec()),
        encoding: Some(name.to_owned()),
    };
    for (name, body) in encoded() {
        for end in [1, body.len() / 2, body.len() - 1] {
            assert_eq!(content(&[name], &body[..end]), raw(name, &body[..end]), "{name} {end}");
        }
        let longer = [&body[..], b"x"].concat();
        assert_eq!(content(&[name], &longer), raw(name, &longer), "{name}");
        assert_eq!(content(&[name], JSON.as_bytes()), raw(name, JSON.as_bytes()));
    }
    for line in ["gzip, aws-chunked", "compress", "gzip;q=1"] {
        assert_eq!(content(&[line], b"{}").encoding, Some(line.replace(", ", ",")));
    }
    let chain = ["gzip,gzip,gzip,gzip,gzip"];
    assert_eq!(content(&chain, &bytes(GZIP)).encoding.as_deref(), Some(chain[0]));
}

#[test]
fn c43_a_bomb_is_too_large_whatever_packs_it() {
    let bombs = [
        ("gzip", gzip_zeros(64)),
        ("br", bytes(BROTLI_BOMB)),
        ("zstd", zstd_zeros(0x50, 80)),
        ("deflate", {
            let gzip = gzip_zeros(64);
            gzip[10..gzip.len() - 8].to_vec()
        }),
    ];
    for (name, body) in bombs {
        assert!(body.len() < 1 << 19, "{name}: {} bytes", body.len());
        assert_eq!(
            Content::of(&headers(&[name]), &body, 1 << 20),
            Err(TooLarge { limit: 1 << 20 }),
            "{name}"
        );
    }
    let nested = {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&gzip_zeros(64)).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(
        Content::of(&headers(&["gzip, gzip"]), &nested, 1 << 20),
        Err(TooLarge { limit: 1 << 20 })
    );
}

#[test]
fn the_limit_is_exact() {
    for (name, body) in encoded() {
        let length = JSON.len() as u64;
        assert_eq!(Content::of(&headers(&[name]), &body, length), Ok(plain(JSON)), "{name}");
        assert_eq!(
            Content::of(&headers(&[name]), &body, length - 1),
            Err(TooLarge { limit: length - 1 }),
            "{name}"
        );
    }
}

#[test]
fn a_window_that_http_does_not_allow_is_refused() {
    let zeros = "\0".repeat(128 << 10);
    assert_eq!(content(&["zstd"], &zstd_zeros(0x68, 1)), plain(&zeros));
    for window in [0x70, 0xf8] {
        assert!(content(&["zstd"], &zstd_zeros(window, 1)).encoding.is_some(), "{window:x}");
    }
}

/// Whatever bytes come under whatever name, decoding ends within its limit and without a panic.
#[test]
fn spoilt_bodies_do_no_harm() {
    let mut rng = StdRng::seed_from_u64(0xdec0de);
    for _ in 0..4_000 {
        let (name, mut body) = encoded()[rng.random_range(0..5)].clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..body.len());
            body[at] = rng.random();
        }
        if let Ok(content) = Content::of(&headers(&[name]), &body, 1 << 16) {
            assert!(content.body.len() <= 1 << 16);
        }
    }
}
