//! Real client libraries, with retries and keys of their own, against an upstream that misbehaves.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::support::cluster::Setup;
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::run;
use crate::support::upstream::Upstream;

/// The client library of a large payment provider, from the Python package index.
const STRIPE_SDK: &str = "stripe==16.1.0";

/// A Python with this package; `None`, and said so, where it cannot be had.
fn python_with(package: &str) -> Option<PathBuf> {
    // Tests run at once, and two installations in one folder would break each other.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = INSTALLING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    let python = folder.join("bin/python");
    let steps: [(&Path, Vec<&str>); 2] = [
        (Path::new("python3"), vec!["-m", "venv", folder.to_str().unwrap()]),
        (&python, vec!["-m", "pip", "install", "--quiet", package]),
    ];
    for (program, arguments) in steps {
        let output = Command::new(program).args(&arguments).output();
        if !output.as_ref().is_ok_and(|output| output.status.success()) {
            // Past the capture of the test's output: a test that did not run must be seen.
            let line = format!("\nSKIPPED: {package} cannot be installed: {output:?}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            return None;
        }
    }
    Some(python)
}

/// What the script said of each call.
fn calls(python: &Path, script: &str, base: &str) -> HashMap<String, Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let output = Command::new(python).arg(script).arg(base).arg(api_key("a")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let said = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    said.map(|said| (said["call"].as_str().unwrap().to_owned(), said)).collect()
}

#[test]
fn a_payment_library_with_retries_of_its_own_never_charges_twice() {
    never_charges_twice("default", ("APIError", Some(422)));
}

/// In its provider's profile the library knows a key of another request for what it is.
#[test]
fn a_payment_library_never_charges_twice_in_its_own_profile_either() {
    never_charges_twice("stripe", ("IdempotencyError", Some(400)));
}

/// `edited`: how the library ends a call with a key that belongs to another request.
fn never_charges_twice(profile: &str, edited: (&str, Option<u64>)) {
    run(async {
        let Some(python) = python_with(STRIPE_SDK) else { return };
        let upstream = Upstream::start().await;
        let defaults = format!("{SHORT_LEASES}profile = \"{profile}\"\n");
        let cluster = Setup::new(policy(&["a"], &defaults), upstream.address).start().await;
        let base = format!("http://{}", cluster.gateway(0));
        let calls = tokio::task::spawn_blocking(move || calls(&python, "stripe_sdk.py", &base));
        let calls = calls.await.unwrap();
        let ended = |call: &str| {
            let said = &calls[call];
            (said["ended"].as_str().unwrap(), said["status"].as_u64())
        };
        assert_eq!(ended("plain"), ("fine", Some(201)));
        assert_ne!(ended("reset after the work").0, "fine", "nobody can tell what became of it");
        assert_eq!(ended("fails after the work").1, Some(500));
        assert_eq!(ended("slower than the client"), ("fine", Some(201)));
        assert_eq!(calls["slower than the client"]["replayed"], true);
        assert_eq!(ended("first"), ("fine", Some(201)));
        assert_eq!(calls["repeated"]["body"], calls["first"]["body"]);
        assert_eq!(calls["repeated"]["replayed"], true);
        assert_eq!(ended("edited"), edited);

        // One execution each, whatever the library repeated; the keys that it made are its own.
        let mut executions = HashMap::new();
        for execution in upstream.ledger() {
            assert!(!execution.key.is_empty(), "the library sends a key with every POST");
            *executions.entry(execution.key).or_insert(0) += 1;
        }
        assert_eq!(executions.len(), 5, "{executions:?}");
        assert!(executions.values().all(|times| *times == 1), "{executions:?}");
    });
}
