use std::fs;

use tempfile::TempDir;

use super::*;
use crate::tenant::tests::issuer::{Key, jwks};

/// Long enough for a thread that looks once a second on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Folder(TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.put(text);
        folder
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("jwks.json")
    }

    /// Replaces the file as those do who know how: at once and whole.
    fn put(&self, text: &str) {
        let new = self.0.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }
}

/// Waits until the thread has found what makes `wanted` true.
async fn until(file: &KeyFile, wanted: impl Fn(&KeySet) -> bool) {
    let mut published = file.published.clone();
    let found = published.wait_for(|published| wanted(&published.keys));
    assert!(timeout(PATIENCE, found).await.is_ok_and(|found| found.is_ok()));
}

/// Waits until the thread has looked once more from beginning to end.
async fn until_looked(file: &KeyFile) {
    let mut published = file.published.clone();
    for _ in 0..2 {
        let looks = published.borrow().looks;
        let _ = file.demand.try_send(());
        let looked = published.wait_for(|published| published.looks > looks);
        assert!(timeout(PATIENCE, looked).await.is_ok_and(|looked| looked.is_ok()));
    }
}

#[tokio::test]
async fn a_new_key_is_found_by_the_first_token_that_names_it() {
    let folder = Folder::with(&jwks(&[Key::ec().jwk("old")]));
    let file = KeyFile::follow(folder.path());
    assert!(file.key("old").await.is_some());
    assert!(file.key("new").await.is_none());
    folder.put(&jwks(&[Key::ec().jwk("old"), Key::ed().jwk("new")]));
    assert!(file.key("new").await.is_some());
    assert!(file.key("old").await.is_some());
}

#[tokio::test]
async fn a_key_that_was_taken_out_is_refused_soon() {
    let folder = Folder::with(&jwks(&[Key::ec().jwk("old"), Key::ed().jwk("new")]));
    let file = KeyFile::follow(folder.path());
    folder.put(&jwks(&[Key::ed().jwk("new")]));
    until(&file, |keys| keys.get("old").is_none()).await;
    assert!(file.key("old").await.is_none());
    assert!(file.key("new").await.is_some());
}

#[tokio::test]
async fn a_broken_or_missing_file_keeps_the_keys_that_were_read_before() {
    let folder = Folder::with(&jwks(&[Key::ec().jwk("k")]));
    let file = KeyFile::follow(folder.path());
    for broken in ["{", "{\"keys\":[]}"] {
        folder.put(broken);
        until_looked(&file).await;
        assert!(file.key("k").await.is_some(), "{broken}");
    }
    fs::remove_file(folder.path()).unwrap();
    until_looked(&file).await;
    assert!(file.key("k").await.is_some());
    folder.put(&jwks(&[Key::ed().jwk("next")]));
    until(&file, |keys| keys.get("next").is_some()).await;
}

#[tokio::test]
async fn without_a_usable_file_there_is_no_key_until_there_is_one() {
    let folder = Folder::with("{");
    let file = KeyFile::follow(folder.path());
    assert!(file.key("k").await.is_none());
    folder.put(&jwks(&[Key::ec().jwk("k")]));
    until(&file, |keys| keys.get("k").is_some()).await;
}

#[test]
fn unknown_keys_have_the_file_read_again_once_in_a_while_only() {
    let folder = Folder::with(&jwks(&[Key::ec().jwk("k")]));
    let mut file = Followed { path: folder.path(), version: None, read_at: Instant::now() };
    assert!(file.look(false).is_some(), "the first look");
    assert!(file.look(false).is_none() && file.look(true).is_none(), "it was read just now");
    file.read_at = Instant::now().checked_sub(READ_EVERY).unwrap();
    assert!(file.look(false).is_none(), "it has not changed");
    assert!(file.look(true).is_some());
    assert!(file.look(true).is_none());
}

#[tokio::test]
async fn the_thread_ends_with_its_last_user() {
    let folder = Folder::with(&jwks(&[Key::ec().jwk("k")]));
    let file = KeyFile::follow(folder.path());
    let mut published = file.published.clone();
    drop(file);
    let ended = async { while published.changed().await.is_ok() {} };
    assert!(timeout(PATIENCE, ended).await.is_ok());
}
