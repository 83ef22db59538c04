//! Faults that a test can bring about in a real process: places at which a node dies, and a disk
//! that is full. And bugs that a simulation must find. Without the feature `testing`, which no
//! release build has, there are none.

#[cfg(feature = "testing")]
mod planted;

use std::path::Path;

#[cfg(feature = "testing")]
pub(crate) use self::planted::is_planted;
#[cfg(feature = "testing")]
pub use self::planted::{Bug, plant};

/// Arms the point `name`: the process ends, as by SIGKILL, when the point is reached for the
/// `passes + 1`st time. `false` in a build without failpoints.
#[cfg(not(feature = "testing"))]
pub fn arm(_name: &str, _passes: u32) -> bool {
    false
}

/// Ends the process here if a test has armed the point `name`.
#[cfg(not(feature = "testing"))]
pub(crate) fn hit(_name: &str) {}

/// The free bytes that a test pretends the disk of a data directory to have.
#[cfg(not(feature = "testing"))]
pub(crate) fn pretended_free_bytes(_data_dir: &Path) -> Option<u64> {
    None
}

/// The free bytes that a test pretends the disk of a data directory to have: the number in its file
/// `free-bytes`, while there is one.
#[cfg(feature = "testing")]
pub(crate) fn pretended_free_bytes(data_dir: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(data_dir.join("free-bytes")).ok()?;
    Some(text.trim().parse().expect("the test wrote a number"))
}

#[cfg(feature = "testing")]
pub use armed::arm;
#[cfg(feature = "testing")]
pub(crate) use armed::hit;

#[cfg(feature = "testing")]
mod armed {
    use std::sync::Mutex;

    /// The armed point, and how many more times it is passed before the process ends.
    static ARMED: Mutex<Option<(String, u32)>> = Mutex::new(None);

    /// Arms the point `name`: the process ends, as by SIGKILL, when the point is reached for the
    /// `passes + 1`st time.
    /// `false` in a build without failpoints.
    pub fn arm(name: &str, passes: u32) -> bool {
        *ARMED.lock().expect("no holder panics") = Some((name.to_owned(), passes));
        true
    }

    pub(crate) fn hit(name: &str) {
        let mut armed = ARMED.lock().expect("no holder panics");
        if let Some((point, passes)) = armed.as_mut()
            && point == name
        {
            if *passes == 0 {
                std::process::abort();
            }
            *passes -= 1;
        }
    }
}
