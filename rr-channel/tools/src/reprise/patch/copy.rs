//! Copies of upstream's sources, with edits.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, ensure};

/// A change of a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) file: &'static str,
    /// The text that is there, exactly once.
    pub(super) from: &'static str,
    /// The text that replaces it.
    pub(super) to: &'static str,
}

/// Copies what a package's library is made of, with `edits`.
pub(super) fn copy_package(from: &Path, to: &Path, edits: &[&Edit]) -> anyhow::Result<()> {
    copy_below(from, to, Path::new(""), edits)?;
    // Each was found in its file, or its file was not.
    for edit in edits {
        let file = from.join(edit.file);
        ensure!(file.is_file(), "there is no {}", file.display());
    }
    Ok(())
}

fn copy_below(from: &Path, to: &Path, below: &Path, edits: &[&Edit]) -> anyhow::Result<()> {
    let unused = [
        "Cargo.toml",
        "Cargo.toml.orig",
        "Cargo.lock",
        "tests",
        "benches",
        "examples",
    ];
    let dir = from.join(below);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if unused.iter().any(|unused| OsStr::new(unused) == name) || is_hidden(&name) {
            continue;
        }
        let path = below.join(&name);
        if entry.file_type()?.is_dir() {
            copy_below(from, to, &path, edits)?;
            continue;
        }
        let source = entry.path();
        let bytes =
            fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let mut here = edits.iter().filter(|edit| Path::new(edit.file) == path);
        let bytes = here.try_fold(bytes, |bytes, edit| {
            edited(bytes, edit).with_context(|| {
                format!(
                    "{} differs from the known source of its version, so it cannot be recorded",
                    source.display()
                )
            })
        })?;
        write(&to.join(&path), &bytes)?;
    }
    Ok(())
}

/// A source with one change.
///
/// # Errors
/// If what is to be changed is not there, or more than once.
fn edited(bytes: Vec<u8>, edit: &Edit) -> anyhow::Result<Vec<u8>> {
    let text = String::from_utf8(bytes)?;
    let count = text.matches(edit.from).count();
    ensure!(count == 1, "found {count} times:\n{}", edit.from);
    Ok(text.replacen(edit.from, edit.to, 1).into_bytes())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Writes a file, and the directories above it, unless it has this content already.
///
/// # Errors
/// If it cannot be written.
pub(in crate::reprise) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file that can be executed, unless it has this content already. It appears whole: a
/// build that runs meanwhile may execute it.
///
/// # Errors
/// If it cannot be written.
pub(in crate::reprise) fn write_script(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let new = path.with_extension("new");
    write(&new, text.as_bytes())?;
    fs::set_permissions(&new, Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_would_not_change_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        write(&path, b"x").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
        write(&path, b"x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), old);
        write(&path, b"y").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"y");
    }
}
