//! Writes the manifests of the generated crates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use toml::{Table, Value};

use super::crates::{By, CHANNEL, Crate, LOCKS, PROCESSES};

/// A package to be replaced.
#[derive(Debug)]
pub(in crate::reprise) struct Replaced<'a> {
    pub(in crate::reprise) of: &'static Crate,
    pub(in crate::reprise) version: String,
    pub(in crate::reprise) features: &'a BTreeMap<String, Vec<String>>,
    /// The directory of its source.
    pub(in crate::reprise) source: &'a Path,
}

/// The features of `rr-channel`, as in its own manifest.
const FEATURES: &str = r#"
default = ["interpose", "upstream-0.5.16", "value"]
interpose = ["rr-channel-core/interpose"]
value = ["dep:postcard", "dep:serde"]
ipc_channel = ["dep:ipc-channel", "dep:postcard", "dep:serde"]
ipc_channel_async = ["dep:futures-core", "ipc_channel"]
parking_lot = ["dep:lock_api", "dep:parking_lot", "dep:parking_lot_core"]
parking_lot_13 = ["dep:lock_api_5", "dep:parking_lot_13"]
"upstream-0.5.14" = ["rr-channel-core/upstream-0.5.14"]
"upstream-0.5.16" = ["rr-channel-core/upstream-0.5.16"]
"#;

/// The same of `rr-channel-core`.
const CORE_FEATURES: &str = r#"
default = ["interpose", "upstream-0.5.16"]
interpose = []
"upstream-0.5.14" = []
"upstream-0.5.16" = ["upstream-0.5.14"]
"#;

/// The dependencies of `rr-channel`, with the oldest versions that will do: the lock file of
/// a project may hold those. Crates that are replaced have another name there.
const DEPENDENCIES: &str = r#"
futures-core = { version = "0.3", default-features = false, optional = true }
ipc-channel = { version = "0.23", optional = true }
libc = "0.2.81"
lock_api = { version = "0.4.6", optional = true }
lock_api_5 = { package = "lock_api", version = "0.5", optional = true }
parking_lot = { version = "0.12", optional = true }
parking_lot_13 = { package = "parking_lot", version = "0.13", optional = true }
parking_lot_core = { version = "0.9", optional = true }
postcard = { version = "1", default-features = false, features = ["use-std"], optional = true }
rr-channel-core = { path = "../rr-channel-core", default-features = false }
rr-channel-log = { path = "../rr-channel-log" }
rustc-hash = "2"
serde = { version = "1", optional = true }
"#;

/// The same of `rr-channel-core`.
const CORE_DEPENDENCIES: &str = r#"
crossbeam-channel = "0.5.16"
libc = "0.2.81"
rr-channel-log = { path = "../rr-channel-log" }
rustc-hash = "2"
"#;

/// The same of `rr-channel-log`.
const LOG_DEPENDENCIES: &str = r#"
libc = "0.2.81"
rustc-hash = "2"
"#;

pub(super) fn read_manifest(package: &Replaced<'_>) -> anyhow::Result<Table> {
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

/// The features of `rr-channel` that go with these packages. With `records_std`, those of its core
/// have been chosen.
pub(super) fn features_for(
    replaced: &[Replaced<'_>],
    records_std: bool,
) -> anyhow::Result<Vec<&'static str>> {
    let mut features = vec!["interpose"];
    let mut channel = "upstream-0.5.16";
    for package in replaced {
        match package.of.name {
            LOCKS => features.extend(package.of.upstream()),
            PROCESSES => features.push("ipc_channel"),
            CHANNEL if !records_std => channel = feature_for_channel(&package.version)?,
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
pub(super) fn shim_manifest(package: &Replaced<'_>, asked: &[&str]) -> Table {
    let name = package.of.name;
    let passes_features = matches!(
        package.of.by,
        By::Face {
            passes_features: true,
            ..
        }
    );
    let mut shim = manifest(name, &package.version, "2021");
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

/// The manifest of a crate of ours with `features`, as a table in TOML.
fn our_manifest(name: &str, features: &str) -> anyhow::Result<Table> {
    let mut made = manifest(name, env!("CARGO_PKG_VERSION"), "2024");
    let features: Table = features.parse()?;
    made.insert("features".to_owned(), features.into());
    Ok(made)
}

pub(super) fn rr_channel_manifest(replaced: &[Replaced<'_>]) -> anyhow::Result<Table> {
    let mut rr_channel = our_manifest("rr-channel", FEATURES)?;
    let mut dependencies: Table = DEPENDENCIES.parse()?;
    for (name, version) in replaced.iter().flat_map(|package| package.of.needs) {
        let mut needed = Table::new();
        needed.insert("version".to_owned(), (*version).into());
        needed.insert("optional".to_owned(), true.into());
        dependencies.insert((*name).to_owned(), needed.into());
    }
    use_upstreams(&mut dependencies, replaced);
    rr_channel.insert("dependencies".to_owned(), dependencies.into());
    Ok(rr_channel)
}

pub(super) fn core_manifest(replaced: &[Replaced<'_>]) -> anyhow::Result<Table> {
    let mut core = our_manifest("rr-channel-core", CORE_FEATURES)?;
    let mut dependencies: Table = CORE_DEPENDENCIES.parse()?;
    use_upstreams(&mut dependencies, replaced);
    core.insert("dependencies".to_owned(), dependencies.into());
    Ok(core)
}

/// The manifest of the `std` that records.
pub(super) fn std_manifest() -> anyhow::Result<Table> {
    let mut std = manifest("rr-channel-std", env!("CARGO_PKG_VERSION"), "2024");
    let dependencies: Table = "rr-channel-core = { path = \"../rr-channel-core\" }".parse()?;
    std.insert("dependencies".to_owned(), dependencies.into());
    let profile: Table = "release.debug = false\nrelease.incremental = false".parse()?;
    std.insert("profile".to_owned(), profile.into());
    Ok(std)
}

/// Takes the core and the log out of the manifest of `rr-channel`, and the features that are
/// the core's.
pub(super) fn without_core(manifest: &mut Table) {
    if let Some(dependencies) = manifest
        .get_mut("dependencies")
        .and_then(Value::as_table_mut)
    {
        dependencies.remove("rr-channel-core");
        dependencies.remove("rr-channel-log");
    }
    let features = manifest.get_mut("features").and_then(Value::as_table_mut);
    let implied = features
        .into_iter()
        .flat_map(|features| features.iter_mut());
    for implied in implied.filter_map(|(_, implied)| implied.as_array_mut()) {
        let is_of_core = |name: &Value| {
            let name = name.as_str();
            name.is_some_and(|name| name.starts_with("rr-channel-core/"))
        };
        implied.retain(|name| !is_of_core(name));
    }
}

/// Has those of the dependencies that are replaced be the copies of upstream.
fn use_upstreams(dependencies: &mut Table, replaced: &[Replaced<'_>]) {
    for package in replaced {
        let known = package.of.upstream();
        let Some((known, old)) = known.and_then(|known| Some((known, dependencies.get(known)?)))
        else {
            continue;
        };
        let is_optional = old.get("optional").is_some();
        let name = package.of.name;
        let mut upstream = path_dependency(&format!("../{name}-upstream"), &renamed(name));
        if is_optional {
            upstream.insert("optional".to_owned(), true.into());
        }
        dependencies.insert(known.to_owned(), upstream.into());
    }
}

pub(super) fn log_manifest() -> anyhow::Result<Table> {
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
pub(super) fn edited_manifest(
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
        .context("the dependencies in upstream's manifest are not a table")?
        .insert("rr-channel".to_owned(), on_rr_channel(asked).into());
    Ok(manifest)
}

/// The manifest of a copy of upstream, of another name.
pub(super) fn upstream_manifest(
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
        .context("the library in upstream's manifest is not a table")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reprise::patch::crates::{LOCKS_13, replaceable};

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
            version: version.to_owned(),
            features,
            source: Path::new("source"),
        }];
        let asked = features_for(&replaced, false).unwrap();
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
        let own = read("rr-channel/core/Cargo.toml");
        let made = core_manifest(&[]).unwrap();
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
            if name.starts_with("rr-channel") {
                // It lies beside it, as here.
                assert_eq!(made[name]["path"], Value::from(format!("../{name}")));
                continue;
            }
            assert_eq!(major(&made[name]), major(known), "{name}");
        }
    }

    #[test]
    fn replaced_crates_have_another_name() {
        let features = features(&[]);
        let replaced = [(CHANNEL, "0.5.17"), (LOCKS, "0.12.5")].map(|(name, version)| Replaced {
            of: replaceable(name, version).unwrap(),
            version: version.to_owned(),
            features: &features,
            source: Path::new("source"),
        });
        let manifest = core_manifest(&replaced).unwrap();
        assert_eq!(
            manifest["dependencies"][CHANNEL]["package"].as_str(),
            Some("rr-channel-crossbeam-channel")
        );
        let manifest = rr_channel_manifest(&replaced).unwrap();
        let dependencies = &manifest["dependencies"];
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
            version: "0.5.15".to_owned(),
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
    fn another_version_than_the_replaced_one_stays_as_it_is() {
        let features = BTreeMap::new();
        let check = |replaced, requirement: &str| {
            let replaced = [Replaced {
                of: replaceable(LOCKS, replaced).unwrap(),
                version: replaced.to_owned(),
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
            version: "0.13.0".to_owned(),
            features: &features,
            source: Path::new("source"),
        }];
        let manifest = rr_channel_manifest(&replaced).unwrap();
        let upstream = &manifest["dependencies"][LOCKS_13];
        assert_eq!(upstream["path"].as_str(), Some("../parking_lot-upstream"));
        let asked = features_for(&replaced, false).unwrap();
        assert_eq!(asked, ["interpose", "parking_lot_13", "upstream-0.5.16"]);
    }

    #[test]
    fn an_older_lock_needs_its_own_core() {
        let features = BTreeMap::new();
        let replaced = [Replaced {
            of: replaceable(LOCKS, "0.11.2").unwrap(),
            version: "0.11.2".to_owned(),
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
}
