//! `oncegate records`: looks at records and settles what nobody can tell.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use bytes::Bytes;
use clap::{Args, Subcommand};
use form_urlencoded::Serializer;
use http::Method;
use serde_json::{Map, Value, json};

use super::Failure;
use super::client::Client;

/// The variable that holds the token where no file is named: arguments show in process lists.
const TOKEN: &str = "ONCEGATE_TOKEN";

/// The largest response that is read to be stored, in bytes: more than the API takes.
const RESPONSE_MAX: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(super) struct RecordsArgs {
    #[command(subcommand)]
    command: RecordsCommand,
}

#[derive(Debug, Subcommand)]
enum RecordsCommand {
    /// List the records that wait to be settled, those that wait longest first
    #[command(after_help = "Example:\n  \
        ONCEGATE_TOKEN=... oncegate records list --api 127.0.0.1:7201")]
    List(ListArgs),
    /// Show a record with its history
    #[command(after_help = "Example:\n  \
        oncegate records get --token-file token --tenant acme --operation capture --key K")]
    Get(GetArgs),
    /// Say what became of an execution that nobody could tell
    #[command(after_help = "Examples:\n  \
        oncegate records resolve --record ID --fence 7 --completed response.json \\\n    \
        --reason \"found as ch_1 at the provider\"\n  \
        oncegate records resolve --record ID --fence 7 --released --reason \"never arrived\"")]
    Resolve(ResolveArgs),
    /// Remove a completed record; its key is free some seconds later
    #[command(after_help = "Example:\n  \
        oncegate records forget --record ID --fence 7 --reason \"a test order\"")]
    Forget(ForgetArgs),
}

/// How the cluster is reached.
#[derive(Debug, Args)]
struct ApiArgs {
    /// The API of any node
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7201")]
    api: String,
    /// A file that holds an admin's token [otherwise ONCEGATE_TOKEN holds it]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Most records to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Go on behind an earlier list: what it printed as next
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
}

/// Which record is meant.
#[derive(Debug, Args)]
struct Which {
    /// The id that a list gives
    #[arg(long, value_name = "ID", required_unless_present = "key")]
    record: Option<String>,
    /// The tenant
    #[arg(long, requires = "key", conflicts_with = "record")]
    tenant: Option<String>,
    /// The credential's name, where the operation isolates keys by credential
    #[arg(long, requires = "key", conflicts_with = "record")]
    credential: Option<String>,
    /// The sub-account, where the operation has some: a JSON list of texts
    #[arg(long, value_name = "JSON", requires = "key", conflicts_with = "record")]
    sub_account: Option<String>,
    /// The operation, by its name
    #[arg(long, requires = "key", conflicts_with = "record")]
    operation: Option<String>,
    /// The idempotency key
    #[arg(long, requires = "tenant", requires = "operation", conflicts_with = "record")]
    key: Option<String>,
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
struct ResolveArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    which: Which,
    /// The fence that the record shows: a decision about an older state is refused
    #[arg(long)]
    fence: u64,
    /// It was executed: a JSON file with the response to replay, {"status", "headers", and "json"
    /// or "body_base64"}; - reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "released")]
    completed: Option<PathBuf>,
    /// It was not executed: the key may run again
    #[arg(long, conflicts_with = "completed")]
    released: bool,
    /// Why; it is kept in the record, with the admin's name
    #[arg(long)]
    reason: String,
    /// Release at once, though what was sent may still be executing
    #[arg(long, requires = "released")]
    force: bool,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    which: Which,
    /// The fence that the record shows
    #[arg(long)]
    fence: u64,
    /// Why; it is logged with the admin's name
    #[arg(long)]
    reason: String,
}

pub(super) fn run(args: &RecordsArgs) -> Result<(), Failure> {
    match &args.command {
        RecordsCommand::List(args) => list(args),
        RecordsCommand::Get(args) => {
            let record = args.api.get("/v1/admin/record", &args.which.members())?;
            print_document(&record);
            Ok(())
        }
        RecordsCommand::Resolve(args) => resolve(args),
        RecordsCommand::Forget(args) => {
            let mut body = args.which.members();
            body.insert("fence".into(), args.fence.into());
            body.insert("reason".into(), args.reason.as_str().into());
            let answer = args.api.post("/v1/admin/records/forget", body)?;
            match (args.api.json, answer["free_in_ms"].as_u64()) {
                (false, Some(ms)) => println!("forgotten; the key is free in {ms} ms"),
                _ => println!("{answer}"),
            }
            Ok(())
        }
    }
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let mut query = Map::new();
    query.insert("limit".into(), args.limit.to_string().into());
    if let Some(after) = &args.after {
        query.insert("after".into(), after.as_str().into());
    }
    let list = args.api.get("/v1/admin/records", &query)?;
    if args.api.json {
        println!("{list}");
        return Ok(());
    }
    let text = |record: &Value, name: &str| -> String {
        record[name].as_str().map_or_else(|| record[name].to_string(), str::to_owned)
    };
    for record in list["records"].as_array().into_iter().flatten() {
        let [since, tenant, operation, key] =
            ["indeterminate_since", "tenant", "operation", "key"].map(|name| text(record, name));
        let [fence, attempts, id] = ["fence", "attempts", "record"].map(|name| text(record, name));
        println!(
            "{since}  tenant {tenant}  operation {operation}  key {key}  fence {fence}  \
             attempts {attempts}\n    record {id}"
        );
    }
    match list["next"].as_str() {
        Some(next) => println!("there are more: --after {next}"),
        None => println!("{} waiting", list["records"].as_array().map_or(0, Vec::len)),
    }
    Ok(())
}

fn resolve(args: &ResolveArgs) -> Result<(), Failure> {
    let mut body = args.which.members();
    body.insert("fence".into(), args.fence.into());
    body.insert("reason".into(), args.reason.as_str().into());
    match &args.completed {
        Some(file) => {
            body.insert("verdict".into(), "completed".into());
            body.insert("response".into(), response(file)?);
        }
        None => {
            body.insert("verdict".into(), "released".into());
            body.insert("force".into(), args.force.into());
        }
    }
    let answer = args.api.post("/v1/admin/records/resolve", body)?;
    match (args.api.json, answer["state"].as_str()) {
        (false, Some(state)) => println!("{state}; the record's fence is now {}", answer["fence"]),
        _ => println!("{answer}"),
    }
    Ok(())
}

/// The response in a file.
fn response(file: &PathBuf) -> Result<Value, Failure> {
    let failed = |error: std::io::Error| Failure::Says(format!("{}: {error}", file.display()));
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(RESPONSE_MAX).read_to_string(&mut text)
    } else {
        let opened = fs::File::open(file).map_err(failed)?;
        opened.take(RESPONSE_MAX).read_to_string(&mut text)
    };
    read.map_err(failed)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::Says(format!("{}: not a JSON document: {error}", file.display())))
}

fn print_document(document: &Value) {
    // A document that was just read can be written.
    println!("{}", serde_json::to_string_pretty(document).unwrap_or_default());
}

impl Which {
    fn members(&self) -> Map<String, Value> {
        let parts = [
            ("record", &self.record),
            ("tenant", &self.tenant),
            ("credential", &self.credential),
            ("sub_account", &self.sub_account),
            ("operation", &self.operation),
            ("key", &self.key),
        ];
        let given = parts.into_iter().filter_map(|(name, part)| Some((name, part.as_deref()?)));
        given.map(|(name, part)| (name.to_owned(), part.into())).collect()
    }
}

impl ApiArgs {
    fn get(&self, path: &str, query: &Map<String, Value>) -> Result<Value, Failure> {
        let mut pairs = Serializer::new(String::new());
        for (name, value) in query {
            pairs.append_pair(name, value.as_str().unwrap_or_default());
        }
        self.call(Method::GET, &format!("{path}?{}", pairs.finish()), Bytes::new())
    }

    fn post(&self, path: &str, body: Map<String, Value>) -> Result<Value, Failure> {
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
