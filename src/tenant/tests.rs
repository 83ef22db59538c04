use std::path::Path;

use http::HeaderValue;

use super::*;

fn hex(key: &str) -> String {
    Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tenants() -> Tenants {
    let text = format!(
        "[[tenant]]\nname = \"acme\"\ncredentials = [\n\
         {{ name = \"web\", api_key_sha256 = \"{}\", use = [\"gateway\"] }},\n\
         {{ name = \"worker\", api_key_sha256 = \"{}\", use = [\"claims\"] }}]\n\
         [[tenant]]\nname = \"other\"\ncredentials = [\n\
         {{ name = \"web\", api_key_sha256 = \"{}\", use = [\"gateway\", \"claims\"] }}]\n",
        hex("web-key"),
        hex("worker-key"),
        hex("other-key")
    );
    let (policy, _) = Policy::parse(Path::new("policy.toml"), &text).unwrap();
    Tenants::new(&policy)
}

fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
    }
    headers
}

fn code(lines: &[&str], wanted: Use) -> Option<Code> {
    tenants().authenticate(&headers(lines), wanted).err().map(|problem| problem.code())
}

#[test]
fn a_known_key_proves_its_tenant_and_credential() {
    let tenants = tenants();
    let headers = headers(&["Bearer web-key"]);
    let identity = tenants.authenticate(&headers, Use::Gateway).unwrap();
    assert_eq!((&*identity.tenant, &*identity.credential), ("acme", "web"));
}

#[test]
fn the_scheme_matters_in_no_case_and_space_around_the_key_neither() {
    for line in ["bearer web-key", "BEARER  web-key ", "Bearer web-key"] {
        assert_eq!(code(&[line], Use::Gateway), None, "{line}");
    }
}

#[test]
fn nobody_without_exactly_one_known_key_is_let_in() {
    let long = format!("Bearer {}", "k".repeat(KEY_BYTES_MAX + 1));
    let refused: [&[&str]; 9] = [
        &[],
        &["Bearer nobody"],
        &["Bearer web-key", "Bearer web-key"],
        &["Basic web-key"],
        &["web-key"],
        &["Bearer"],
        &["Bearer "],
        &["Bearer WEB-KEY"],
        &[&long],
    ];
    for lines in refused {
        assert_eq!(code(lines, Use::Gateway), Some(Code::Unauthenticated), "{lines:?}");
    }
}

#[test]
fn a_key_is_of_no_use_for_what_it_was_not_made_for() {
    assert_eq!(code(&["Bearer web-key"], Use::Claims), Some(Code::Forbidden));
    assert_eq!(code(&["Bearer worker-key"], Use::Gateway), Some(Code::Forbidden));
    assert_eq!(code(&["Bearer other-key"], Use::Claims), None);
}

#[test]
fn no_two_credentials_have_one_qualified_name() {
    let name = |tenant: &str, credential: &str| {
        Identity { tenant: tenant.into(), credential: credential.into() }.qualified()
    };
    assert_ne!(name("a", "bc"), name("ab", "c"));
    assert_ne!(name("", "a"), name("a", ""));
}
