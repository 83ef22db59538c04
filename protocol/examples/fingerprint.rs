//! What fingerprints cost in time and memory: of bodies as they are sent, and of bodies that are
//! made to be slow.
//!
//! `cargo run --release -p protocol --example fingerprint`
//!
//! Orders of 16 KiB should take at most 100 µs, those of 1 MiB at most 8 ms, and no body more
//! memory than four times its own size.

#![allow(clippy::print_stdout, reason = "it is run to be read")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use protocol::RecordName;
use protocol::fingerprint::{OutlineKey, Place, Print, RequestParts, Rules, Subject};

/// How long each body is measured; the fastest run counts, since the others were disturbed.
const MEASURED: Duration = Duration::from_millis(200);

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

type Shape = (&'static str, &'static str, String);

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some(content_type), Some(bytes)) = (arguments.next(), arguments.next()) {
        return println!("{}", peak_of(&content_type, &bytes).unwrap_or(0));
    }
    for (name, content_type, body) in shapes() {
        let rules = [Rules::DEFAULT, ignoring()];
        let [plain, ruled] = rules.map(|rules| fastest(content_type, &body, &rules));
        let memory = match peak_in_own_process(content_type, &body) {
            Some(bytes) => format!("{:.1} times", bytes as f64 / body.len() as f64),
            None => "too little to tell".to_owned(),
        };
        println!(
            "{name:32} {:>8} bytes {plain:>10.1?}, with a rule {ruled:>10.1?}, memory {memory}",
            body.len()
        );
    }
}

fn shapes() -> Vec<Shape> {
    let json = "application/json";
    let small = |nth: u64| format!("{}e-32{}", nth % 9 + 1, nth % 4);
    let between = |nth: u64| format!("{}.0", 9_007_199_254_740_993 + 2 * nth);
    vec![
        ("orders, 16 KiB", json, orders(16 * KIB)),
        ("orders, 1 MiB", json, orders(MIB)),
        ("objects out of order, 128 deep", json, nested(MIB)),
        ("one object out of order", json, reversed(MIB)),
        ("one object of short members", json, short(MIB)),
        ("names that begin alike", json, alike(MIB)),
        ("numbers of 17 digits", json, listed(MIB, |nth| format!("0.{:017}", spread(nth)))),
        ("the largest doubles", json, listed(MIB, |nth| format!("{}e308", nth % 9 + 1))),
        ("the smallest doubles", json, listed(MIB, small)),
        ("numbers between two doubles", json, listed(MIB, between)),
        ("escapes", json, listed(MIB, |_| "\"\\u0041\\n\\ud83d\\ude00\"".to_owned())),
        ("empty lists", json, listed(MIB, |_| "[]".to_owned())),
        ("a form", "application/x-www-form-urlencoded", form(MIB)),
        ("a form of too many fields", "application/x-www-form-urlencoded", "b&a&".repeat(MIB / 4)),
        ("a form with files", "multipart/form-data; boundary=X", multipart(MIB)),
        ("no JSON", "text/plain", "x".repeat(MIB)),
    ]
}

fn ignoring() -> Rules {
    let place = Place::parse("/orders/*/sent_at").expect("a pointer");
    Rules::ignoring(vec![place], vec![]).expect("one place")
}

fn print(content_type: &str, body: &[u8], rules: &Rules) {
    let key = OutlineKey::new(&[7; 32], &RecordName::from_bytes(b"name".to_vec()));
    let subject = Subject::Request(RequestParts {
        method: "POST",
        target: "/orders",
        content_type: Some(content_type.as_bytes()),
        headers: &[],
        body: black_box(body),
        encoding: None,
    });
    black_box(Print::of(&subject, rules, &key));
}

fn fastest(content_type: &str, body: &str, rules: &Rules) -> Duration {
    let (begun, mut fastest) = (Instant::now(), Duration::MAX);
    while begun.elapsed() < MEASURED {
        let started = Instant::now();
        print(content_type, body.as_bytes(), rules);
        fastest = fastest.min(started.elapsed());
    }
    fastest
}

/// The memory that a fingerprint takes besides the body, in bytes, in a process that has freed
/// nothing before which could be used again; `None` where the system does not tell.
fn peak_in_own_process(content_type: &str, body: &str) -> Option<usize> {
    let mut process = Command::new(std::env::current_exe().ok()?)
        .args([content_type, &body.len().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    process.stdin.take()?.write_all(body.as_bytes()).ok()?;
    let output = process.wait_with_output().ok()?;
    let peak: usize = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    (peak > 0).then_some(peak)
}

/// The process that is measured: it reads a body of so many bytes.
fn peak_of(content_type: &str, bytes: &str) -> Option<usize> {
    let mut body = vec![0; bytes.parse().ok()?];
    std::io::stdin().read_exact(&mut body).ok()?;
    // The code is read into memory before it is measured what else it needs.
    print(content_type, &body[..body.len().min(KIB)], &ignoring());
    print(content_type, b"{\"a\":[0.1]}", &ignoring());
    // The system counts the peak from here.
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    let before = resident("VmRSS:")?;
    print(content_type, &body, &ignoring());
    resident("VmHWM:")?.checked_sub(before)
}

fn resident(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<usize>().ok()? * KIB)
}

fn orders(bytes: usize) -> String {
    let order = |nth: usize| {
        let (euros, cents, quantity) = (nth * 7, nth % 100, nth % 9);
        let amount = format!("{{\"value\": {euros}.{cents:02}, \"currency\": \"EUR\"}}");
        let items = format!("[{{\"sku\": \"A-{nth}\", \"quantity\": {quantity}}}]");
        let note = "Gr\u{fc}\u{df}e\\n";
        format!(
            "{{\"id\": \"order-{nth}\", \"amount\": {amount}, \"items\": {items}, \
             \"note\": \"{note}\"}}"
        )
    };
    let per_order = order(1000).len() + 1;
    let orders: Vec<_> = (0..bytes / per_order).map(order).collect();
    format!("{{\"orders\":[{}]}}", orders.join(","))
}

/// Objects in objects, each with its members in the wrong order, so that everything would have to
/// be moved once for each object around it.
fn nested(bytes: usize) -> String {
    let filling = "x".repeat(bytes - 128 * 14);
    let open = "{\"b\":0,\"a\":".repeat(127);
    format!("{open}\"{filling}\"{}", "}".repeat(127))
}

fn reversed(bytes: usize) -> String {
    let members: Vec<_> = (0..bytes / 14).rev().map(|nth| format!("\"{nth:06}\":\"x\"")).collect();
    format!("{{{}}}", members.join(","))
}

fn short(bytes: usize) -> String {
    let members: Vec<_> = (0..bytes / 9).rev().map(|nth| format!("\"{nth:x}\":0")).collect();
    format!("{{{}}}", members.join(","))
}

fn alike(bytes: usize) -> String {
    let name = "n".repeat(1000);
    let members: Vec<_> =
        (0..bytes / 1010).rev().map(|nth| format!("\"{name}{nth:04}\":0")).collect();
    format!("{{{}}}", members.join(","))
}

fn listed(bytes: usize, element: impl Fn(u64) -> String) -> String {
    let mut list = String::from("[");
    for nth in 0.. {
        let element = element(nth);
        if list.len() + element.len() + 1 > bytes {
            break;
        }
        list += &element;
        list.push(',');
    }
    list.pop();
    list + "]"
}

/// Digits that look random.
fn spread(nth: u64) -> u64 {
    nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000_000_000_000_000
}

fn form(bytes: usize) -> String {
    let fields: Vec<_> =
        (0..4000).rev().map(|nth| format!("f{nth}={}", "%41".repeat(80))).collect();
    let mut form = fields.join("&");
    form.truncate(bytes);
    form
}

fn multipart(bytes: usize) -> String {
    let part = |nth: usize| {
        let head = format!("--X\r\nContent-Disposition: form-data; name=f{nth}\r\n\r\n");
        head + &"\r\n--".repeat(250) + "\r\n"
    };
    let parts: String = (0..bytes / 1060).map(part).collect();
    parts + "--X--\r\n"
}
