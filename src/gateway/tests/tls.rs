//! An upstream over TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::client::Served;
use super::judge::Kind;
use crate::config::UpstreamTls;

const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

/// A server with a certificate for `name` by an authority of its own.
struct Server {
    address: SocketAddr,
    /// What a gateway needs to believe it.
    tls: UpstreamTls,
    requests: Arc<AtomicUsize>,
}

impl Server {
    async fn start(name: &str) -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let own = CertificateParams::new([name.to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], private)
            .unwrap();
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, authority_pem).unwrap();
        let tls = UpstreamTls::of_file(&file).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(serve(listener, acceptor, Arc::clone(&requests)));
        Self { address, tls, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Answers every request that ends with the end of its head.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, requests: Arc<AtomicUsize>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (acceptor, requests) = (acceptor.clone(), Arc::clone(&requests));
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(socket).await else { return };
            let mut bytes = Vec::new();
            while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                if bytes.ends_with(b"\r\n\r\n") {
                    bytes.clear();
                    requests.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(CREATED).await.unwrap();
                    stream.flush().await.unwrap();
                }
            }
        });
    }
}

#[tokio::test]
async fn an_upstream_that_proves_its_name_is_asked() {
    let server = Server::start("127.0.0.1").await;
    let served = Served::before_tls(server.address, server.tls.clone()).await;
    for _ in 0..2 {
        assert_eq!(served.keyed("POST /orders", "k", "").await.status(), 201);
        assert_eq!(served.ask("GET /orders HTTP/1.1", "").await.status(), 201);
    }
    assert_eq!(server.requests(), 3, "one execution, and two requests that passed");
}

/// Nothing but a handshake has left: it is proven that nothing was executed, and the key is free.
#[tokio::test]
async fn an_upstream_that_does_not_prove_its_name_is_sent_nothing() {
    let real = Server::start("127.0.0.1").await;
    let other_name = Server::start("localhost").await;
    let stranger = Server::start("127.0.0.1").await;
    for (address, tls) in
        [(other_name.address, other_name.tls.clone()), (stranger.address, real.tls.clone())]
    {
        let served = Served::before_tls(address, tls).await;
        for line in ["POST /orders", "POST /orders"] {
            let got = served.keyed(line, "k", "").await;
            assert_eq!(got.problem(), (502, "upstream-unreachable".into()));
        }
        assert_eq!(served.judge.submitted(Kind::Release), 2, "the key was free again");
        let got = served.ask("GET /orders HTTP/1.1", "").await;
        assert_eq!(got.problem(), (502, "upstream-unreachable".into()));
    }
    assert_eq!(other_name.requests() + stranger.requests(), 0);
}

#[tokio::test]
async fn a_server_in_clear_is_no_upstream_over_tls() {
    let believed = Server::start("127.0.0.1").await.tls;
    let stub = super::stub::Stub::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let served = Served::before_tls(stub.address, believed).await;
    let got = served.keyed("POST /orders", "k", "").await;
    assert_eq!(got.problem(), (502, "upstream-unreachable".into()));
    assert!(stub.seen().is_empty());
}
