//! `oncegate hash-key`: makes the digest under which a policy keeps an API key.

use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Failure, hex};

/// Bytes of randomness in a generated key: nobody guesses 256 bits.
const KEY_BYTES: usize = 32;

/// The longest key that is read: longer ones are refused as credentials as well.
const KEY_TEXT_MAX: u64 = 512;

/// The key comes on standard input, never as an argument: arguments show in process lists and
/// shell histories.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    oncegate hash-key --generate\n  \
    printf %s \"$API_KEY\" | oncegate hash-key")]
pub(super) struct HashKeyArgs {
    /// Make a new random key and print it with its digest
    #[arg(long)]
    generate: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &HashKeyArgs) -> Result<(), Failure> {
    let key = if args.generate { generate() } else { read()? };
    let digest = hex(&Sha256::digest(key.as_bytes()));
    match (args.json, args.generate) {
        (true, true) => println!("{}", json!({"api_key": key, "api_key_sha256": digest})),
        (true, false) => println!("{}", json!({ "api_key_sha256": digest })),
        (false, true) => println!("api_key         {key}\napi_key_sha256  {digest}"),
        (false, false) => println!("{digest}"),
    }
    Ok(())
}

fn generate() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; KEY_BYTES]>())
}

/// The key on standard input, without the line end after it.
fn read() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().lock().take(KEY_TEXT_MAX + 2).read_to_string(&mut text);
    read.map_err(|error| Failure::Says(format!("cannot read the key from stdin: {error}")))?;
    let key = text.strip_suffix('\n').unwrap_or(&text);
    let key = key.strip_suffix('\r').unwrap_or(key);
    let sendable = key.bytes().all(|byte| byte.is_ascii_graphic());
    if key.is_empty() || key.len() as u64 > KEY_TEXT_MAX || !sendable {
        let rule = format!("a key is 1 to {KEY_TEXT_MAX} bytes of visible ASCII without spaces");
        return Err(Failure::Says(rule));
    }
    Ok(key.to_owned())
}
