//! `oncegate terms`: prints what the clients of a policy's operations may rely on.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failure, print_warnings};
use crate::config::{Kind, Policy, Process};
use crate::terms::{Limits, Terms};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    oncegate terms policy.toml > idempotency.md\n  \
    oncegate terms oncegate.toml --openapi > idempotency.json")]
pub(super) struct TermsArgs {
    /// policy.toml, or an oncegate.toml that names one: then with its gateway's limits as well
    file: PathBuf,
    /// Print a page for people (the default)
    #[arg(long, group = "format")]
    markdown: bool,
    /// Print a fragment of an OpenAPI 3.1 document
    #[arg(long, group = "format")]
    openapi: bool,
    /// Print the JSON document that the gateway answers under /.well-known/idempotency
    #[arg(long, group = "format")]
    json: bool,
}

pub(super) fn run(args: &TermsArgs) -> Result<(), Failure> {
    let terms = read(&args.file)?;
    if args.openapi {
        println!("{:#}", terms.to_openapi());
    } else if args.json {
        println!("{:#}", terms.to_json());
    } else {
        print!("{}", terms.to_markdown());
    }
    Ok(())
}

fn read(file: &Path) -> Result<Terms, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Says(format!("cannot read {}: {error}", file.display())))?;
    let (file, limits) = match Kind::of(&text) {
        Some(Kind::Process) => {
            let (process, warnings) = Process::load(file)?;
            print_warnings(&warnings);
            let policy = process.cluster.policy.ok_or_else(|| {
                Failure::Says(format!("{} names no policy: name its file instead", file.display()))
            })?;
            (policy, process.gateway.as_ref().map(Limits::from))
        }
        Some(Kind::Policy) | None => (file.to_owned(), None),
    };
    let (policy, warnings) = Policy::load(&file)?;
    print_warnings(&warnings);
    Ok(Terms::of(&policy, limits))
}
