//! Questions about the packages of a project, on the output of `cargo metadata`.

use std::collections::{HashMap, HashSet};

use cargo_metadata::{DependencyKind, Metadata, Package, TargetKind};

use crate::reprise::patch;
use crate::reprise::patch::crates::{self, Crate};

/// The crate that can take the place of a package.
pub(crate) fn replaceable(package: &Package) -> Option<&'static Crate> {
    crates::replaceable(&package.name, &package.version.to_string())
}

/// The crate that takes the place of a package, if one does; `except` names those that are left.
pub(crate) fn replaced_by(
    package: &Package,
    metadata: &Metadata,
    except: &[String],
) -> Option<&'static Crate> {
    let of = replaceable(package)?;
    if is_behind(metadata, of) || except.iter().any(|name| *name == *package.name) {
        return None;
    }
    // Its waits have an order only if the tasks have names.
    let is_replaced = |other: &Package| {
        *other.name == crates::EXECUTOR && replaced_by(other, metadata, except).is_some()
    };
    let is_apart = of.name == crates::UTILITIES
        && !(patch::records_waits() && metadata.packages.iter().any(is_replaced));
    (!is_apart).then_some(of)
}

/// Whether another version of the crate is replaced instead.
fn is_behind(metadata: &Metadata, of: &Crate) -> bool {
    let all = metadata.packages.iter().filter_map(replaceable);
    all.into_iter().any(|other| crates::comes_before(other, of))
}

/// The packages that the project's programs and tests are made of: not those of build
/// scripts and procedural macros.
pub(crate) fn in_programs(metadata: &Metadata) -> Vec<&Package> {
    let packages: HashMap<_, _> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package))
        .collect();
    // Absent where dependencies were not asked for.
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: HashMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    let mut left: Vec<_> = metadata.workspace_members.iter().collect();
    let members: HashSet<_> = left.iter().copied().collect();
    while let Some(id) = left.pop() {
        let Some(package) = packages.get(id).filter(|_| seen.insert(id)) else {
            continue;
        };
        if is_macro(package) {
            continue;
        }
        found.push(*package);
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        left.extend(
            dependencies
                .filter(|dependency| {
                    dependency.dep_kinds.iter().any(|kind| match kind.kind {
                        DependencyKind::Normal => true,
                        DependencyKind::Development => members.contains(id),
                        _ => false,
                    })
                })
                .map(|dependency| &dependency.pkg),
        );
    }
    found
}

fn is_macro(package: &Package) -> bool {
    let mut kinds = package.targets.iter().flat_map(|target| &target.kind);
    kinds.any(|kind| *kind == TargetKind::ProcMacro)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_not_made_of_what_builds_them() {
        let package = |id: &str, kind: &str| {
            serde_json::json!({
                "name": id, "version": "1.0.0", "id": id, "source": null, "dependencies": [],
                "manifest_path": "Cargo.toml", "features": {},
                "targets": [{"name": id, "kind": [kind], "src_path": "src/lib.rs"}],
            })
        };
        let dependency = |id: &str, kind: Option<&str>| serde_json::json!({"name": id, "pkg": id, "dep_kinds": [{"kind": kind, "target": null}]});
        let node = |id: &str, deps: &[serde_json::Value]| serde_json::json!({"id": id, "deps": deps, "dependencies": []});
        let metadata: Metadata = serde_json::from_value(serde_json::json!({
            "packages": [
                package("own", "lib"), package("used", "lib"), package("tested", "lib"),
                package("builds", "lib"), package("macro", "proc-macro"), package("in-macro", "lib"),
                package("tests-used", "lib"),
            ],
            "version": 1, "target_directory": "", "workspace_root": "", "workspace_members": ["own"],
            "resolve": {"nodes": [
                node("own", &[
                    dependency("used", None), dependency("tested", Some("dev")),
                    dependency("builds", Some("build")), dependency("macro", None),
                ]),
                node("used", &[dependency("tests-used", Some("dev"))]),
                node("macro", &[dependency("in-macro", None)]),
            ]},
        }))
        .unwrap();
        let mut names: Vec<_> = in_programs(&metadata)
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["own", "tested", "used"]);
    }
}
