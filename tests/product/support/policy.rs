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
        let digest = Sha256::digest(api_key(tenant));
        let digest: String = digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        });
        writeln!(
            text,
            "[[tenant]]\nname = \"{tenant}\"\ncredentials = [{{ name = \"web\", \
             api_key_sha256 = \"{digest}\", use = [\"gateway\", \"claims\"] }}]"
        )
        .unwrap();
    }
    text + rest
}

/// Short leases, so that tests need not wait long for them to end.
pub(crate) const SHORT_LEASES: &str = "
[defaults]
lease = \"2s\"
answer_within = \"10s\"
max_execution = \"10s\"
";
