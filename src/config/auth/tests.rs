use std::fs;

use tempfile::TempDir;

use crate::config::Policy;
use crate::tenant::issuer::{Key, jwks};

const DIGEST: &str = "ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567";

/// A folder with a file of keys, where a policy lies.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jwks.json"), jwks(&[Key::ed().jwk("k")])).unwrap();
    fs::write(folder.path().join("empty.json"), "{\"keys\":[]}").unwrap();
    folder
}

fn policy(text: &str) -> Result<Policy, String> {
    let folder = folder();
    Policy::parse(&folder.path().join("policy.toml"), text)
        .map(|(policy, _)| policy)
        .map_err(|refused| refused.to_string())
}

fn assert_refused(text: &str, line: usize, rule: &str) {
    let found = policy(text).expect_err("the policy is refused");
    let place = format!("policy.toml:{line}:");
    let found_there = |it: &str| it.contains(&place) && it.contains(&format!("error[{rule}]"));
    assert!(found.lines().any(found_there), "{text}\n-> {found}");
}

fn jwt(more: &str) -> String {
    format!(
        "[auth.jwt]\nissuer = \"https://id.example\"\naudience = \"payments\"\n\
         tenant_claim = \"tid\"\n{more}\n"
    )
}

fn trusted(name: &str, secret_header: &str) -> String {
    format!(
        "[auth.trusted_header]\nname = \"{name}\"\nsecret_header = \"{secret_header}\"\n\
         secret_sha256 = \"{DIGEST}\"\n"
    )
}

#[test]
fn an_issuer_is_read_with_its_keys_beside_the_policy() {
    let read = policy(&jwt("jwks_file = \"jwks.json\"")).unwrap().auth.jwt.unwrap();
    assert_eq!((read.issuer.as_str(), read.audience.as_str()), ("https://id.example", "payments"));
    assert_eq!(read.tenant_claim, "tid");
    assert!(read.jwks_file.is_absolute() && read.jwks_file.ends_with("jwks.json"));
    assert_eq!(policy("").unwrap().auth, super::AuthSettings::default());
    assert_eq!(policy("[auth]\n").unwrap().auth, super::AuthSettings::default());
}

#[test]
fn an_issuer_that_could_never_be_believed_is_refused_with_its_place() {
    for file in ["missing.json", "empty.json", "."] {
        assert_refused(&jwt(&format!("jwks_file = \"{file}\"")), 5, "jwks-file");
    }
    assert_refused(&jwt(""), 1, "missing");
    assert_refused(&jwt("jwks_file = \"jwks.json\"\njwks_url = \"x\""), 6, "unknown-name");
    let file = "jwks_file = \"jwks.json\"";
    for setting in ["issuer", "audience", "tenant_claim"] {
        let empty = jwt(file).replace(
            jwt(file).lines().find(|line| line.starts_with(setting)).unwrap(),
            &format!("{setting} = \"\""),
        );
        let line = empty.lines().position(|line| line.starts_with(setting)).unwrap() + 1;
        assert_refused(&empty, line, "wrong-value");
    }
    assert_refused("[auth]\njwt = \"x\"\n", 2, "wrong-type");
    assert_refused("auth = 1\n", 1, "wrong-type");
}

#[test]
fn a_trusted_gateway_is_read_with_headers_of_its_own() {
    let read = policy(&trusted("X-Tenant", "X-Gateway-Secret")).unwrap();
    let read = read.auth.trusted_header.unwrap();
    assert_eq!((read.name.as_str(), read.secret_header.as_str()), ("x-tenant", "x-gateway-secret"));
    assert_eq!(read.secret_sha256[0], 0xef);
    for name in ["Authorization", "Idempotency-Key", "X-Forwarded-For", "Host", "a b", "Via"] {
        assert_refused(&trusted(name, "X-Secret"), 2, "forbidden-header");
        assert_refused(&trusted("X-Tenant", name), 3, "forbidden-header");
    }
    assert_refused(&trusted("X-Tenant", "x-tenant"), 3, "wrong-value");
    assert_refused(&trusted("X-Tenant", "X-Secret").replace(DIGEST, "00"), 4, "wrong-value");
    let key = format!(
        "{}[[tenant]]\nname = \"a\"\ncredentials = [{{ name = \"web\", use = [\"gateway\"], \
         api_key_sha256 = \"{DIGEST}\" }}]\n",
        trusted("X-Tenant", "X-Secret")
    );
    assert_refused(&key, 7, "duplicate");
}

#[test]
fn a_trusted_gateways_headers_are_nobody_elses() {
    let auth = trusted("X-Tenant", "X-Secret");
    let with = |lines: &str| format!("{auth}[[operation]]\nmatch = \"POST /x\"\n{lines}\n");
    for name in ["x-tenant", "X-Secret"] {
        assert_refused(&with(&format!("headers = [\"{name}\"]")), 5, "forbidden-header");
        let defaults = format!("{auth}[defaults]\nheaders = [\"{name}\"]\n");
        assert_refused(&defaults, 5, "forbidden-header");
    }
    assert_refused(&with("forward = { tenant_header = \"X-Secret\" }"), 5, "forbidden-header");
    assert!(policy(&with("forward = { tenant_header = \"X-Tenant\" }")).is_ok());
}

#[test]
fn no_configured_credential_is_called_like_a_caller_without_one() {
    for name in ["jwt:", "jwt:alice", "trusted-header"] {
        let tenant = format!(
            "[[tenant]]\nname = \"a\"\ncredentials = [{{ name = \"{name}\", use = [\"claims\"], \
             api_key_sha256 = \"{DIGEST}\" }}]\n"
        );
        assert_refused(&tenant, 3, "wrong-value");
    }
}
