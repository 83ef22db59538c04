//! `jepsen`: fault tests of oncegate. See `docs/faults.md`.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match jepsen::cli::main().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing is left to be done where even this cannot be written.
            drop(writeln!(std::io::stderr(), "the harness failed: {error}"));
            ExitCode::from(2)
        }
    }
}
