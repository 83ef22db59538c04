//! Damage to the log of a node that does not run: its end is torn, as by a write that a crash cut
//! short, or single bits of it flip.
//!
//! A torn end is cut off and the node goes on: what was torn was never answered for. Here it *was*,
//! since nobody outside can tell where the last sync ended; so it is torn only once the other two
//! nodes have gone on without it, who then hold everything that it had promised. Flipped bits must
//! be found: a node that has them must not start. The file is put back as it was when the fault
//! ends, as an operator would bring a new node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt;

use crate::history::{Installation, What};
use crate::nemesis::{Fault, Ground, Healing};

/// How long the others are given to go on.
const GO_ON: Duration = Duration::from_millis(2500);

/// How long a node with a damaged file may take to say so.
const DETECTION_MAX: Duration = Duration::from_secs(15);

/// What a segment holds at least, so that it is worth damaging.
const WRITTEN_MIN: usize = 4096;

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
    healing: &mut Healing,
) -> Result<Installation, Installation> {
    let unclear = |error: io::Error| Installation::Indeterminate(error.to_string());
    let victim = ground.any();
    ground.cluster.kill(victim).await.map_err(Installation::Indeterminate)?;
    tokio::time::sleep(GO_ON).await;
    let log = ground.cluster.data(victim).join("wal");
    let Some((path, bytes)) = newest(&log).map_err(unclear)? else {
        return Err(Installation::Indeterminate("no segment holds enough yet".to_owned()));
    };
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut damaged = bytes.clone();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if fault == Fault::TornTail {
        let torn = ground.random.random_range(1..200.min(written / 2));
        damaged[written - torn..written].fill(0);
        fs::write(&path, damaged).map_err(unclear)?;
        return Ok(Installation::Installed(format!("tore {torn} bytes off {name} of {victim}")));
    }
    // Not near the end, where it cannot be told from a write that a crash cut short.
    let offset = ground.random.random_range(0..written * 4 / 5);
    damaged[offset] ^= 1 << ground.random.random_range(0..8);
    fs::write(&path, damaged).map_err(unclear)?;
    healing.files.push((path, bytes));
    ground.cluster.start(victim).map_err(unclear)?;
    let detected = detected(ground, victim).await;
    if !detected {
        ground.recorder.record(0, 0, What::Undetected(format!("byte {offset} of {name}")));
        // It must not go on with a file that is put back under it.
        ground.cluster.kill(victim).await.map_err(Installation::Indeterminate)?;
    }
    Ok(Installation::Installed(format!("flipped a bit of byte {offset} of {name} of {victim}")))
}

/// Whether the node ends by itself, and says which file is damaged.
async fn detected(ground: &mut Ground, victim: u8) -> bool {
    let before = ground.cluster.log(victim).matches("damaged at byte").count();
    let begin = Instant::now();
    while begin.elapsed() < DETECTION_MAX {
        if !ground.cluster.runs(victim) {
            let after = ground.cluster.log(victim).matches("damaged at byte").count();
            return after > before;
        }
        if ground.cluster.is_ready(victim).await {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// The segment that was written last, of those that hold enough.
fn newest(log: &Path) -> io::Result<Option<(PathBuf, Vec<u8>)>> {
    let mut found = None;
    let mut paths = fs::read_dir(log)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let bytes = fs::read(&path)?;
        let written = bytes.iter().filter(|byte| **byte != 0).count();
        let changed = fs::metadata(&path)?.modified()?;
        let newer = found.as_ref().is_none_or(|(_, _, latest)| changed > *latest);
        if written >= WRITTEN_MIN && newer {
            found = Some((path, bytes, changed));
        }
    }
    Ok(found.map(|(path, bytes, _)| (path, bytes)))
}
