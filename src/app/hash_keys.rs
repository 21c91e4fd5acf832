//! The files with the hash keys: 32 hexadecimal digits, readable by their owner only.
//!
//! A missing current key is created. During a key rotation there is also a previous key. Partitions are chosen by the first
//! key ever used, which is kept in the store after it was rotated.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use super::file_permissions::warn_if_world_readable;
use crate::config::Config;
use crate::store::Store;
use ebb_sketch::hash::{HashKey, HashKeys};

/// The name in the store of the key that chooses partitions, once it is no longer the current key.
const ROUTING_KEY_NAME: &str = "routing-key";

/// The hash keys of the service.
pub(super) fn load_hash_keys(config: &Config, store: &Store) -> anyhow::Result<HashKeys> {
    let current = load_or_create(&config.hash_key_file)?;
    let previous = config.hash_key_previous_file.as_deref().map(load).transpose()?;
    ensure!(
        previous.as_ref() != Some(&current),
        "hash_key_previous_file contains the same key as hash_key_file; set the file of the previous key, or remove it"
    );
    let routing = match (store.get_metadata(ROUTING_KEY_NAME)?, &previous) {
        (None, None) => None,
        (Some(stored), _) => {
            let secret =
                <[u8; 16]>::try_from(stored.as_slice()).context("the stored key that chooses partitions is damaged")?;
            Some(HashKey::new(secret))
        }
        (None, Some(previous)) => {
            store.put_metadata(ROUTING_KEY_NAME, &previous.expose())?;
            Some(previous.clone())
        }
    };
    Ok(HashKeys { routing: routing.filter(|routing| *routing != current), current, previous })
}

/// Reads a key from an existing file.
fn load(path: &Path) -> anyhow::Result<HashKey> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read the hash key in {}", path.display()))?;
    warn_if_world_readable(path);
    parse(text.trim()).with_context(|| format!("invalid hash key in {}", path.display()))
}

/// Reads the key, or creates one if the file does not exist. An unreadable key is an error and never replaced: state is
/// unreadable under another key.
pub(super) fn load_or_create(path: &Path) -> anyhow::Result<HashKey> {
    if fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let key = create(path).with_context(|| format!("cannot create a hash key in {}", path.display()))?;
        tracing::info!(file = %path.display(), "created a new hash key; back it up: without it all state is lost");
        return Ok(key);
    }
    load(path)
}

fn parse(text: &str) -> anyhow::Result<HashKey> {
    ensure!(text.len() == 32, "{} characters; expected 32 hexadecimal digits", text.len());
    match u128::from_str_radix(text, 16) {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(HashKey::new(number.to_be_bytes())),
        _ => bail!("not hexadecimal; expected 32 hexadecimal digits"),
    }
}

/// Writes the key to a temporary file and renames it, so that a crash leaves no partial key.
fn create(path: &Path) -> anyhow::Result<HashKey> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{:032x}", u128::from_be_bytes(secret))?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    fs::File::open(folder)?.sync_all()?;
    Ok(HashKey::new(secret))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn missing_key_is_created_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("hash.key");
        let created = load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load_or_create(&path).unwrap(), created);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "the temporary file is gone");
    }

    #[test]
    fn damaged_key_is_an_error_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hash.key");
        for text in ["", "abc", &"g".repeat(32), &"+".repeat(32), &"1".repeat(33)] {
            fs::write(&path, text).unwrap();
            let error = format!("{:#}", load_or_create(&path).unwrap_err());
            assert!(error.contains("32 hexadecimal digits"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
