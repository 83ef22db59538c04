//! The README's promise: one command, three lines to paste, and everything is remembered after a
//! restart.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// `oncegate dev`, ended with the test.
struct Dev {
    process: Child,
    lines: Vec<String>,
}

impl Dev {
    /// Starts it and waits for the lines to paste.
    fn start(folder: &Path) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_oncegate"))
            .args(["dev", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut dev = Self { process, lines: Vec::new() };
        let stdout = BufReader::new(dev.process.stdout.take().unwrap());
        let lines = stdout.lines().map(Result::unwrap).filter(|line| line.starts_with("curl "));
        // Nobody reads what else it prints, as under `| head`: that must not stop it.
        dev.lines = lines.take(3).collect();
        assert_eq!(dev.lines.len(), 3, "it ended before it printed three lines to paste");
        dev
    }

    /// Stops it as Ctrl-C would; the exit status.
    fn stop(mut self) -> Option<i32> {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn paste(line: &str) -> String {
    let Output { stdout, stderr, .. } = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(!stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().replace('\r', "")
}

fn body(answer: &str) -> &str {
    answer.split_once("\n\n").unwrap().1
}

#[test]
fn three_pasted_lines_show_an_order_its_replay_and_a_refusal() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: there is no curl to paste the lines into");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path());
    let [first, second, changed] = &dev.lines.clone()[..] else { panic!("{:?}", dev.lines) };

    let created = paste(first);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    assert!(!created.to_lowercase().contains("idempotent-replayed"), "{created}");
    let replayed = paste(second);
    assert!(replayed.starts_with("HTTP/1.1 201"), "{replayed}");
    assert!(replayed.to_lowercase().contains("idempotent-replayed: true"), "{replayed}");
    assert_eq!(body(&created), body(&replayed));
    let refused = paste(changed);
    assert!(refused.starts_with("HTTP/1.1 422"), "{refused}");
    assert!(refused.contains("key-reused"), "{refused}");
    assert_eq!(dev.stop(), Some(0));

    // The same key at the same cluster, started again: the answer is still there. Only the port has
    // changed.
    let again = Dev::start(folder.path());
    let address = |line: &str| {
        line.split_whitespace().find(|word| word.contains("http://")).unwrap().to_owned()
    };
    let remembered = paste(&first.replace(&address(first), &address(&again.lines[0])));
    assert!(remembered.to_lowercase().contains("idempotent-replayed: true"), "{remembered}");
    assert_eq!(body(&created), body(&remembered));
    assert_eq!(again.stop(), Some(0));
}
