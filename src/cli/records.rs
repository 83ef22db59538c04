//! `oncegate records`: looks at records and settles what nobody can tell.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Failure;
use super::admin_api::{ApiArgs, print_document};

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
