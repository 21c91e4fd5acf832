//! The files that hold hash keys: 32 hexadecimal digits, readable by their owner alone. The current one is made when it is
//! absent; while keys are exchanged there is a previous one, and for ever after the one that first chose partitions.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::config::Config;
use crate::store::Store;
use ebb_sketch::hash::{HashKey, HashKeys};

/// Where the key that first chose partitions is kept once it is no longer the current one.
const ROUTING_FACT: &str = "routing-key";

/// The keys of the service.
pub(super) fn hash_keys(config: &Config, store: &Store) -> anyhow::Result<HashKeys> {
    let current = load_or_create(&config.hash_key_file)?;
    let previous = config.hash_key_previous_file.as_deref().map(load).transpose()?;
    ensure!(
        previous.as_ref() != Some(&current),
        "hash_key_previous_file holds the same key as hash_key_file; write the one before, or remove it"
    );
    let routing = match (store.get_metadata(ROUTING_FACT)?, &previous) {
        (None, None) => None,
        (Some(kept), _) => {
            let secret = <[u8; 16]>::try_from(kept.as_slice()).context("the key that chooses partitions is damaged")?;
            Some(HashKey::new(secret))
        }
        (None, Some(previous)) => {
            store.put_metadata(ROUTING_FACT, &previous.expose())?;
            Some(previous.clone())
        }
    };
    Ok(HashKeys { routing: routing.filter(|routing| *routing != current), current, previous })
}

/// Reads a key that must be there.
fn load(path: &Path) -> anyhow::Result<HashKey> {
    let text = fs::read_to_string(path).with_context(|| format!("reading the hash key in {}", path.display()))?;
    warn_when_open_to_others(path);
    parse(text.trim()).with_context(|| format!("the hash key in {}", path.display()))
}

/// Reads the key, or makes one. A key that cannot be read is an error: another key would forget everything.
pub(super) fn load_or_create(path: &Path) -> anyhow::Result<HashKey> {
    if fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let key = create(path).with_context(|| format!("making a hash key in {}", path.display()))?;
        tracing::info!(file = %path.display(), "a new hash key was made; keep it: without it all memory is lost");
        return Ok(key);
    }
    load(path)
}

fn parse(text: &str) -> anyhow::Result<HashKey> {
    ensure!(text.len() == 32, "has {} characters; a key is 32 hexadecimal digits", text.len());
    match u128::from_str_radix(text, 16) {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Ok(HashKey::new(number.to_be_bytes())),
        _ => bail!("is not hexadecimal; a key is 32 hexadecimal digits"),
    }
}

/// Written whole under another name first: a crash leaves no half key behind.
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

/// Tells that a secret is none.
pub(super) fn warn_when_open_to_others(path: &Path) {
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().mode() & 0o007 != 0
    {
        tracing::warn!(file = %path.display(), "a secret that everybody on this machine can read; chmod 600 it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("hash.key");
        let made = load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load_or_create(&path).unwrap(), made);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_damaged_key_is_never_replaced() {
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
