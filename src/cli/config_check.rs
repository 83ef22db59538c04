//! `oncegate config check`: says what is wrong with configuration files, offline.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::Failure;
use crate::config::{Finding, Kind, Policy, Process, Severity};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with oncegate.toml or policy.toml files
    #[command(after_help = "Example:\n  oncegate config check oncegate.toml policy.toml")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The files; which of the two kinds each is, shows in its tables
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let ConfigCommand::Check(args) = &args.command;
    let findings: Vec<Finding> = args.files.iter().flat_map(|file| check(file)).collect();
    let refused = findings.iter().any(|finding| finding.severity == Severity::Error);
    if args.json {
        println!("{}", json!({"fine": !refused, "findings": findings}));
    } else {
        for finding in &findings {
            println!("{finding}");
        }
        if !refused {
            println!("fine");
        }
    }
    if refused { Err(Failure::Printed) } else { Ok(()) }
}

/// Everything that is to be said about a file.
fn check(file: &Path) -> Vec<Finding> {
    let kind = match fs::read_to_string(file) {
        Ok(text) => Kind::of(&text),
        Err(error) => return vec![Finding::of_file(file, "unreadable", error.to_string())],
    };
    let findings = match kind {
        None => {
            let message = "there is nothing in it: it is neither oncegate.toml nor policy.toml";
            return vec![Finding::of_file(file, "empty", message)];
        }
        Some(Kind::Process) => Process::load(file).map(|(_, warnings)| warnings),
        Some(Kind::Policy) => Policy::load(file).map(|(_, warnings)| warnings),
    };
    findings.unwrap_or_else(|refused| refused.findings)
}
