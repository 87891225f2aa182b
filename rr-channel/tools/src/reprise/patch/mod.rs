//! The crates that take others' places in a project.
//!
//! Three for each, because a crate that replaces another cannot depend on it by the same
//! name: cargo would replace that dependency too, or drop the patch without a word.
//!
//! | directory | package | content |
//! |---|---|---|
//! | `crossbeam-channel` | of that name, the locked version and upstream's features | re-exports `rr_channel::crossbeam_channel` |
//! | `crossbeam-channel-upstream` | `rr-channel-crossbeam-channel` | upstream's source, whose library keeps its name |
//! | `rr-channel`, `rr-channel-core`, `rr-channel-log` | of these names, once for all | the sources that this tool carries with it |
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
mod tokio_util;

use std::path::{Path, PathBuf};

use toml::Table;

use self::copy::{copy_package, write};
use self::crates::By;
use self::manifest::{
    Replaced, core_manifest, edited_manifest, features_for, log_manifest, read_manifest,
    rr_channel_manifest, shim_manifest, std_manifest, upstream_manifest, without_core,
};

/// The sources of `rr-channel` and what it is made of, each by its path below the generated crates.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The files of a `std` that records: the path of each, and its content.
///
/// # Errors
/// If a manifest cannot be made.
pub(super) fn files_of_std() -> anyhow::Result<Vec<(String, String)>> {
    let manifests = [
        ("rr-channel-std", std_manifest()?),
        ("rr-channel-core", core_manifest(&[])?),
        ("rr-channel-log", log_manifest()?),
    ];
    let mut files = Vec::new();
    for (package, manifest) in manifests {
        files.push((format!("{package}/Cargo.toml"), toml::to_string(&manifest)?));
    }
    for (path, text) in SOURCES {
        if !path.starts_with("rr-channel/") {
            files.push(((*path).to_owned(), (*text).to_owned()));
        }
    }
    Ok(files)
}

/// Writes files below `dir`, each with its directory.
///
/// # Errors
/// If one cannot be written.
pub(super) fn write_files(dir: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for (path, text) in files {
        write(&dir.join(path), text.as_bytes())?;
    }
    Ok(())
}

/// Whether what tasks of tokio wait for is recorded, and not only what they do.
pub(super) fn records_waits() -> bool {
    std::env::var_os(tokio::VARIABLE).is_none_or(|value| value != "0")
}

/// Writes the crates below `dir`. The path of the one to patch in, for each replaced one. With
/// `records_std`, `rr-channel` gets what it is made of by the compiler's command line.
///
/// # Errors
/// If one cannot be replaced, or something cannot be read or written.
pub(super) fn generate(
    dir: &Path,
    replaced: &[Replaced<'_>],
    records_std: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    let asked = features_for(replaced, records_std)?;
    let mut made = Vec::new();
    for package in replaced {
        let shim = dir.join(package.of.name);
        match &package.of.by {
            By::Edited(edits) => {
                let more = match package.of.name {
                    crates::EXECUTOR if records_waits() => tokio::OF_WAITS,
                    crates::UTILITIES => tokio_util::OF_WAITS,
                    _ => &[],
                };
                let known = edits.iter().chain(more);
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
    let mut rr_channel = rr_channel_manifest(replaced)?;
    if records_std {
        without_core(&mut rr_channel);
    } else {
        write_toml(&dir.join("rr-channel-core"), core_manifest(replaced)?)?;
        write_toml(&dir.join("rr-channel-log"), log_manifest()?)?;
    }
    write_toml(&dir.join("rr-channel"), rr_channel)?;
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
