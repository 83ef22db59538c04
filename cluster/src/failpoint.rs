//! Places at which a test can make a node die. Without the feature `testing`, which no release
//! build has, they are nothing and none can be armed.

/// Arms the point `name`: the process ends, as by SIGKILL, when the point is reached for the
/// `passes + 1`st time. `false` in a build without failpoints.
#[cfg(not(feature = "testing"))]
pub fn arm(_name: &str, _passes: u32) -> bool {
    false
}

/// Ends the process here if a test has armed the point `name`.
#[cfg(not(feature = "testing"))]
pub(crate) fn hit(_name: &str) {}

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
