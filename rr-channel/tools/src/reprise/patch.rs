//! The crates that take crossbeam-channel's place in a project.
//!
//! Three, because a crate that replaces another cannot depend on it by the same name:
//! cargo would replace that dependency too, or drop the patch without a word.
//!
//! | directory | package | content |
//! |---|---|---|
//! | `crossbeam-channel` | of that name, the locked version and upstream's features | re-exports `rr_channel::crossbeam_channel` |
//! | `rr-channel` | `rr-channel` | the sources that this tool carries with it |
//! | `upstream` | `rr-channel-upstream` | upstream's source, whose library keeps its name |
//!
//! Files whose content would not change are left alone, so that cargo does not build
//! them anew.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use toml::{Table, Value};

/// The crate that is replaced.
pub(super) const NAME: &str = "crossbeam-channel";

/// What `rr-channel`'s own manifest has, too.
const FEATURES: &str = r#"
default = ["interpose", "upstream-0.5.16"]
interpose = []
"upstream-0.5.14" = []
"upstream-0.5.16" = ["upstream-0.5.14"]
"#;

const RENAMED: &str = "rr-channel-upstream";

/// Every file of `rr-channel`'s `src`.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// What `rr-channel` depends on besides upstream, and that it is content with: the
/// project's lock file may hold versions of long ago.
const DEPENDENCIES: &str = r#"
libc = "0.2.81"
rustc-hash = "2"
"#;

/// Writes the crates below `dir`, of an upstream of this version with these features
/// whose source is in `source`. The path of the one to patch in.
///
/// # Errors
/// If upstream cannot be replaced, or something cannot be read or written.
pub(super) fn generate(
    dir: &Path,
    version: &str,
    features: &BTreeMap<String, Vec<String>>,
    source: &Path,
) -> anyhow::Result<PathBuf> {
    let asked = features_for(version)?;
    let shim = dir.join(NAME);
    write_toml(&shim, shim_manifest(version, features, asked))?;
    write(
        &shim.join("src/lib.rs"),
        b"pub use rr_channel::crossbeam_channel::*;\n",
    )?;

    let rr_channel = dir.join("rr-channel");
    write_toml(&rr_channel, rr_channel_manifest()?)?;
    for (path, text) in SOURCES {
        write(&rr_channel.join("src").join(path), text.as_bytes())?;
    }

    let upstream = dir.join("upstream");
    copy_package(source, &upstream)?;
    let manifest = source.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    let manifest = text
        .parse()
        .with_context(|| format!("cannot parse {}", manifest.display()))?;
    write_toml(&upstream, upstream_manifest(manifest)?)?;
    Ok(shim)
}

/// The features of `rr-channel` that go with this version of upstream.
fn features_for(version: &str) -> anyhow::Result<&'static [&'static str]> {
    let patch = version
        .strip_prefix("0.5.")
        .and_then(|rest| rest.split(['-', '+']).next()?.parse::<u32>().ok())
        .with_context(|| format!("{NAME} {version} is not 0.5"))?;
    Ok(match patch {
        // It has a `select_biased!`, and nothing below it that others could use.
        13 => bail!("{NAME} 0.5.13 is locked, which cannot be replaced: `cargo update -p {NAME}`"),
        ..=12 => &["interpose"],
        14 | 15 => &["interpose", "upstream-0.5.14"],
        _ => &["interpose", "upstream-0.5.16"],
    })
}

/// A table, and in it what every generated manifest has.
fn manifest(name: &str, version: &str, edition: &str) -> Table {
    let mut package = Table::new();
    package.insert("name".to_owned(), name.into());
    package.insert("version".to_owned(), version.into());
    package.insert("edition".to_owned(), edition.into());
    package.insert("publish".to_owned(), false.into());
    let mut manifest = Table::new();
    manifest.insert("package".to_owned(), package.into());
    seclude(&mut manifest);
    manifest
}

/// Keeps a package from looking for a workspace around it, and its warnings to itself.
fn seclude(manifest: &mut Table) {
    manifest.insert("workspace".to_owned(), Table::new().into());
    let mut rust = Table::new();
    rust.insert("warnings".to_owned(), "allow".into());
    let mut lints = Table::new();
    lints.insert("rust".to_owned(), rust.into());
    manifest.insert("lints".to_owned(), lints.into());
}

fn path_dependency(path: &str, package: &str) -> Table {
    let mut dependency = Table::new();
    dependency.insert("path".to_owned(), path.into());
    dependency.insert("package".to_owned(), package.into());
    dependency
}

/// Upstream's features stay; `rr-channel` is `asked` for some of its own.
fn shim_manifest(version: &str, features: &BTreeMap<String, Vec<String>>, asked: &[&str]) -> Table {
    let mut shim = manifest(NAME, version, "2021");
    let features: Table = features
        .iter()
        .map(|(name, implied)| {
            // What belongs to dependencies is upstream's business.
            let implied = implied
                .iter()
                .filter(|implied| features.contains_key(*implied))
                .map(|implied| Value::from(implied.as_str()));
            (name.clone(), implied.collect::<Vec<_>>().into())
        })
        .collect();
    shim.insert("features".to_owned(), features.into());
    let mut rr_channel = path_dependency("../rr-channel", "rr-channel");
    rr_channel.insert("default-features".to_owned(), false.into());
    let asked = asked.iter().map(|name| Value::from(*name));
    rr_channel.insert("features".to_owned(), asked.collect::<Vec<_>>().into());
    let mut dependencies = Table::new();
    dependencies.insert("rr-channel".to_owned(), rr_channel.into());
    shim.insert("dependencies".to_owned(), dependencies.into());
    shim
}

fn rr_channel_manifest() -> anyhow::Result<Table> {
    let mut rr_channel = manifest("rr-channel", env!("CARGO_PKG_VERSION"), "2024");
    let features: Table = FEATURES.parse()?;
    rr_channel.insert("features".to_owned(), features.into());
    let mut dependencies: Table = DEPENDENCIES.parse()?;
    dependencies.insert(
        NAME.to_owned(),
        path_dependency("../upstream", RENAMED).into(),
    );
    rr_channel.insert("dependencies".to_owned(), dependencies.into());
    Ok(rr_channel)
}

/// Upstream's manifest as it is, but for the name and for what is not built.
fn upstream_manifest(mut manifest: Table) -> anyhow::Result<Table> {
    for unused in ["dev-dependencies", "example", "test", "bench", "lints"] {
        manifest.remove(unused);
    }
    let package = manifest
        .get_mut("package")
        .and_then(Value::as_table_mut)
        .context("upstream's manifest has no package")?;
    package.insert("name".to_owned(), RENAMED.into());
    package.insert("publish".to_owned(), false.into());
    package.remove("readme");
    let lib = manifest
        .entry("lib")
        .or_insert_with(|| Table::new().into())
        .as_table_mut()
        .context("upstream's library is no table")?;
    lib.insert("name".to_owned(), NAME.replace('-', "_").into());
    seclude(&mut manifest);
    Ok(manifest)
}

/// Copies what a package's library is made of.
fn copy_package(from: &Path, to: &Path) -> anyhow::Result<()> {
    let unused = [
        "Cargo.toml",
        "Cargo.toml.orig",
        "Cargo.lock",
        "tests",
        "benches",
        "examples",
    ];
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if unused.iter().any(|unused| OsStr::new(unused) == name) || is_hidden(&name) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() {
            copy_package(&from, &to)?;
        } else {
            let bytes =
                fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            write(&to, &bytes)?;
        }
    }
    Ok(())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn write_toml(dir: &Path, manifest: Table) -> anyhow::Result<()> {
    write(
        &dir.join("Cargo.toml"),
        toml::to_string(&manifest)?.as_bytes(),
    )
}

/// Writes a file, and the directories above it, unless it has this content already.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn the_shim_has_upstreams_name_version_and_features() {
        let features = [
            ("default", vec!["std"]),
            ("std", vec!["crossbeam-utils/std"]),
            ("crossbeam-utils", vec!["dep:crossbeam-utils"]),
        ];
        let features = features
            .map(|(name, implied)| {
                (
                    name.to_owned(),
                    implied.into_iter().map(str::to_owned).collect(),
                )
            })
            .into();
        insta::assert_snapshot!(toml::to_string(&shim_manifest("0.5.17", &features, &["interpose"])).unwrap(), @r#"
        [dependencies.rr-channel]
        default-features = false
        features = ["interpose"]
        package = "rr-channel"
        path = "../rr-channel"

        [features]
        crossbeam-utils = []
        default = ["std"]
        std = []

        [lints.rust]
        warnings = "allow"

        [package]
        edition = "2021"
        name = "crossbeam-channel"
        publish = false
        version = "0.5.17"

        [workspace]
        "#);
    }

    #[test]
    fn upstream_gets_another_name_and_keeps_its_library() {
        let manifest = upstream_manifest(table(
            "[package]\nname = \"crossbeam-channel\"\nversion = \"0.5.17\"\n\
             [dependencies.crossbeam-utils]\nversion = \"0.8\"\n\
             [dev-dependencies]\nrand = \"0.8\"\n[[test]]\nname = \"a\"\n",
        ))
        .unwrap();
        insta::assert_snapshot!(toml::to_string(&manifest).unwrap(), @r#"
        [dependencies.crossbeam-utils]
        version = "0.8"

        [lib]
        name = "crossbeam_channel"

        [lints.rust]
        warnings = "allow"

        [package]
        name = "rr-channel-upstream"
        publish = false
        version = "0.5.17"

        [workspace]
        "#);
    }

    /// The generated manifest of `rr-channel` says what its own says.
    #[test]
    fn the_dependencies_of_rr_channel_are_as_in_the_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| table(&fs::read_to_string(root.join(path)).unwrap());
        let (own, workspace) = (read("rr-channel/Cargo.toml"), read("Cargo.toml"));
        let made = rr_channel_manifest().unwrap();
        assert_eq!(made["features"], own["features"]);
        let made = made["dependencies"].as_table().unwrap();
        let own = own["dependencies"].as_table().unwrap();
        assert!(own.keys().eq(made.keys()));
        for (name, dependency) in own {
            assert_eq!(
                dependency,
                &Value::from(table("workspace = true")),
                "{name}"
            );
            if name != NAME {
                let version = workspace["workspace"]["dependencies"][name]
                    .as_str()
                    .unwrap();
                let major = made[name].as_str().unwrap().split('.').next();
                assert_eq!(major, version.split('.').next(), "{name}");
            }
        }
    }

    #[test]
    fn old_upstreams_ask_for_less() {
        let check = |version| features_for(version).map(<[_]>::to_vec);
        assert_eq!(check("0.5.0").unwrap(), ["interpose"]);
        assert_eq!(check("0.5.14").unwrap(), ["interpose", "upstream-0.5.14"]);
        assert_eq!(check("0.5.99+x").unwrap(), ["interpose", "upstream-0.5.16"]);
        insta::assert_snapshot!(check("0.5.13").unwrap_err(), @"crossbeam-channel 0.5.13 is locked, which cannot be replaced: `cargo update -p crossbeam-channel`");
        assert!(check("0.4.0").is_err());
    }

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
