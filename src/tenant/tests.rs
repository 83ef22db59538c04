use std::path::Path;

use http::HeaderValue;
use tempfile::TempDir;

use super::*;
use issuer::{AUDIENCE, ISSUER, Key, NOW, claims, jwks, with};

pub(crate) mod issuer;

/// The tenants `acme` and `other`, API keys for both, an issuer and a trusted gateway.
struct Bench {
    tenants: Tenants,
    _folder: TempDir,
}

fn hex(key: &str) -> String {
    Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("jwks.json"), jwks(&[Key::ec().jwk("ec")])).unwrap();
        let auth = format!(
            "[auth]\njwt = {{ issuer = \"{ISSUER}\", audience = \"{AUDIENCE}\", \
             jwks_file = \"jwks.json\", tenant_claim = \"tid\" }}\n\
             trusted_header = {{ name = \"X-Tenant\", secret_header = \"X-Secret\", \
             secret_sha256 = \"{}\" }}\n",
            hex("gateway secret")
        );
        let tenants = tenants(&folder.path().join("policy.toml"), &auth);
        Self { tenants, _folder: folder }
    }

    async fn who(&self, headers: &HeaderMap, wanted: Use) -> Result<(String, String), Code> {
        who(&self.tenants, headers, wanted).await
    }
}

fn tenants(file: &Path, auth: &str) -> Tenants {
    let text = format!(
        "{auth}[[tenant]]\nname = \"acme\"\ncredentials = [\n\
         {{ name = \"web\", api_key_sha256 = \"{}\", use = [\"gateway\"] }},\n\
         {{ name = \"worker\", api_key_sha256 = \"{}\", use = [\"claims\"] }}]\n\
         [[tenant]]\nname = \"other\"\ncredentials = [\n\
         {{ name = \"web\", api_key_sha256 = \"{}\", use = [\"gateway\", \"claims\"] }}]\n",
        hex("web-key"),
        hex("worker-key"),
        hex("other-key")
    );
    let (policy, _) = Policy::parse(file, &text).unwrap();
    Tenants::new(&policy)
}

/// Tenant and credential that headers prove.
async fn who(
    tenants: &Tenants,
    headers: &HeaderMap,
    wanted: Use,
) -> Result<(String, String), Code> {
    let now = Timestamp::from_millis(NOW * 1000);
    let found = tenants.authenticate(headers, wanted, now).await;
    found
        .map(|it| (it.tenant.to_string(), it.credential.to_string()))
        .map_err(|problem| problem.code())
}

fn lines(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn headers(values: &[&str]) -> HeaderMap {
    lines(&values.iter().map(|value| ("authorization", *value)).collect::<Vec<_>>())
}

async fn code(lines: &[&str], wanted: Use) -> Option<Code> {
    let tenants = tenants(Path::new("policy.toml"), "");
    who(&tenants, &headers(lines), wanted).await.err()
}

fn is(tenant: &str, credential: &str) -> Result<(String, String), Code> {
    Ok((tenant.to_owned(), credential.to_owned()))
}

#[tokio::test]
async fn a_known_key_proves_its_tenant_and_credential() {
    let tenants = tenants(Path::new("policy.toml"), "");
    let found = who(&tenants, &headers(&["Bearer web-key"]), Use::Gateway).await;
    assert_eq!(found, is("acme", "web"));
}

#[tokio::test]
async fn the_scheme_matters_in_no_case_and_space_around_the_key_neither() {
    for line in ["bearer web-key", "BEARER  web-key ", "Bearer web-key"] {
        assert_eq!(code(&[line], Use::Gateway).await, None, "{line}");
    }
}

#[tokio::test]
async fn nobody_without_exactly_one_known_key_is_let_in() {
    let long = format!("Bearer {}", "k".repeat(TOKEN_BYTES_MAX + 1));
    let token = format!("Bearer {}", Key::ec().sign(Some("ec"), &claims()));
    let refused: [&[&str]; 10] = [
        &[],
        &["Bearer nobody"],
        &["Bearer web-key", "Bearer web-key"],
        &["Basic web-key"],
        &["web-key"],
        &["Bearer"],
        &["Bearer "],
        &["Bearer WEB-KEY"],
        &[&long],
        // A policy that names no issuer takes no token.
        &[&token],
    ];
    for lines in refused {
        assert_eq!(code(lines, Use::Gateway).await, Some(Code::Unauthenticated), "{lines:?}");
    }
}

#[tokio::test]
async fn a_key_is_of_no_use_for_what_it_was_not_made_for() {
    assert_eq!(code(&["Bearer web-key"], Use::Claims).await, Some(Code::Forbidden));
    assert_eq!(code(&["Bearer worker-key"], Use::Gateway).await, Some(Code::Forbidden));
    assert_eq!(code(&["Bearer other-key"], Use::Claims).await, None);
}

#[tokio::test]
async fn a_token_proves_a_configured_tenant_and_its_subject() {
    let bench = Bench::new();
    let token = |claims| format!("Bearer {}", Key::ec().sign(Some("ec"), &claims));
    let own = headers(&[&token(claims())]);
    assert_eq!(bench.who(&own, Use::Gateway).await, is("acme", "jwt:alice"));
    assert_eq!(bench.who(&own, Use::Claims).await, Err(Code::Forbidden));
    let unknown = token(with(claims(), "tid", "nobody".into()));
    assert_eq!(bench.who(&headers(&[&unknown]), Use::Gateway).await, Err(Code::Unauthenticated));
    // A subject that is called like a credential is another one.
    let named = token(with(claims(), "sub", "web".into()));
    assert_eq!(bench.who(&headers(&[&named]), Use::Gateway).await, is("acme", "jwt:web"));
    assert_eq!(bench.who(&headers(&["Bearer web-key"]), Use::Gateway).await, is("acme", "web"));
    for lines in [&["Bearer a.b.c"][..], &[&token(claims()), &token(claims())]] {
        let found = bench.who(&headers(lines), Use::Gateway).await;
        assert_eq!(found, Err(Code::Unauthenticated), "{lines:?}");
    }
}

#[tokio::test]
async fn a_trusted_gateway_names_a_configured_tenant() {
    let bench = Bench::new();
    let named = |tenant| lines(&[("x-tenant", tenant), ("x-secret", "gateway secret")]);
    for tenant in ["acme", "other"] {
        let found = bench.who(&named(tenant), Use::Gateway).await;
        assert_eq!(found, is(tenant, "trusted-header"));
    }
    assert_eq!(bench.who(&named("acme"), Use::Claims).await, Err(Code::Forbidden));
    for unknown in ["", "nobody", "ACME"] {
        let found = bench.who(&named(unknown), Use::Gateway).await;
        assert_eq!(found, Err(Code::Unauthenticated), "{unknown}");
    }
}

#[tokio::test]
async fn nobody_else_names_a_tenant() {
    let bench = Bench::new();
    let (tenant, secret) = (("x-tenant", "acme"), ("x-secret", "gateway secret"));
    // The key of a client counts for nothing beside a header that it may not set.
    let key = ("authorization", "Bearer other-key");
    for sent in [
        &[tenant][..],
        &[secret],
        &[tenant, key],
        &[secret, key],
        &[tenant, ("x-secret", "wrong"), key],
        &[tenant, ("x-secret", ""), key],
        &[tenant, ("x-secret", &hex("gateway secret")), key],
        &[tenant, tenant, secret, key],
        &[tenant, ("x-tenant", "other"), secret],
        &[tenant, secret, secret],
        &[tenant, secret, ("x-secret", "wrong")],
    ] {
        for wanted in [Use::Gateway, Use::Claims] {
            let found = bench.who(&lines(sent), wanted).await;
            assert_eq!(found, Err(Code::Unauthenticated), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn where_a_trusted_gateway_speaks_authorization_is_the_upstreams() {
    let bench = Bench::new();
    let token = format!("Bearer {}", Key::ec().sign(Some("ec"), &claims()));
    for authorization in ["Bearer other-key", "Bearer nobody", "Basic YTpi", &token] {
        let sent = lines(&[
            ("x-tenant", "acme"),
            ("x-secret", "gateway secret"),
            ("authorization", authorization),
        ]);
        let found = bench.who(&sent, Use::Gateway).await;
        assert_eq!(found, is("acme", "trusted-header"), "{authorization}");
    }
}

#[test]
fn no_two_credentials_have_one_qualified_name() {
    let name = |tenant: &str, credential: &str| {
        Identity { tenant: tenant.into(), credential: credential.into() }.qualified()
    };
    assert_ne!(name("a", "bc"), name("ab", "c"));
    assert_ne!(name("", "a"), name("a", ""));
}
