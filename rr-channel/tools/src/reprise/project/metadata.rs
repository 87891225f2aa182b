//! What `cargo metadata` says about a project.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use serde::Deserialize;

use crate::reprise::patch::crates::{self, Crate};

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
    pub(crate) workspace_root: PathBuf,
    #[serde(default)]
    workspace_members: Vec<String>,
    /// `None` where dependencies were not asked for.
    #[serde(default)]
    resolve: Option<Resolve>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default)]
    id: String,
    /// `None` if it lies in a directory of the user's.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// What is built of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// `None` for one that the package's library is built with.
    kind: Option<String>,
}

impl Metadata {
    /// Whether another version of the crate is replaced instead.
    pub(crate) fn is_behind(&self, of: &Crate) -> bool {
        let all = self.packages.iter().filter_map(Package::replaceable);
        all.into_iter().any(|other| crates::comes_before(other, of))
    }

    /// The packages that the project's programs and tests are made of: not those of build
    /// scripts and procedural macros.
    pub(crate) fn in_programs(&self) -> Vec<&Package> {
        let packages: HashMap<_, _> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package))
            .collect();
        let nodes = self.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let nodes: HashMap<_, _> = nodes.map(|node| (node.id.as_str(), node)).collect();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut left: Vec<_> = self.workspace_members.iter().map(String::as_str).collect();
        let members: HashSet<_> = left.iter().copied().collect();
        while let Some(id) = left.pop() {
            let Some(package) = packages.get(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            if package.is_macro() {
                continue;
            }
            found.push(*package);
            let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            left.extend(
                dependencies
                    .filter(|dependency| {
                        dependency.dep_kinds.iter().any(|kind| match &kind.kind {
                            None => true,
                            Some(kind) => kind == "dev" && members.contains(id),
                        })
                    })
                    .map(|dependency| dependency.pkg.as_str()),
            );
        }
        found
    }
}

impl Package {
    /// What it can be replaced by.
    pub(crate) fn replaceable(&self) -> Option<&'static Crate> {
        crates::replaceable(&self.name, &self.version)
    }

    fn is_macro(&self) -> bool {
        let mut kinds = self.targets.iter().flat_map(|target| &target.kind);
        kinds.any(|kind| kind == "proc-macro")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_not_made_of_what_builds_them() {
        let package = |id: &str, kind: &str| {
            serde_json::json!({
                "name": id, "version": "1.0.0", "id": id, "source": null,
                "manifest_path": "Cargo.toml", "features": {},
                "targets": [{"kind": [kind], "src_path": "src/lib.rs"}],
            })
        };
        let dependency = |id: &str, kind: Option<&str>| serde_json::json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let node =
            |id: &str, deps: &[serde_json::Value]| serde_json::json!({"id": id, "deps": deps});
        let metadata: Metadata = serde_json::from_value(serde_json::json!({
            "packages": [
                package("own", "lib"), package("used", "lib"), package("tested", "lib"),
                package("builds", "lib"), package("macro", "proc-macro"), package("in-macro", "lib"),
                package("tests-used", "lib"),
            ],
            "target_directory": "", "workspace_root": "", "workspace_members": ["own"],
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
        let mut names: Vec<_> = metadata
            .in_programs()
            .iter()
            .map(|package| package.name.as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["own", "tested", "used"]);
    }
}
