//! Permissions of files with secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Warns if every user of the machine can read the file.
pub(super) fn warn_if_world_readable(path: &Path) {
    if let Ok(metadata) = fs::metadata(path)
        && metadata.permissions().mode() & 0o007 != 0
    {
        tracing::warn!(file = %path.display(), "the file contains a secret and is accessible to all users; chmod 600 it");
    }
}
