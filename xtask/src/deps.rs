//! The direction of dependencies between the crates of the workspace.
//!
//! [`PLACES`] says, for each directory of the workspace, which other members a
//! crate living there may depend on, in any way (development dependencies
//! too). A member outside every listed directory is a violation itself, so a
//! new crate has to be given its place here before it can land.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// A directory of the workspace and what the crates in it may know.
struct Place {
    /// Relative to the workspace root; the longest matching place decides.
    dir: &'static str,
    /// Places whose crates may be used.
    may_use: &'static [&'static str],
}

const LIBRARIES: &[&str] = &[
    "rr-channel",
    "rr-channel/shims",
    "rr-channel/tools",
    "ptrace-async",
    "ptrace-async/replay",
    "process-cache",
    "servo-harness",
];

/// Who may know whom. `benches` and `xtask` use everything and nobody uses
/// them.
const PLACES: &[Place] = &[
    Place {
        dir: "rr-channel",
        may_use: &[],
    },
    Place {
        dir: "rr-channel/shims",
        may_use: &["rr-channel", "rr-channel/shims"],
    },
    Place {
        dir: "rr-channel/tools",
        may_use: &["rr-channel"],
    },
    Place {
        dir: "ptrace-async",
        may_use: &[],
    },
    Place {
        dir: "ptrace-async/replay",
        may_use: &["ptrace-async"],
    },
    Place {
        dir: "process-cache",
        may_use: &["ptrace-async"],
    },
    Place {
        dir: "servo-harness",
        may_use: &[
            "rr-channel",
            "rr-channel/tools",
            "ptrace-async",
            "ptrace-async/replay",
            "process-cache",
        ],
    },
    Place {
        dir: "benches",
        may_use: LIBRARIES,
    },
    Place {
        dir: "xtask",
        may_use: LIBRARIES,
    },
];

/// The part of `cargo metadata` that the check reads.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Only dependencies inside the workspace have one.
    path: Option<PathBuf>,
}

/// Checks the workspace of the current directory and prints each violation.
///
/// # Errors
///
/// When `cargo metadata` cannot be run or read.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let violations = violations(&metadata()?);
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        println!("dependency direction: ok");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn metadata() -> anyhow::Result<Metadata> {
    let output = crate::cargo::command()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("running `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("reading the output of `cargo metadata`")
}

fn violations(metadata: &Metadata) -> Vec<String> {
    let place_of: BTreeMap<&Path, Option<&Place>> = metadata
        .packages
        .iter()
        .filter_map(|package| package.manifest_path.parent())
        .map(|dir| (dir, place(&metadata.workspace_root, dir)))
        .collect();
    let mut found = Vec::new();
    for package in &metadata.packages {
        let Some(dir) = package.manifest_path.parent() else {
            continue;
        };
        let Some(Some(own)) = place_of.get(dir) else {
            found.push(format!(
                "{} has no place in the layout: add its directory to xtask/src/deps.rs",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(path) = &dependency.path else {
                continue;
            };
            let Some(Some(other)) = place_of.get(path.as_path()) else {
                continue;
            };
            if other.dir != own.dir && !own.may_use.contains(&other.dir) {
                found.push(format!(
                    "{} must not depend on {}",
                    package.name, dependency.name
                ));
            }
        }
    }
    found
}

/// The innermost place that holds the crate in `dir`.
fn place(root: &Path, dir: &Path) -> Option<&'static Place> {
    let relative = dir.strip_prefix(root).ok()?;
    PLACES
        .iter()
        .filter(|place| relative.starts_with(place.dir))
        .max_by_key(|place| place.dir.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a workspace of `(directory, directories it depends on)`.
    fn workspace(members: &[(&str, &[&str])]) -> Metadata {
        let root = PathBuf::from("/ws");
        let packages = members
            .iter()
            .map(|(dir, uses)| Package {
                name: dir.replace('/', "-"),
                manifest_path: root.join(dir).join("Cargo.toml"),
                dependencies: uses
                    .iter()
                    .map(|used| Dependency {
                        name: used.replace('/', "-"),
                        path: Some(root.join(used)),
                    })
                    .chain([Dependency {
                        name: "libc".into(),
                        path: None,
                    }])
                    .collect(),
            })
            .collect();
        Metadata {
            packages,
            workspace_root: root,
        }
    }

    #[test]
    fn the_layout_of_the_design_is_accepted() {
        let metadata = workspace(&[
            ("rr-channel", &[]),
            ("rr-channel/shims/crossbeam", &["rr-channel"]),
            ("ptrace-async", &[]),
            ("ptrace-async/replay", &["ptrace-async"]),
            ("process-cache", &["ptrace-async"]),
            (
                "servo-harness",
                &["rr-channel", "process-cache", "ptrace-async/replay"],
            ),
            ("benches", &["process-cache", "rr-channel"]),
            ("xtask", &["process-cache", "ptrace-async"]),
        ]);
        assert_eq!(violations(&metadata), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_named() {
        let metadata = workspace(&[
            ("ptrace-async", &["process-cache"]),
            ("process-cache", &["ptrace-async", "rr-channel"]),
            ("rr-channel", &["xtask"]),
            ("xtask", &[]),
        ]);
        assert_eq!(
            violations(&metadata),
            [
                "ptrace-async must not depend on process-cache",
                "process-cache must not depend on rr-channel",
                "rr-channel must not depend on xtask",
            ]
        );
    }

    #[test]
    fn a_crate_outside_the_layout_is_named() {
        let metadata = workspace(&[("misc", &[])]);
        assert_eq!(
            violations(&metadata),
            ["misc has no place in the layout: add its directory to xtask/src/deps.rs"]
        );
    }

    #[test]
    fn this_workspace_keeps_the_direction() {
        assert_eq!(violations(&metadata().unwrap()), Vec::<String>::new());
    }
}
