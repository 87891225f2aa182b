//! Trees of files that are compared: where they live, what state they are in.

pub(crate) mod arena;
pub(crate) mod clock;
pub(crate) mod snapshot;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Removes what is at `path`, whatever its modes; nothing there is fine.
///
/// # Errors
///
/// When it cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(metadata) if metadata.is_dir() => {
            unlock(path);
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
    }
}

/// Removes all that is below `root`, whatever its modes.
///
/// # Errors
///
/// When something cannot be removed.
pub(crate) fn clear(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        remove(&entry?.path())?;
    }
    Ok(())
}

/// Makes directories writable again, so that they can be emptied.
fn unlock(dir: &Path) {
    if let Ok(metadata) = dir.metadata()
        && metadata.mode() & 0o700 != 0o700
    {
        let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o755));
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}
