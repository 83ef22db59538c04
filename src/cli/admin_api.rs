//! Calls of the admin API, for the commands that look after a cluster.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use form_urlencoded::Serializer;
use http::Method;
use serde_json::{Map, Value, json};

use super::Failure;
use super::client::Client;

/// The variable that holds the token where no file is named: arguments show in process lists.
const TOKEN: &str = "ONCEGATE_TOKEN";

/// How the cluster is reached.
#[derive(Debug, Args)]
pub(super) struct ApiArgs {
    /// The API of any node
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7201")]
    api: String,
    /// A file that holds an admin's token [otherwise ONCEGATE_TOKEN holds it]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Prints a document for people who read JSON.
pub(super) fn print_document(document: &Value) {
    // A document that was just read can be written.
    println!("{}", serde_json::to_string_pretty(document).unwrap_or_default());
}

impl ApiArgs {
    pub(super) fn get(&self, path: &str, query: &Map<String, Value>) -> Result<Value, Failure> {
        let mut pairs = Serializer::new(String::new());
        for (name, value) in query {
            pairs.append_pair(name, value.as_str().unwrap_or_default());
        }
        self.call(Method::GET, &format!("{path}?{}", pairs.finish()), Bytes::new())
    }

    /// Posts a document, and gets one.
    pub(super) fn post(&self, path: &str, body: Map<String, Value>) -> Result<Value, Failure> {
        self.call(Method::POST, path, Value::Object(body).to_string().into())
    }

    fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Failure> {
        let authorization = format!("Bearer {}", self.token()?);
        let address = self.address()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Says(format!("no runtime: {error}")))?;
        let answer = runtime.block_on(async {
            let headers =
                [("authorization", authorization.as_str()), ("content-type", "application/json")];
            Client::connect(address).await?.send(method, path, &headers, body).await
        });
        let (status, body) = answer.map_err(Failure::Says)?;
        let document: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(document);
        }
        let detail = document["detail"].as_str().unwrap_or("no reason was given");
        let code = document["code"].as_str().unwrap_or("no oncegate API?");
        if self.json {
            println!("{}", json!({ "status": status.as_u16(), "code": code, "detail": detail }));
        }
        Err(Failure::Says(format!("refused ({}, {code}): {detail}", status.as_u16())))
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let mut found = self.api.to_socket_addrs().map_err(|error| {
            Failure::Says(format!("--api {}: {error}; give HOST:PORT", self.api))
        })?;
        found.next().ok_or_else(|| Failure::Says(format!("--api {}: no address", self.api)))
    }

    fn token(&self) -> Result<String, Failure> {
        let token = match &self.token_file {
            Some(file) => fs::read_to_string(file)
                .map_err(|error| Failure::Says(format!("{}: {error}", file.display())))?,
            None => {
                #[expect(clippy::disallowed_methods, reason = "this is the command line")]
                let token = std::env::var(TOKEN);
                token.map_err(|_| {
                    Failure::Says(format!(
                        "an admin's token is needed: name a file with --token-file, or set {TOKEN}"
                    ))
                })?
            }
        };
        Ok(token.trim().to_owned())
    }
}
