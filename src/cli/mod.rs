//! The command line: one file per command.
//!
//! Exit status: 0 fine, 1 refused or failed, 2 used wrongly. What went wrong stands in one line on
//! stderr.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where people are spoken to")]

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;
use tracing::Level;

use crate::config::{Finding, Policy, Process, Refused};
use crate::telemetry::{LogFormat, TelemetryError};

mod admin_api;
mod banner;
mod bench;
mod client;
mod cluster_admin;
mod config_check;
mod dev;
mod gateway;
mod hash_key;
mod hosting;
mod records;
mod serve;
mod terms;

/// Makes a POST happen once: an idempotency gateway and claims API over a replicated log.
#[derive(Debug, Parser)]
#[command(name = "oncegate", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole durable cluster in one process, to try things out
    Dev(dev::DevArgs),
    /// Run one node of a cluster, with or without a gateway
    Serve(serve::ServeArgs),
    /// Run a gateway without a node
    Gateway(gateway::GatewayArgs),
    /// Look at configuration files
    Config(config_check::ConfigArgs),
    /// Print what the clients of each operation may rely on
    Terms(terms::TermsArgs),
    /// Make the digest under which a policy keeps an API key
    HashKey(hash_key::HashKeyArgs),
    /// Look at the cluster and move leaderships
    Cluster(cluster_admin::ClusterArgs),
    /// Look at records and settle what nobody can tell
    Records(records::RecordsArgs),
    /// Measure a running cluster
    Bench(bench::BenchArgs),
}

/// What a process of a cluster is told.
#[derive(Debug, Args)]
struct Files {
    /// The process file, oncegate.toml
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The cluster's policy [the process file's "policy"]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

impl Files {
    /// Reads both; prints warnings.
    fn load(&self) -> Result<(Process, Arc<Policy>), Failure> {
        let (process, warnings) = Process::load(&self.config)?;
        print_warnings(&warnings);
        let Some(policy) = self.policy.as_ref().or(process.cluster.policy.as_ref()) else {
            return Err(Failure::Says(format!(
                "no policy: pass --policy FILE, or set \"policy\" in [cluster] of {}",
                self.config.display()
            )));
        };
        let (policy, warnings) = Policy::load(policy)?;
        print_warnings(&warnings);
        Ok((process, Arc::new(policy)))
    }
}

/// What the process says about itself while it runs.
#[derive(Clone, Copy, Debug, Args)]
struct LogArgs {
    /// The least important events that are logged; dependencies log warnings at most
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    log_level: Option<Level>,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", value_enum)]
    log: Option<LogFormat>,
}

/// Why a command ended without doing what it should: one line, or one per finding.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Says(String),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    #[error(transparent)]
    Start(#[from] cluster::StartError),
    /// What is wrong was printed already.
    #[error("")]
    Printed,
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Dev(args) => dev::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Config(args) => config_check::run(&args),
        Command::Terms(args) => terms::run(&args),
        Command::HashKey(args) => hash_key::run(&args),
        Command::Cluster(args) => cluster_admin::run(&args),
        Command::Records(args) => records::run(&args),
        Command::Bench(args) => bench::run(&args).map_err(Failure::Says),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Printed) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("oncegate: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Takes a port, before anything is written anywhere.
fn bind(addr: SocketAddr, what: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(addr).map_err(|error| {
        Failure::Says(format!(
            "cannot listen on {addr} ({what}): {error}; stop what uses it or choose another address"
        ))
    })
}

/// Prints warnings about a file that was taken all the same.
fn print_warnings(findings: &[Finding]) {
    for finding in findings {
        eprintln!("{finding}");
    }
}

/// Bytes as hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_level(text: &str) -> Result<Level, String> {
    text.parse().map_err(|_| "must be error, warn, info, debug or trace".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        let mut pending = vec![Arguments::command()];
        while let Some(mut command) = pending.pop() {
            pending.extend(command.get_subcommands().cloned());
            if command.get_subcommands().next().is_none() {
                let help = command.render_long_help().to_string();
                assert!(help.contains("Example"), "{}: {help}", command.get_name());
            }
        }
    }
}
