//! TLS to an upstream: whom the gateway believes to be the upstream that it was told.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use http::Uri;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

/// What is offered in the handshake: the one version of HTTP that upstreams are asked in.
const ALPN: &[u8] = b"http/1.1";

/// How an upstream over TLS has to prove itself. Clones share it.
#[derive(Clone)]
pub struct UpstreamTls {
    config: Arc<ClientConfig>,
}

/// Why nobody could be believed.
#[derive(Debug, Error)]
pub enum UpstreamTlsError {
    /// The system has no certificates of authorities that can be read.
    #[error("the system has no certificate authorities; name a file in \"upstream_ca_file\"")]
    NoSystemRoots,
    /// The file cannot be read as certificates.
    #[error("cannot be read as PEM certificates: {0}")]
    Unreadable(#[from] pem::Error),
    /// A certificate of the file cannot be an authority.
    #[error("holds something that is no certificate of an authority: {0}")]
    NotAnAuthority(rustls::Error),
    /// There is no certificate in the file.
    #[error("holds no certificate")]
    Empty,
}

impl UpstreamTls {
    /// Believes the authorities that the system believes.
    ///
    /// # Errors
    /// When it has none.
    pub fn of_system() -> Result<Self, UpstreamTlsError> {
        let mut roots = RootCertStore::empty();
        // A system's store may well hold a certificate that is of no use; the others still are.
        let (added, _ignored) =
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if added == 0 {
            return Err(UpstreamTlsError::NoSystemRoots);
        }
        Ok(Self::believing(roots))
    }

    /// Believes the authorities of a PEM file, and nobody else.
    ///
    /// # Errors
    /// When the file cannot be read, or has none.
    pub fn of_file(file: &Path) -> Result<Self, UpstreamTlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file)? {
            roots.add(certificate?).map_err(UpstreamTlsError::NotAnAuthority)?;
        }
        if roots.is_empty() {
            return Err(UpstreamTlsError::Empty);
        }
        Ok(Self::believing(roots))
    }

    fn believing(roots: RootCertStore) -> Self {
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has what the default versions need")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Self { config: Arc::new(config) }
    }

    /// The settings of the TLS library.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamTls").finish_non_exhaustive()
    }
}

/// The name that an upstream's certificate must be for; `None` when the host of `uri` is none that
/// a certificate can be for.
pub(crate) fn server_name(uri: &Uri) -> Option<ServerName<'static>> {
    // A literal IPv6 address stands in brackets in a URI, but not in a certificate.
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).ok()
}
