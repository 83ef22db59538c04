use serde_json::{Value, json};

use super::*;
use crate::tenant::tests::issuer::{Key, jwks, with, without};

fn parse(keys: &[Value]) -> Result<KeySet, String> {
    KeySet::parse(jwks(keys).as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_key_is_for_the_one_algorithm_of_its_kind() {
    let set = parse(&[Key::rsa().jwk("r"), Key::ec().jwk("e"), Key::ed().jwk("d")]).unwrap();
    let algorithm = |kid| set.get(kid).map(|key| key.algorithm);
    assert_eq!(algorithm("r"), Some(Algorithm::RS256));
    assert_eq!(algorithm("e"), Some(Algorithm::ES256));
    assert_eq!(algorithm("d"), Some(Algorithm::EdDSA));
    assert_eq!(algorithm("x"), None);
    let named = with(Key::ed().jwk("d"), "alg", json!("Ed25519"));
    assert!(parse(&[named]).is_ok());
}

#[test]
fn keys_that_no_token_may_be_verified_with_are_left_out() {
    let rsa = || without(Key::rsa().jwk("no"), "alg");
    let secret = json!({ "kty": "oct", "kid": "no", "k": "c2VjcmV0", "alg": "HS256" });
    let short = URL_SAFE_NO_PAD.encode([0xff; 128]);
    let padded = URL_SAFE_NO_PAD.encode([&[0; 128][..], &[0xff; 128]].concat());
    let long = URL_SAFE_NO_PAD.encode([0xff; 513]);
    for unusable in [
        secret,
        without(rsa(), "kid"),
        with(rsa(), "kid", json!("")),
        with(rsa(), "kid", json!("k".repeat(KID_BYTES_MAX + 1))),
        with(rsa(), "use", json!("enc")),
        with(rsa(), "key_ops", json!(["sign"])),
        with(rsa(), "alg", json!("RS512")),
        with(rsa(), "alg", json!("HS256")),
        with(rsa(), "n", json!(short)),
        with(rsa(), "n", json!(padded)),
        with(rsa(), "n", json!(long)),
        without(rsa(), "e"),
        with(Key::ec().jwk("no"), "crv", json!("P-384")),
        with(Key::ed().jwk("no"), "crv", json!("X25519")),
        json!({ "kty": "unheard-of", "kid": "no" }),
    ] {
        let keys = [unusable, Key::ec().jwk("yes")];
        assert_eq!(parse(&keys[..1]).unwrap_err(), KeySetError::Empty.to_string());
        let set = parse(&keys).unwrap();
        assert!(set.get("no").is_none() && set.get("yes").is_some(), "{}", keys[0]);
    }
}

#[test]
fn what_is_no_set_or_could_mean_two_things_is_refused() {
    for text in ["", "{}", "[]", "{\"keys\":{}}", "{\"keys\":[{\"kid\":1}]}", "{\"keys\":[]}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    let twice = parse(&[Key::ec().jwk("k"), Key::ed().jwk("k")]);
    assert_eq!(twice.unwrap_err(), KeySetError::Ambiguous.to_string());
    let many: Vec<_> = (0..=KEYS_MAX).map(|n| Key::ed().jwk(&n.to_string())).collect();
    assert_eq!(parse(&many).unwrap_err(), KeySetError::TooMany.to_string());
    assert!(parse(&many[..KEYS_MAX]).is_ok());
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jwks.json");
    assert!(matches!(KeySet::read(&path), Err(KeySetError::Unreadable(_))));
    let mut text = jwks(&[Key::ec().jwk("k")]);
    std::fs::write(&path, &text).unwrap();
    assert!(KeySet::read(&path).unwrap().get("k").is_some());
    text += &" ".repeat(FILE_BYTES_MAX as usize);
    std::fs::write(&path, &text).unwrap();
    assert!(matches!(KeySet::read(&path), Err(KeySetError::TooLarge)));
}
