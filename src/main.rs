//! The `oncegate` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    oncegate::cli::run()
}
