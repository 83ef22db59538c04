//! What a claim costs the record store. A measurement, not a check.

use std::time::Instant;

use super::*;

const CLAIMS: usize = 400_000;
const SHARDS: u16 = 16;

fn name(number: usize) -> Vec<u8> {
    let key = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("\u{1}\0\0\0\u{4}acme\0\0\0\0\0\u{1}\0\0\0\u{6}orders{key:016x}-{number:019x}")
        .into_bytes()
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// Claims of names that are absent, then their completions, `batch` of one shard in each commit.
fn measure(batch: usize) {
    let fixture = Fixture::new();
    let shards: Vec<_> = (0..SHARDS).map(|shard| fixture.records.shard(ShardId(shard))).collect();
    let (record, response, meta) = ([7; 250], [7; 600], [7; 120]);
    let start = Instant::now();
    let mut slowest = start.elapsed();
    for first in (0..CLAIMS).step_by(batch) {
        let begin = Instant::now();
        let shard = &shards[first / batch % shards.len()];
        let mut changes = shard.batch();
        for name in (first..first + batch).map(name) {
            assert!(shard.get(&name).unwrap().is_none());
            changes.put(&name, record.to_vec());
            changes.put_index(Index::Due, 30_000 + first as u64, &name);
        }
        changes.set_meta(meta.to_vec());
        changes.commit().unwrap();
        slowest = slowest.max(begin.elapsed());
    }
    let claims = start.elapsed().as_secs_f64() * 1e6 / CLAIMS as f64;
    let start = Instant::now();
    for first in (0..CLAIMS).step_by(batch) {
        let shard = &shards[first / batch % shards.len()];
        let mut changes = shard.batch();
        for name in (first..first + batch).map(name) {
            assert!(shard.get(&name).unwrap().is_some());
            changes.put(&name, response.to_vec());
            changes.remove_index(Index::Due, 30_000 + first as u64, &name);
            changes.put_index(Index::Due, 86_400_000 + first as u64, &name);
        }
        changes.set_meta(meta.to_vec());
        changes.commit().unwrap();
    }
    let completions = start.elapsed().as_secs_f64() * 1e6 / CLAIMS as f64;
    println!(
        "{batch:3} in a batch: {claims:.1} us a claim (slowest batch {slowest:.1?}), \
         {completions:.1} us a completion, {} MiB resident",
        resident_mib()
    );
}

#[test]
#[ignore = "a measurement: run it alone, with --release and --nocapture"]
fn what_a_claim_costs() {
    for batch in [1, 8, 64] {
        measure(batch);
    }
}
