//! Cases that once failed, kept as JSON and replayed first in each run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::case::Case;

/// The directory of the stored cases in the source tree.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/differential")
}

/// Reads all stored cases, by name.
///
/// # Errors
///
/// When a case cannot be read; a corpus that is not there is empty.
pub(crate) fn load(directory: &Path) -> anyhow::Result<Vec<(String, Case)>> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(Vec::new());
    };
    let mut cases = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let json = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let case = serde_json::from_slice(&json)
                .with_context(|| format!("reading {}", path.display()))?;
            cases.push((name, case));
        }
    }
    cases.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(cases)
}

/// Writes a case; returns where.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn store(directory: &Path, name: &str, case: &Case) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let path = directory.join(format!("{name}.json"));
    let mut json = serde_json::to_string_pretty(case)?;
    json.push('\n');
    fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
