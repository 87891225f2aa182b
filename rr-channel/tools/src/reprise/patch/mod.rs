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

mod rayon;
mod tokio;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use toml::{Table, Value};

/// A crate that can be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Crate {
    pub(super) name: &'static str,
    /// How its versions begin.
    series: &'static [&'static str],
    by: By,
    /// What `rr-channel` depends on where this is replaced, instead of what it says itself.
    needs: &'static [(&'static str, &'static str)],
}

/// What takes a crate's place.
#[derive(Debug, PartialEq, Eq)]
enum By {
    /// A crate that re-exports ours.
    Face {
        /// What it says.
        code: &'static str,
        /// Whether upstream's features matter: they are passed on to it.
        passes_features: bool,
        /// What `rr-channel` calls upstream.
        upstream: &'static str,
    },
    /// Upstream's source, edited: what is done to versions that begin so.
    Edited(&'static [(&'static str, &'static [Edit])]),
}

impl Crate {
    /// What `rr-channel` calls it, if it is made of it.
    fn upstream(&self) -> Option<&'static str> {
        match &self.by {
            By::Face { upstream, .. } => Some(upstream),
            By::Edited(_) => None,
        }
    }

    /// Whether one of its versions is asked for by this requirement, as in a manifest.
    fn is_asked_for_by(&self, requirement: &str) -> bool {
        let wanted = format!("{}.", requirement.trim_start_matches(['^', '=', '~', ' ']));
        self.series.iter().any(|series| wanted.starts_with(series))
    }
}

/// A change of a source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) file: &'static str,
    /// What is there, exactly once.
    pub(super) from: &'static str,
    /// What is to be there instead.
    pub(super) to: &'static str,
}

/// What takes the place of parking_lot, by the name of our module.
macro_rules! face_of_locks {
    ($module:literal) => {
        concat!(
            "pub use rr_channel::",
            $module,
            "::*;\n\n\
             #[cfg(feature = \"arc_lock\")]\n\
             pub use rr_channel::",
            $module,
            "::lock_api::{\n    \
                 ArcMutexGuard, ArcReentrantMutexGuard, ArcRwLockReadGuard,\n    \
                 ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard,\n\
             };\n\n\
             #[cfg(feature = \"deadlock_detection\")]\n\
             pub use upstream::deadlock;\n"
        )
    };
}
/// The crates that can be replaced. Of several with one name only the first is, if the
/// project has more than one of them.
const CRATES: [Crate; 7] = [
    Crate {
        name: CHANNEL,
        series: &["0.5."],
        by: By::Face {
            code: "pub use rr_channel::crossbeam_channel::*;\n",
            passes_features: false,
            upstream: CHANNEL,
        },
        needs: &[],
    },
    locks(&["0.13."], LOCKS_13, face_of_locks!("parking_lot_13"), &[]),
    locks(&["0.12."], LOCKS, face_of_locks!("parking_lot"), &[]),
    locks(
        &["0.11."],
        LOCKS,
        face_of_locks!("parking_lot"),
        &[("parking_lot_core", "0.8")],
    ),
    Crate {
        name: PROCESSES,
        series: &["0.23."],
        by: By::Face {
            code: "pub use rr_channel::ipc_channel::*;\n",
            passes_features: true,
            upstream: PROCESSES,
        },
        needs: &[],
    },
    Crate {
        name: "rayon-core",
        series: &["1.12.", "1.13."],
        by: By::Edited(&[("1.", rayon::EDITS)]),
        needs: &[],
    },
    Crate {
        name: EXECUTOR,
        series: &["1.53.", "1.54."],
        by: By::Edited(tokio::EDITS),
        needs: &[],
    },
];

const fn locks(
    series: &'static [&'static str],
    upstream: &'static str,
    code: &'static str,
    needs: &'static [(&'static str, &'static str)],
) -> Crate {
    Crate {
        name: LOCKS,
        series,
        by: By::Face {
            code,
            passes_features: true,
            upstream,
        },
        needs,
    }
}

const CHANNEL: &str = "crossbeam-channel";
const LOCKS: &str = "parking_lot";
/// Its releases since 0.13, which have another interface.
const LOCKS_13: &str = "parking_lot_13";
const PROCESSES: &str = "ipc-channel";
/// Its tasks have names; all else in it is as ever.
pub(super) const EXECUTOR: &str = "tokio";

/// What `rr-channel`'s own manifest has, too.
const FEATURES: &str = r#"
default = ["interpose", "upstream-0.5.16", "value"]
interpose = []
value = ["dep:postcard", "dep:serde"]
ipc_channel = ["dep:ipc-channel", "dep:postcard", "dep:serde"]
ipc_channel_async = ["dep:futures-core", "ipc_channel"]
parking_lot = ["dep:lock_api", "dep:parking_lot", "dep:parking_lot_core"]
parking_lot_13 = ["dep:lock_api_5", "dep:parking_lot_13"]
"upstream-0.5.14" = []
"upstream-0.5.16" = ["upstream-0.5.14"]
"#;

/// The sources of `rr-channel` and `rr-channel-log`, each by its path below the generated
/// crates.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// What `rr-channel` depends on, and is content with: the project's lock file may hold
/// versions of long ago. Crates that are replaced are there by another name.
const DEPENDENCIES: &str = r#"
crossbeam-channel = "0.5.16"
futures-core = { version = "0.3", default-features = false, optional = true }
ipc-channel = { version = "0.23", optional = true }
libc = "0.2.81"
lock_api = { version = "0.4.6", optional = true }
lock_api_5 = { package = "lock_api", version = "0.5", optional = true }
parking_lot = { version = "0.12", optional = true }
parking_lot_13 = { package = "parking_lot", version = "0.13", optional = true }
parking_lot_core = { version = "0.9", optional = true }
postcard = { version = "1", default-features = false, features = ["use-std"], optional = true }
rr-channel-log = { path = "../rr-channel-log" }
rustc-hash = "2"
serde = { version = "1", optional = true }
"#;

/// The same of `rr-channel-log`.
const LOG_DEPENDENCIES: &str = r#"
libc = "0.2.81"
rustc-hash = "2"
"#;

/// A package to be replaced.
#[derive(Debug)]
pub(super) struct Replaced<'a> {
    pub(super) of: &'static Crate,
    pub(super) version: &'a str,
    pub(super) features: &'a BTreeMap<String, Vec<String>>,
    /// The directory of its source.
    pub(super) source: &'a Path,
}

/// The crate of this name, if this version can be replaced.
pub(super) fn replaceable(name: &str, version: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|known| {
        let is_of = |series: &&str| version.starts_with(*series);
        known.name == name && known.series.iter().any(is_of)
    })
}

/// Whether `one` is to be replaced rather than `other`, where a project has both.
pub(super) fn comes_before(one: &Crate, other: &Crate) -> bool {
    let at = |of: &Crate| CRATES.iter().position(|known| known == of);
    one.name == other.name && at(one) < at(other)
}

/// What can be replaced, in words.
pub(super) fn what() -> String {
    let names = CRATES.each_ref().map(|known| {
        let series = known
            .series
            .iter()
            .map(|series| series.trim_end_matches('.'));
        format!("{} {}", known.name, series.collect::<Vec<_>>().join(" or "))
    });
    names.join(" or ")
}

/// Whether some version of the crate can be replaced.
pub(super) fn is_known(name: &str) -> bool {
    CRATES.iter().any(|known| known.name == name)
}

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

fn read_manifest(package: &Replaced<'_>) -> anyhow::Result<Table> {
    let manifest = package.source.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    text.parse()
        .with_context(|| format!("cannot parse {}", manifest.display()))
}

/// The name of upstream's package.
fn renamed(name: &str) -> String {
    format!("rr-channel-{name}")
}

/// The features of `rr-channel` that go with these packages.
fn features_for(replaced: &[Replaced<'_>]) -> anyhow::Result<Vec<&'static str>> {
    let mut features = vec!["interpose"];
    let mut channel = "upstream-0.5.16";
    for package in replaced {
        match package.of.name {
            LOCKS => features.extend(package.of.upstream()),
            PROCESSES => features.push("ipc_channel"),
            CHANNEL => channel = feature_for_channel(package.version)?,
            _ => {}
        }
    }
    if !channel.is_empty() {
        features.push(channel);
    }
    Ok(features)
}

/// The feature of `rr-channel` that goes with this version of crossbeam-channel.
fn feature_for_channel(version: &str) -> anyhow::Result<&'static str> {
    let patch = version
        .strip_prefix("0.5.")
        .and_then(|rest| rest.split(['-', '+']).next()?.parse::<u32>().ok())
        .with_context(|| format!("{CHANNEL} {version} is not 0.5"))?;
    Ok(match patch {
        // It has a `select_biased!`, and nothing below it that others could use.
        13 => bail!(
            "{CHANNEL} 0.5.13 is locked, which cannot be replaced: `cargo update -p {CHANNEL}`"
        ),
        ..=12 => "",
        14 | 15 => "upstream-0.5.14",
        _ => "upstream-0.5.16",
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

/// The dependency on `rr-channel`, which is `asked` for some of its features.
fn on_rr_channel(asked: &[&str]) -> Table {
    let mut rr_channel = path_dependency("../rr-channel", "rr-channel");
    rr_channel.insert("default-features".to_owned(), false.into());
    let asked = asked.iter().map(|name| Value::from(*name));
    rr_channel.insert("features".to_owned(), asked.collect::<Vec<_>>().into());
    rr_channel
}

/// Upstream's features stay; `rr-channel` is `asked` for some of its own.
fn shim_manifest(package: &Replaced<'_>, asked: &[&str]) -> Table {
    let name = package.of.name;
    let passes_features = matches!(
        package.of.by,
        By::Face {
            passes_features: true,
            ..
        }
    );
    let mut shim = manifest(name, package.version, "2021");
    let features: Table = package
        .features
        .iter()
        .map(|(feature, implied)| {
            // What belongs to dependencies is upstream's business.
            let implied = implied
                .iter()
                .filter(|implied| package.features.contains_key(*implied))
                .map(|implied| Value::from(implied.as_str()));
            let passed = passes_features && feature != "default";
            let passed = passed.then(|| Value::from(format!("upstream/{feature}")));
            let ours = name == PROCESSES && feature == "async";
            let ours = ours.then(|| Value::from("rr-channel/ipc_channel_async"));
            let all: Vec<_> = implied.chain(passed).chain(ours).collect();
            (feature.clone(), all.into())
        })
        .collect();
    shim.insert("features".to_owned(), features.into());
    let mut dependencies = Table::new();
    dependencies.insert("rr-channel".to_owned(), on_rr_channel(asked).into());
    if passes_features {
        let mut upstream = path_dependency(&format!("../{name}-upstream"), &renamed(name));
        upstream.insert("default-features".to_owned(), false.into());
        dependencies.insert("upstream".to_owned(), upstream.into());
    }
    shim.insert("dependencies".to_owned(), dependencies.into());
    shim
}

fn rr_channel_manifest(replaced: &[Replaced<'_>]) -> anyhow::Result<Table> {
    let mut rr_channel = manifest("rr-channel", env!("CARGO_PKG_VERSION"), "2024");
    let features: Table = FEATURES.parse()?;
    rr_channel.insert("features".to_owned(), features.into());
    let mut dependencies: Table = DEPENDENCIES.parse()?;
    for (name, version) in replaced.iter().flat_map(|package| package.of.needs) {
        let mut needed = Table::new();
        needed.insert("version".to_owned(), (*version).into());
        needed.insert("optional".to_owned(), true.into());
        dependencies.insert((*name).to_owned(), needed.into());
    }
    for package in replaced {
        let Some(known) = package.of.upstream() else {
            continue;
        };
        let name = package.of.name;
        let mut upstream = path_dependency(&format!("../{name}-upstream"), &renamed(name));
        if dependencies[known].get("optional").is_some() {
            upstream.insert("optional".to_owned(), true.into());
        }
        dependencies.insert(known.to_owned(), upstream.into());
    }
    rr_channel.insert("dependencies".to_owned(), dependencies.into());
    Ok(rr_channel)
}

fn log_manifest() -> anyhow::Result<Table> {
    let mut log = manifest("rr-channel-log", env!("CARGO_PKG_VERSION"), "2024");
    let dependencies: Table = LOG_DEPENDENCIES.parse()?;
    log.insert("dependencies".to_owned(), dependencies.into());
    Ok(log)
}

/// Upstream's manifest as it is, but for what is not built.
fn library_manifest(mut manifest: Table) -> anyhow::Result<Table> {
    for unused in ["dev-dependencies", "example", "test", "bench", "lints"] {
        manifest.remove(unused);
    }
    let package = package_of(&mut manifest)?;
    package.insert("publish".to_owned(), false.into());
    package.remove("readme");
    seclude(&mut manifest);
    Ok(manifest)
}

fn package_of(manifest: &mut Table) -> anyhow::Result<&mut Table> {
    manifest
        .get_mut("package")
        .and_then(Value::as_table_mut)
        .context("upstream's manifest has no package")
}

/// The manifest of upstream's source with edits, which depends on `rr-channel`.
fn edited_manifest(
    manifest: Table,
    asked: &[&str],
    replaced: &[Replaced<'_>],
) -> anyhow::Result<Table> {
    let mut manifest = library_manifest(manifest)?;
    stay_upstream(&mut manifest, replaced);
    manifest
        .entry("dependencies")
        .or_insert_with(|| Table::new().into())
        .as_table_mut()
        .context("upstream's dependencies are no table")?
        .insert("rr-channel".to_owned(), on_rr_channel(asked).into());
    Ok(manifest)
}

/// The manifest of a copy of upstream, of another name.
fn upstream_manifest(
    name: &str,
    manifest: Table,
    replaced: &[Replaced<'_>],
) -> anyhow::Result<Table> {
    let mut manifest = library_manifest(manifest)?;
    stay_upstream(&mut manifest, replaced);
    package_of(&mut manifest)?.insert("name".to_owned(), renamed(name).into());
    let lib = manifest
        .entry("lib")
        .or_insert_with(|| Table::new().into())
        .as_table_mut()
        .context("upstream's library is no table")?;
    lib.insert("name".to_owned(), name.replace('-', "_").into());
    Ok(manifest)
}

/// Has what upstream itself is made of be upstream, too: ours are made of it, and what serves
/// an executor is nothing that its tasks do.
fn stay_upstream(manifest: &mut Table, replaced: &[Replaced<'_>]) {
    let dependencies = manifest.get_mut("dependencies");
    let Some(dependencies) = dependencies.and_then(Value::as_table_mut) else {
        return;
    };
    let faces = replaced.iter().map(|package| package.of);
    for of in faces.filter(|of| of.upstream().is_some()) {
        let other = of.name;
        if let Some(dependency) = dependencies.get_mut(other).and_then(Value::as_table_mut) {
            let requirement = dependency.get("version").and_then(Value::as_str);
            // Another version of it is upstream's anyway.
            if requirement.is_some_and(|wanted| !of.is_asked_for_by(wanted)) {
                continue;
            }
            dependency.remove("version");
            dependency.extend(path_dependency(
                &format!("../{other}-upstream"),
                &renamed(other),
            ));
        }
    }
}

/// Copies what a package's library is made of, with `edits`.
fn copy_package(from: &Path, to: &Path, edits: &[&Edit]) -> anyhow::Result<()> {
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
                    "{} is not as it is known, so that what happens in it cannot be recorded",
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

    fn features(features: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |implied: &[&str]| implied.iter().map(|name| (*name).to_owned()).collect();
        features
            .iter()
            .map(|(name, implied)| ((*name).to_owned(), owned(implied)))
            .collect()
    }

    fn shim(name: &str, version: &str, features: &BTreeMap<String, Vec<String>>) -> String {
        let replaced = [Replaced {
            of: replaceable(name, version).unwrap(),
            version,
            features,
            source: Path::new("source"),
        }];
        let asked = features_for(&replaced).unwrap();
        toml::to_string(&shim_manifest(&replaced[0], &asked)).unwrap()
    }

    #[test]
    fn the_shim_has_upstreams_name_version_and_features() {
        let features = features(&[
            ("default", &["std"]),
            ("std", &["crossbeam-utils/std"]),
            ("crossbeam-utils", &["dep:crossbeam-utils"]),
        ]);
        insta::assert_snapshot!(shim(CHANNEL, "0.5.15", &features), @r#"
        [dependencies.rr-channel]
        default-features = false
        features = ["interpose", "upstream-0.5.14"]
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
        version = "0.5.15"

        [workspace]
        "#);
    }

    #[test]
    fn features_that_change_upstream_reach_it() {
        let features = features(&[("default", &[]), ("arc_lock", &["lock_api/arc_lock"])]);
        insta::assert_snapshot!(shim(LOCKS, "0.12.5", &features), @r#"
        [dependencies.rr-channel]
        default-features = false
        features = ["interpose", "parking_lot", "upstream-0.5.16"]
        package = "rr-channel"
        path = "../rr-channel"

        [dependencies.upstream]
        default-features = false
        package = "rr-channel-parking_lot"
        path = "../parking_lot-upstream"

        [features]
        arc_lock = ["upstream/arc_lock"]
        default = []

        [lints.rust]
        warnings = "allow"

        [package]
        edition = "2021"
        name = "parking_lot"
        publish = false
        version = "0.12.5"

        [workspace]
        "#);
    }

    #[test]
    fn upstream_gets_another_name_and_keeps_its_library() {
        let manifest = table(
            "[package]\nname = \"crossbeam-channel\"\nversion = \"0.5.17\"\n\
             [dependencies.crossbeam-utils]\nversion = \"0.8\"\n\
             [dev-dependencies]\nrand = \"0.8\"\n[[test]]\nname = \"a\"\n",
        );
        let manifest = upstream_manifest(CHANNEL, manifest, &[]).unwrap();
        insta::assert_snapshot!(toml::to_string(&manifest).unwrap(), @r#"
        [dependencies.crossbeam-utils]
        version = "0.8"

        [lib]
        name = "crossbeam_channel"

        [lints.rust]
        warnings = "allow"

        [package]
        name = "rr-channel-crossbeam-channel"
        publish = false
        version = "0.5.17"

        [workspace]
        "#);
    }

    /// The generated manifests of `rr-channel` and its log say what their own say.
    #[test]
    fn the_dependencies_of_rr_channel_are_as_in_the_workspace() {
        let read = |path: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            table(&fs::read_to_string(root.join(path)).unwrap())
        };
        let (own, workspace) = (read("rr-channel/Cargo.toml"), read("Cargo.toml"));
        let made = rr_channel_manifest(&[]).unwrap();
        assert_eq!(made["features"], own["features"]);
        check_dependencies(&made, &own, &workspace);
        let own = read("rr-channel/log/Cargo.toml");
        check_dependencies(&log_manifest().unwrap(), &own, &workspace);
    }

    #[track_caller]
    fn check_dependencies(made: &Table, own: &Table, workspace: &Table) {
        let made = made["dependencies"].as_table().unwrap();
        let own = own["dependencies"].as_table().unwrap();
        assert!(own.keys().eq(made.keys()));
        let major = |dependency: &Value| -> String {
            let version = dependency.get("version").unwrap_or(dependency);
            let mut parts = version.as_str().unwrap().split('.');
            let major = parts.next().unwrap().to_owned();
            match major.as_str() {
                "0" => format!("0.{}", parts.next().unwrap()),
                _ => major,
            }
        };
        for (name, dependency) in own {
            assert_eq!(dependency["workspace"], Value::from(true), "{name}");
            assert_eq!(
                made[name].get("optional"),
                dependency.get("optional"),
                "{name}"
            );
            let known = &workspace["workspace"]["dependencies"][name];
            if name == "rr-channel-log" {
                // It lies beside it, as here.
                assert_eq!(made[name]["path"].as_str(), Some("../rr-channel-log"));
                continue;
            }
            assert_eq!(major(&made[name]), major(known), "{name}");
        }
    }

    #[test]
    fn what_is_replaced_is_there_by_another_name() {
        let features = features(&[]);
        let replaced = [(CHANNEL, "0.5.17"), (LOCKS, "0.12.5")].map(|(name, version)| Replaced {
            of: replaceable(name, version).unwrap(),
            version,
            features: &features,
            source: Path::new("source"),
        });
        let manifest = rr_channel_manifest(&replaced).unwrap();
        let dependencies = &manifest["dependencies"];
        assert_eq!(
            dependencies[CHANNEL]["package"].as_str(),
            Some("rr-channel-crossbeam-channel")
        );
        assert_eq!(
            dependencies[LOCKS],
            Value::from(table(
                "package = \"rr-channel-parking_lot\"\npath = \"../parking_lot-upstream\"\n\
                 optional = true"
            ))
        );
    }

    #[test]
    fn upstreams_are_made_of_upstreams() {
        let features = BTreeMap::new();
        let replaced = [Replaced {
            of: replaceable(CHANNEL, "0.5.15").unwrap(),
            version: "0.5.15",
            features: &features,
            source: Path::new("source"),
        }];
        let manifest = table(
            "[package]\nname = \"ipc-channel\"\n\
             [dependencies.crossbeam-channel]\nversion = \"0.5\"\n\
             [dependencies.libc]\nversion = \"0.2\"\n",
        );
        let manifest = upstream_manifest(PROCESSES, manifest, &replaced).unwrap();
        insta::assert_snapshot!(
            toml::to_string(&manifest["dependencies"]).unwrap(),
            @r#"
        [crossbeam-channel]
        package = "rr-channel-crossbeam-channel"
        path = "../crossbeam-channel-upstream"

        [libc]
        version = "0.2"
        "#
        );
    }

    #[test]
    fn of_two_versions_one_is_replaced() {
        let of = |version| replaceable(LOCKS, version).unwrap();
        assert!(comes_before(of("0.12.5"), of("0.11.2")));
        assert!(!comes_before(of("0.11.2"), of("0.12.5")));
        let channel = replaceable(CHANNEL, "0.5.15").unwrap();
        assert!(!comes_before(channel, of("0.11.2")));
        assert!(comes_before(of("0.13.0"), of("0.12.5")));
        assert_eq!(replaceable(LOCKS, "0.14.0"), None);
    }

    #[test]
    fn another_version_than_the_replaced_one_stays_as_it_is() {
        let features = BTreeMap::new();
        let check = |replaced, requirement: &str| {
            let replaced = [Replaced {
                of: replaceable(LOCKS, replaced).unwrap(),
                version: replaced,
                features: &features,
                source: Path::new("source"),
            }];
            let mut manifest = table(&format!(
                "[dependencies.parking_lot]\nversion = \"{requirement}\"\n"
            ));
            stay_upstream(&mut manifest, &replaced);
            manifest["dependencies"][LOCKS].get("version").is_some()
        };
        assert!(check("0.13.0", "0.12.0"));
        assert!(check("0.12.5", "0.11"));
        assert!(!check("0.13.0", "0.13"));
        assert!(!check("0.12.5", "^0.12.1"));
    }

    #[test]
    fn the_latest_locks_are_there_by_a_name_of_their_own() {
        let features = features(&[]);
        let replaced = [Replaced {
            of: replaceable(LOCKS, "0.13.0").unwrap(),
            version: "0.13.0",
            features: &features,
            source: Path::new("source"),
        }];
        let manifest = rr_channel_manifest(&replaced).unwrap();
        let upstream = &manifest["dependencies"][LOCKS_13];
        assert_eq!(upstream["path"].as_str(), Some("../parking_lot-upstream"));
        let asked = features_for(&replaced).unwrap();
        assert_eq!(asked, ["interpose", "parking_lot_13", "upstream-0.5.16"]);
    }

    #[test]
    fn an_older_lock_needs_its_own_core() {
        let features = BTreeMap::new();
        let replaced = [Replaced {
            of: replaceable(LOCKS, "0.11.2").unwrap(),
            version: "0.11.2",
            features: &features,
            source: Path::new("source"),
        }];
        let manifest = rr_channel_manifest(&replaced).unwrap();
        let core = &manifest["dependencies"]["parking_lot_core"];
        assert_eq!(core["version"].as_str(), Some("0.8"));
        assert_eq!(core["optional"].as_bool(), Some(true));
    }

    #[test]
    fn old_upstreams_ask_for_less() {
        let check = feature_for_channel;
        assert_eq!(check("0.5.0").unwrap(), "");
        assert_eq!(check("0.5.14").unwrap(), "upstream-0.5.14");
        assert_eq!(check("0.5.99+x").unwrap(), "upstream-0.5.16");
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
