//! One keep-alive connection with one request at a time.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(super) struct Client {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let stream = TcpStream::connect(address).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // The connection ends with its sender; its error shows at the sender too.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { address, sender })
    }

    /// Sends a POST and reads the whole answer.
    pub(super) async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        self.send(Method::POST, path, headers, body).await
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut request =
            Request::builder().method(method).uri(path).header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok((status, body.to_bytes()))
    }
}
