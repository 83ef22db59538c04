//! Wall clocks that are wrong: an hour ahead or behind, jumping, or running at twice the rate. Boot
//! time, by which leases are counted, stays right, as it does on a real machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::RngExt;

use crate::history::Installation;
use crate::nemesis::{Fault, Ground, Healing};

/// Where the library that turns clocks is looked for.
const PLACES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The library, where it is installed.
pub fn library() -> Option<PathBuf> {
    PLACES.iter().map(PathBuf::from).find(|path| path.exists())
}

/// What a node must find in its environment so that its clock can be turned by `clock.sh`.
///
/// # Errors
/// Why it cannot.
pub fn environment(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let library = library().ok_or("libfaketime is not installed")?;
    let pair = |name: &str, value: String| (name.to_owned(), value);
    Ok(vec![
        pair("LD_PRELOAD", library.display().to_string()),
        pair("FAKETIME_TIMESTAMP_FILE", folder.join("{N}.clock").display().to_string()),
        pair("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        pair("FAKETIME_CACHE_DURATION", "1".to_owned()),
    ])
}

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
    span: Duration,
    healing: &mut Healing,
) -> Result<Installation, Installation> {
    if library().is_none() {
        return Err(Installation::Skipped("libfaketime is not installed".to_owned()));
    }
    let victim = ground.any();
    // The library looks at its file once a second.
    let seconds = span.as_secs_f64() + 1.0;
    if fault == Fault::ClockJumps {
        let mut jumps = Vec::new();
        for _ in 0..3 {
            let offset = ground.random.random_range(-7200..7200);
            let spec = format!("{offset:+}");
            let node = victim.to_string();
            let turned = ground.cluster.scripts.run("clock.sh", &[&node, &spec, "1.5"]).await;
            turned.map_err(Installation::Indeterminate)?;
            jumps.push(spec);
        }
        return Ok(Installation::Installed(format!("clock of {victim} jumped to {jumps:?} s")));
    }
    let spec = match fault {
        Fault::ClockAhead => "+3600",
        Fault::ClockBehind => "-3600",
        _ => "+0 x2",
    };
    let (node, seconds) = (victim.to_string(), format!("{seconds:.3}"));
    let script = ground.cluster.scripts.start("clock.sh", &[&node, spec, &seconds]);
    healing.running.push(script.map_err(Installation::Indeterminate)?);
    Ok(Installation::Installed(format!("clock of {victim} at {spec}")))
}
