//! Who looks after the cluster: an admin, from a verified token and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;

use crate::config::{AdminSettings, Policy, Role};
use crate::problem::{Code, Problem};
use crate::tenant::{bearer_digest, unauthenticated};

/// Every admin of the policy, by the digest of the token; see [`Tenants`](crate::tenant::Tenants)
/// on why it is looked up like this.
#[derive(Clone, Debug, Default)]
pub struct Admins {
    by_token: Arc<HashMap<[u8; 32], AdminSettings>>,
}

impl Admins {
    /// The admins of a policy.
    pub fn new(policy: &Policy) -> Self {
        let admins = policy.admins.iter();
        let by_token = admins.map(|admin| (admin.token_sha256, admin.clone())).collect();
        Self { by_token: Arc::new(by_token) }
    }

    /// The admin that the one `Authorization: Bearer TOKEN` line proves.
    ///
    /// # Errors
    /// `unauthenticated` without exactly one such line with a known token; `forbidden` when the
    /// admin's role is less than `needed`.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        needed: Role,
    ) -> Result<&AdminSettings, Problem> {
        let Some(admin) = self.by_token.get(&bearer_digest(headers)?) else {
            return Err(unauthenticated("the token is not an admin's"));
        };
        if admin.role < needed {
            let detail = "the admin may look, but not change anything";
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(admin)
    }
}
