//! The policy that the clusters under test run under.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The tenants.
pub const TENANTS: [&str; 4] = ["acme", "bolt", "cord", "dyne"];

/// The token of the only admin.
pub const ADMIN: &str = "admin of the fault tests";

/// How long the outcomes of the operation `short` are kept, in milliseconds.
pub const SHORT_RETENTION_MS: u64 = 3000;

/// The lease of every operation, in milliseconds.
pub const LEASE_MS: u64 = 2000;

/// The longest execution of every operation, in milliseconds.
pub const MAX_EXECUTION_MS: u64 = 4000;

/// Operations: name, path, settings. Every one is named as its path.
const OPERATIONS: &str = r#"
[defaults]
lease = "2s"
answer_within = "4s"
max_execution = "4s"
forward = { tenant_header = "X-Ledger-Tenant" }

[[operation]]
match = "POST /orders"
name = "orders"

[[operation]]
match = "POST /claims"
name = "claims"

[[operation]]
match = "POST /again"
name = "again"
on_unknown = "takeover"
downstream = [{ idempotent = true, retention = "24h" }]

[[operation]]
match = "POST /accounts"
name = "accounts"
scope_by = ["header:X-Account"]

[[operation]]
match = "POST /short"
name = "short"
retention = "3s"
short_retention = true
retry_budget = { attempts = 1, max_backoff = "100ms" }
"#;

/// The API key of a tenant.
pub fn api_key(tenant: &str) -> String {
    format!("{tenant} asks for itself")
}

/// Whether an execution of an operation may be repeated after its lease: its upstream is declared
/// idempotent.
pub fn may_be_taken_over(operation: &str) -> bool {
    operation == "again"
}

/// For how long an operation's outcomes are kept, in milliseconds; `None`: past the end of any run.
pub fn retention_ms(operation: &str) -> Option<u64> {
    (operation == "short").then_some(SHORT_RETENTION_MS)
}

/// The policy file.
pub fn policy() -> String {
    let mut text = String::new();
    for tenant in TENANTS {
        let digest = digest(api_key(tenant));
        let credential = format!(
            "name = \"all\", api_key_sha256 = \"{digest}\", use = [\"gateway\", \"claims\"]"
        );
        text += &format!("[[tenant]]\nname = \"{tenant}\"\ncredentials = [{{ {credential} }}]\n");
    }
    let digest = digest(ADMIN);
    text += &format!(
        "[[admin]]\nname = \"ops\"\nrole = \"operator\"\ntoken_sha256 = \"{digest}\"\n{OPERATIONS}"
    );
    text
}

/// A SHA-256 digest in hexadecimal digits.
pub fn digest(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
