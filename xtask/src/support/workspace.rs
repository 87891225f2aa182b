//! The files of this workspace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The workspace that this program was built from.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir).to_owned()
}

/// Where cargo puts what it builds of the workspace.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The files below `root` with this extension, relative to it and sorted; without build
/// directories and hidden ones.
///
/// # Errors
///
/// When a directory cannot be read.
pub(crate) fn files(root: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {}", dir.display()))?;
            let name = entry.file_name();
            let is_left_out = name == "target" || name.as_encoded_bytes().starts_with(b".");
            let path = entry.path();
            if is_left_out {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if path.extension().is_some_and(|own| own == extension) {
                found.extend(path.strip_prefix(root).ok().map(Path::to_owned));
            }
        }
    }
    found.sort();
    Ok(found)
}
