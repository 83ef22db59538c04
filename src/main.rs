//! The `oncegate` binary.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// See ARCHITECTURE.md for why it is not the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    oncegate::cli::run()
}
