//! The log on the machine's own file system.

use super::super::super::disk::OsDisk;
use super::*;

fn open_at(dir: &Path) -> Wal {
    let dir = dir.join("data/wal");
    let options = WalOptions { segment_bytes: 64 << 10, ..WalOptions::new(dir, true) };
    Wal::open(Arc::new(OsDisk), options).unwrap()
}

#[test]
fn many_shards_append_and_purge_at_once_and_come_back() {
    let root = tempfile::tempdir().unwrap();
    let wal = open_at(root.path());
    thread::scope(|scope| {
        for number in 0..8 {
            let wal = &wal;
            scope.spawn(move || {
                let shard = ShardId(number);
                for at in 0..200 {
                    append(wal, shard, 2 * at..2 * at + 2);
                    wal.shard(shard).save_committed(format!("{at}").into());
                    if at % 50 == 49 {
                        wal.shard(shard).purge(2 * at - 10, format!("{at}").into());
                    }
                }
            });
        }
    });
    let expected: Vec<State> = (0..8).map(|shard| state(&wal.shard(ShardId(shard)))).collect();
    assert_eq!(expected[3].entries, entries(ShardId(3), 389..400));
    wal.close();
    let wal = open_at(root.path());
    let found: Vec<State> = (0..8).map(|shard| state(&wal.shard(ShardId(shard)))).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_file_cut_short_and_a_file_damaged_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let wal = open_at(root.path());
    append(&wal, A, 0..3);
    append(&wal, A, 3..6);
    // A process that is killed leaves the files as they are now.
    let killed = tempfile::tempdir().unwrap();
    let (from, to) = (root.path().join("data/wal"), killed.path().join("data/wal"));
    OsDisk.create_dir(&to).unwrap();
    let first = segment::path(&from, 1);
    std::fs::copy(&first, segment::path(&to, 1)).unwrap();
    drop(wal);

    let path = segment::path(&to, 1);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(HEADER_BYTES + 250).unwrap();
    let wal = open_at(killed.path());
    assert_eq!(wal.shard(A).read(0, 9, 999), entries(A, 0..3));
    append(&wal, A, 3..4);
    wal.close();

    let mut bytes = OsDisk.read(&path).unwrap();
    bytes[HEADER_BYTES as usize + 30] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let options = WalOptions::new(to, true);
    let error = Wal::open(Arc::new(OsDisk), options).err().unwrap();
    let (damaged, offset, what) = damage(error);
    assert_eq!((damaged, offset), (path, HEADER_BYTES));
    assert_eq!(what, format!("group 1 is damaged: group 2 follows at byte {}", HEADER_BYTES + 168));
}
