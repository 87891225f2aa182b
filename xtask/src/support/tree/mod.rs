//! Trees of files that are compared: where they live, what state they are in.

pub(crate) mod arena;
pub(crate) mod clock;
pub(crate) mod mounts;
pub(crate) mod snapshot;
pub(crate) mod unstable;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use clock::Nanos;

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

/// Moves what is in `root`, apart from names that are `kept`, into a new directory in
/// `aside`, on the same file system. What is measured next makes files, and a file system
/// avoids inodes that were given back a moment ago (ext4 for five minutes), at a price for
/// each new file: nothing is removed between measurements.
///
/// # Errors
///
/// When something cannot be moved.
pub(crate) fn set_aside(root: &Path, aside: &Path, kept: &[&str]) -> io::Result<()> {
    if !root.exists() {
        return Ok(());
    }
    let entries: Vec<_> = fs::read_dir(root)?.collect::<io::Result<_>>()?;
    fs::create_dir_all(aside)?;
    let to = tempfile::tempdir_in(aside)?.keep();
    for entry in entries {
        let name = entry.file_name();
        if !kept.iter().any(|kept| name == *kept) {
            fs::rename(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// Whether a file below `out` has the same modification time as another file of
/// the tree, after `since`.
///
/// # Errors
///
/// When a directory cannot be read.
pub(crate) fn has_equal_times(root: &Path, since: Nanos) -> io::Result<bool> {
    let mut made = Vec::new();
    times(&root.join("out"), since, &mut made)?;
    let mut all = Vec::new();
    times(root, since, &mut all)?;
    let twice = |time: &Nanos| all.iter().filter(|other| *other == time).count() > 1;
    Ok(made.iter().any(twice))
}

fn times(dir: &Path, since: Nanos, into: &mut Vec<Nanos>) -> io::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            times(&entry.path(), since, into)?;
        } else {
            let time = Nanos::from(found.mtime()) * 1_000_000_000 + Nanos::from(found.mtime_nsec());
            into.extend((time > since).then_some(time));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_of_outputs_are_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = |name: &str, seconds| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path)
                .unwrap()
                .set_modified(at(seconds))
                .unwrap();
        };
        let check = || has_equal_times(root.path(), 100 * 1_000_000_000).unwrap();
        assert!(!check());
        file("src/a", 200);
        file("src/b", 200);
        file("out/old", 50);
        file("out/old2", 50);
        file("out/new", 201);
        assert!(!check());
        file("src/c", 201);
        assert!(check());
    }
}
