//! Disks that lose, lie and fail.
//!
//! A power cut is made on an ext4 of the node's own, on a loop device, that is shut down without
//! writing anything back: what the node had not synced is gone, and the file system is as its
//! journal left it. An fsync that fails, lies or is slow is a library that is preloaded into every
//! node and does what a file says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::RngExt;
use tokio::process::Command;

use crate::cluster::{Cluster, NODES};
use crate::history::Installation;
use crate::nemesis::{Fault, Ground};

/// For how long an fsync lies before the power fails.
const LIE: Duration = Duration::from_secs(2);

/// Compiles the library into `folder`.
///
/// # Errors
/// When there is no compiler, or it complains.
pub async fn library(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/fsync.c");
    let library = folder.join("fsync.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .await
        .map_err(|error| format!("no C compiler: {error}"))?;
    match compiled.status.success() {
        true => Ok(library),
        false => Err(String::from_utf8_lossy(&compiled.stderr).trim().to_owned()),
    }
}

/// What a node must find in its environment so that its fsync can be broken.
///
/// # Errors
/// See [`library`].
pub async fn environment(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let library = library(folder).await?;
    let file = folder.join("{N}.fsync").display().to_string();
    Ok(vec![
        ("LD_PRELOAD".to_owned(), library.display().to_string()),
        ("ONCEGATE_FSYNC_FILE".to_owned(), file),
    ])
}

fn file(cluster: &Cluster, node: u8) -> PathBuf {
    cluster.folder.join(format!("{node}.fsync"))
}

fn arm(cluster: &Cluster, node: u8, how: &str) -> Result<(), Installation> {
    fs::write(file(cluster, node), how)
        .map_err(|error| Installation::Indeterminate(error.to_string()))
}

pub(super) async fn install(
    ground: &mut Ground,
    fault: Fault,
) -> Result<Installation, Installation> {
    let victim = ground.any();
    match fault {
        Fault::PowerOne => cut(ground, &[victim]).await,
        Fault::PowerAll => cut(ground, &[1, 2, 3]).await,
        Fault::FsyncSlow => {
            let millis: u32 = ground.random.random_range(50..400);
            arm(&ground.cluster, victim, &format!("slow {millis}"))?;
            Ok(Installation::Installed(format!("fsync of {victim} takes {millis} ms longer")))
        }
        Fault::FsyncLies => {
            arm(&ground.cluster, victim, "lie")?;
            tokio::time::sleep(LIE).await;
            cut(ground, &[victim]).await?;
            Ok(Installation::Installed(format!("fsync of {victim} lied, then its power failed")))
        }
        Fault::FsyncLiesAll => {
            (1..=NODES).try_for_each(|node| arm(&ground.cluster, node, "lie"))?;
            tokio::time::sleep(LIE).await;
            cut(ground, &[1, 2, 3]).await?;
            Ok(Installation::Installed("every fsync lied, then all power failed".to_owned()))
        }
        _ => {
            arm(&ground.cluster, victim, "fail")?;
            // A node whose log cannot be synced must not go on.
            for _ in 0..500 {
                if !ground.cluster.runs(victim) {
                    return Ok(Installation::Installed(format!("fsync of {victim} failed")));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let said =
                format!("node {victim} went on for 5 s: nothing was synced, or it ignored it");
            Err(Installation::Indeterminate(said))
        }
    }
}

/// Cuts the power of `victims` at once.
async fn cut(ground: &mut Ground, victims: &[u8]) -> Result<Installation, Installation> {
    let all = victims.len() == usize::from(NODES);
    let which = if all { "all".to_owned() } else { victims[0].to_string() };
    let done = ground.cluster.scripts.run("powercut.sh", &[&which]).await;
    victims.iter().for_each(|victim| ground.cluster.reap(*victim));
    done.map_err(Installation::Indeterminate)?;
    Ok(Installation::Installed(format!("cut the power of {victims:?}")))
}

/// Lets every fsync work again.
///
/// # Errors
/// When a file cannot be removed.
pub(super) fn heal(cluster: &Cluster) -> Result<(), String> {
    for node in 1..=NODES {
        let path = file(cluster, node);
        if path.exists() {
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}
