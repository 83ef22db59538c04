//! The policy that the tests run under.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The API key of a tenant, for the gateway and the claims API.
pub(crate) fn api_key(tenant: &str) -> String {
    format!("secret of {tenant}")
}

/// A policy for these tenants, with these operations behind `[defaults]`.
pub(crate) fn policy(tenants: &[&str], rest: &str) -> String {
    let mut text = String::new();
    for tenant in tenants {
        let digest = digest(&api_key(tenant));
        writeln!(
            text,
            "[[tenant]]\nname = \"{tenant}\"\ncredentials = [{{ name = \"web\", \
             api_key_sha256 = \"{digest}\", use = [\"gateway\", \"claims\"] }}]"
        )
        .unwrap();
    }
    text + rest
}

/// An admin for the end of a policy; the name is the token as well.
pub(crate) fn admin(name: &str, role: &str) -> String {
    let digest = digest(name);
    format!("[[admin]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken_sha256 = \"{digest}\"\n")
}

fn digest(secret: &str) -> String {
    Sha256::digest(secret).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Short leases, so that tests need not wait long for them to end.
pub(crate) const SHORT_LEASES: &str = "
[defaults]
lease = \"2s\"
answer_within = \"10s\"
max_execution = \"10s\"
";
