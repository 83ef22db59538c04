//! Calls the scripts that an operator would call.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

/// The folder of the scripts, and the cluster that they are to act on.
#[derive(Clone, Debug)]
pub struct Scripts {
    folder: PathBuf,
    cluster: PathBuf,
}

impl Scripts {
    /// The scripts in `folder`, for the cluster in the folder `cluster`.
    pub fn new(folder: &Path, cluster: &Path) -> Self {
        Self { folder: folder.to_owned(), cluster: cluster.to_owned() }
    }

    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join(script));
        command.args(arguments).arg("--dir").arg(&self.cluster).stdin(Stdio::null());
        command
    }

    /// Runs a script to its end, and returns what it printed.
    ///
    /// # Errors
    /// What it complained of, when it did not succeed.
    pub async fn run(&self, script: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(script, arguments).output().await;
        let output = output.map_err(|error| format!("{script}: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(format!("{script}: {}: {}", output.status, complaint.trim()))
    }

    /// Starts a script that goes on until it is waited for.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, script: &str, arguments: &[&str]) -> Result<Child, String> {
        let mut command = self.command(script, arguments);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().map_err(|error| format!("{script}: {error}"))
    }
}
