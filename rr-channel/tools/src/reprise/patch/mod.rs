//! The crates that take others' places in a project.
//!
//! Three for each, because a crate that replaces another cannot depend on it by the same
//! name: cargo would replace that dependency too, or drop the patch without a word.
//!
//! | directory | package | content |
//! |---|---|---|
//! | `crossbeam-channel` | of that name, the locked version and upstream's features | re-exports `rr_channel::crossbeam_channel` |
//! | `crossbeam-channel-upstream` | `rr-channel-crossbeam-channel` | upstream's source, whose library keeps its name |
//! | `rr-channel`, `rr-channel-log` | of these names, once for all | the sources that this tool carries with it |
//!
//! A crate whose inside matters (`rayon-core`) is upstream's source with edits instead, and
//! needs no copy of another name.
//!
//! Files whose content would not change are left alone, so that cargo does not build
//! them anew.

pub(super) mod copy;
pub(super) mod crates;
pub(super) mod manifest;
mod rayon;
mod tokio;

use std::path::{Path, PathBuf};

use toml::Table;

use self::copy::{copy_package, write};
use self::crates::By;
use self::manifest::{
    Replaced, edited_manifest, features_for, log_manifest, read_manifest, rr_channel_manifest,
    shim_manifest, upstream_manifest,
};

/// The sources of `rr-channel` and `rr-channel-log`, each by its path below the generated
/// crates.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Writes the crates below `dir`. The path of the one to patch in, for each replaced one.
///
/// # Errors
/// If one cannot be replaced, or something cannot be read or written.
pub(super) fn generate(dir: &Path, replaced: &[Replaced<'_>]) -> anyhow::Result<Vec<PathBuf>> {
    let asked = features_for(replaced)?;
    let mut made = Vec::new();
    for package in replaced {
        let shim = dir.join(package.of.name);
        match &package.of.by {
            By::Edited(edits) => {
                let known = edits.iter();
                let here = known.filter(|(series, _)| package.version.starts_with(series));
                let edits: Vec<_> = here.flat_map(|(_, edits)| *edits).collect();
                copy_package(package.source, &shim, &edits)?;
                let manifest = edited_manifest(read_manifest(package)?, &asked, replaced)?;
                write_toml(&shim, manifest)?;
            }
            By::Face { code, .. } => {
                write_toml(&shim, shim_manifest(package, &asked))?;
                write(&shim.join("src/lib.rs"), code.as_bytes())?;
                let upstream = dir.join(format!("{}-upstream", package.of.name));
                copy_package(package.source, &upstream, &[])?;
                let manifest = read_manifest(package)?;
                let manifest = upstream_manifest(package.of.name, manifest, replaced)?;
                write_toml(&upstream, manifest)?;
            }
        }
        made.push(shim);
    }
    write_toml(&dir.join("rr-channel"), rr_channel_manifest(replaced)?)?;
    write_toml(&dir.join("rr-channel-log"), log_manifest()?)?;
    for (path, text) in SOURCES {
        write(&dir.join(path), text.as_bytes())?;
    }
    Ok(made)
}

fn write_toml(dir: &Path, manifest: Table) -> anyhow::Result<()> {
    write(
        &dir.join("Cargo.toml"),
        toml::to_string(&manifest)?.as_bytes(),
    )
}
