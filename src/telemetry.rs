//! Logs and metrics: what the process says about itself.
//!
//! Logs go to stderr, one JSON object or one line per event. No key, body or credential is ever an
//! event's field: the types that hold them print as a placeholder.

use std::io::{self, IsTerminal};
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use thiserror::Error;
use tracing::Level;
use tracing_subscriber::EnvFilter;

/// Upper bounds in seconds of the classes of every duration: half a millisecond, the fastest claim,
/// to a minute, the default longest execution.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0, 60.0];

/// How often what histograms have collected is put into classes, so that it does not pile up where
/// nobody asks for metrics.
const UPKEEP: Duration = Duration::from_secs(5);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Text for people.
    Text,
}

/// Why logs or metrics could not be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// Another log subscriber or metrics recorder is installed already.
    #[error("logs or metrics are set up already: {0}")]
    Installed(String),
    /// The metrics' settings are wrong.
    #[error("metrics: {0}")]
    Metrics(#[from] BuildError),
}

/// Sends logs of `level` and above to stderr. Dependencies are heard one step less: what they call
/// a warning is mostly an everyday fault that is dealt with, and told, here; the consensus library
/// warns about every heartbeat to a peer that is down.
///
/// A panic is logged like everything else, so that a reader of JSON lines meets nothing but JSON.
///
/// # Errors
/// When a subscriber is installed already.
pub fn logs(format: LogFormat, level: Level) -> Result<(), TelemetryError> {
    let others = match level {
        Level::ERROR => "off",
        Level::WARN | Level::INFO => "error",
        Level::DEBUG | Level::TRACE => "warn",
    };
    let filter =
        EnvFilter::new(format!("{others},oncegate={level},cluster={level},protocol={level}"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
    };
    installed.map_err(|error| TelemetryError::Installed(error.to_string()))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(%place, message, "panic");
    }));
    Ok(())
}

/// Installs the metrics recorder of the process.
///
/// # Errors
/// When one is installed already.
pub fn metrics() -> Result<PrometheusHandle, TelemetryError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .install_recorder()?;
    crate::api::metrics::describe();
    crate::gateway::metrics::describe();
    Ok(handle)
}

/// Keeps the metrics in order until the task is dropped.
pub async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        handle.run_upkeep();
    }
}
