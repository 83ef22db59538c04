//! Journals as the engine writes them, whole and damaged.

use tempfile::TempDir;

use super::*;

/// A journal with some batches: its bytes without the reserved space, and where each batch ends.
fn journal() -> (Vec<u8>, Vec<u64>) {
    let folder = TempDir::new().unwrap();
    let database = fjall::Database::builder(folder.path()).open().unwrap();
    let keyspace = database.keyspace("k", Default::default).unwrap();
    let path = folder.path().join("0.jnl");
    let mut ends = vec![];
    for number in 0..6_u8 {
        let mut batch = database.batch();
        batch.insert(&keyspace, [number], vec![number + 1; 50 * usize::from(number)]);
        batch.remove(&keyspace, "gone");
        batch.insert(&keyspace, "empty", "");
        batch.commit().unwrap();
        if number == 3 {
            keyspace.clear().unwrap();
        }
        ends.push(written(&path).len() as u64);
    }
    drop((keyspace, database));
    (written(&path), ends)
}

/// The bytes of a small journal without the reserved space.
fn written(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().take(64 << 10).read_to_end(&mut bytes).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes.truncate(last + 1);
    bytes
}

fn scan_bytes(bytes: &[u8]) -> Scan {
    scan(bytes).unwrap()
}

#[test]
fn a_whole_journal_is_whole_with_and_without_reserved_space() {
    let (bytes, ends) = journal();
    let whole = Scan { whole: *ends.last().unwrap(), torn: None };
    assert_eq!(scan_bytes(&bytes), whole);
    assert_eq!(scan_bytes(&[&bytes[..], &[0; 700_000]].concat()), whole);
    assert_eq!(scan_bytes(&[]), Scan { whole: 0, torn: None });
    assert_eq!(scan_bytes(&[0; 10]), Scan { whole: 0, torn: None });
}

#[test]
fn a_cut_at_every_byte_leaves_the_batches_before_it() {
    let (bytes, ends) = journal();
    for cut in 0..bytes.len() {
        let before = ends.iter().rev().find(|end| **end <= cut as u64).copied().unwrap_or(0);
        for rest in [&[][..], &[0; 100]] {
            let scan = scan_bytes(&[&bytes[..cut], rest].concat());
            // Between two batches of one step there is one more end, which the steps do not list.
            assert!(scan.whole >= before && scan.whole <= cut as u64, "cut at {cut}: {scan:?}");
            assert!(scan.torn.is_some() || scan.whole == cut as u64, "cut at {cut}: {scan:?}");
        }
    }
}

#[test]
fn a_flipped_bit_ends_the_journal_before_its_batch() {
    let (bytes, ends) = journal();
    let mut batch_header = 0;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let scan = scan_bytes(&damaged);
        let at = (bit / 8) as u64;
        if scan.torn.is_none() {
            // The sequence number in a batch's start has no checksum.
            batch_header += 1;
            continue;
        }
        let after = ends.iter().find(|end| **end > at).unwrap();
        assert!(scan.whole <= at && scan.whole < *after, "bit {bit}: {scan:?}");
    }
    assert_eq!(batch_header, 7 * 8 * 8);
}

fn dir_with(journals: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, bytes) in journals {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

#[test]
fn the_newest_journal_is_cut_and_an_older_one_refused() {
    let (bytes, ends) = journal();
    let torn = &bytes[..bytes.len() - 1];
    let whole = ends[ends.len() - 2];
    let dir = dir_with(&[("9.jnl", &bytes), ("10.jnl", torn), ("version", b"x"), ("a.jnl", b"x")]);
    mend(dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("10.jnl")).unwrap(), bytes[..whole as usize]);
    assert_eq!(fs::read(dir.path().join("9.jnl")).unwrap(), bytes);

    let dir = dir_with(&[("9.jnl", torn), ("10.jnl", &bytes)]);
    let Err(StartError::Damaged { file, offset, .. }) = mend(dir.path()) else { panic!("mended") };
    assert_eq!((file, offset), (dir.path().join("9.jnl"), whole));
    assert_eq!(fs::read(dir.path().join("9.jnl")).unwrap(), torn);
}

#[test]
fn a_directory_without_journals_is_left_alone() {
    mend(TempDir::new().unwrap().path()).unwrap();
}
