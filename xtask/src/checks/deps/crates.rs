//! The direction of dependencies between the crates of the workspace.
//!
//! [`PLACES`] says, for each directory of the workspace, which other members a
//! crate living there may depend on; tests may use more. A member outside every
//! listed directory is a violation itself, so a new crate has to be given its
//! place here before it can land.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata};

/// A directory of the workspace and what the crates in it may know.
struct Place {
    /// Relative to the workspace root; the longest matching place decides.
    dir: &'static str,
    /// Places whose crates may be used.
    may_use: &'static [&'static str],
    /// Places whose crates only its tests may use.
    tests_may_use: &'static [&'static str],
}

/// The libraries that define nothing a program would notice. `rr-channel-core` defines
/// `pthread_create` and `getrandom` for every program that links it.
const LIBRARIES: &[&str] = &[
    "rr-channel/log",
    "rr-channel/tools",
    "ptrace-async",
    "ptrace-async/replay",
    "process-cache",
    "servo-harness",
];

/// The places of all crates. No crate uses `benches` and `xtask`.
const PLACES: &[Place] = &[
    Place {
        dir: "rr-channel/log",
        may_use: &[],
        tests_may_use: &[],
    },
    Place {
        dir: "rr-channel/core",
        may_use: &["rr-channel/log"],
        // In the examples of its documentation, which users read as those of rr-channel.
        tests_may_use: &["rr-channel"],
    },
    Place {
        dir: "rr-channel/std",
        may_use: &["rr-channel/core"],
        tests_may_use: &[],
    },
    Place {
        dir: "rr-channel",
        may_use: &["rr-channel/core", "rr-channel/log"],
        tests_may_use: &[],
    },
    Place {
        dir: "rr-channel/tools",
        may_use: &["rr-channel/log"],
        tests_may_use: &["rr-channel"],
    },
    Place {
        dir: "ptrace-async",
        may_use: &[],
        tests_may_use: &[],
    },
    Place {
        dir: "ptrace-async/replay",
        may_use: &["ptrace-async"],
        tests_may_use: &[],
    },
    Place {
        dir: "process-cache",
        may_use: &["ptrace-async"],
        tests_may_use: &[],
    },
    Place {
        dir: "servo-harness",
        may_use: &[
            "rr-channel/log",
            "rr-channel/tools",
            "ptrace-async",
            "ptrace-async/replay",
            "process-cache",
        ],
        tests_may_use: &["rr-channel"],
    },
    Place {
        dir: "benches",
        may_use: LIBRARIES,
        tests_may_use: &["rr-channel"],
    },
    Place {
        dir: "xtask",
        may_use: LIBRARIES,
        tests_may_use: &[],
    },
];

/// A member of the workspace.
#[derive(Debug)]
struct Member {
    name: String,
    dir: PathBuf,
    uses: Vec<Use>,
}

/// A dependency on another member.
#[derive(Debug)]
struct Use {
    name: String,
    dir: PathBuf,
    /// Whether only tests, examples and benchmarks have it.
    is_for_tests: bool,
}

/// The dependencies between crates that go against the direction, each as one line.
pub(super) fn violations(metadata: &Metadata) -> Vec<String> {
    let members: Vec<Member> = metadata
        .workspace_packages()
        .into_iter()
        .filter_map(|package| {
            let uses = package.dependencies.iter().filter_map(|dependency| {
                let dir = dependency.path.as_ref()?;
                Some(Use {
                    name: dependency.name.clone(),
                    dir: dir.clone().into_std_path_buf(),
                    is_for_tests: dependency.kind == DependencyKind::Development,
                })
            });
            Some(Member {
                name: package.name.to_string(),
                dir: package.manifest_path.parent()?.as_std_path().to_owned(),
                uses: uses.collect(),
            })
        })
        .collect();
    against_the_direction(metadata.workspace_root.as_std_path(), &members)
}

fn against_the_direction(root: &Path, members: &[Member]) -> Vec<String> {
    let place_of: BTreeMap<&Path, Option<&Place>> = members
        .iter()
        .map(|member| (member.dir.as_path(), place(root, &member.dir)))
        .collect();
    let mut found = Vec::new();
    for member in members {
        let Some(Some(own)) = place_of.get(member.dir.as_path()) else {
            found.push(format!(
                "{} has no place in the layout: add its directory to xtask/src/checks/deps/crates.rs",
                member.name
            ));
            continue;
        };
        for used in &member.uses {
            let Some(Some(other)) = place_of.get(used.dir.as_path()) else {
                continue;
            };
            let may_use = own.may_use.contains(&other.dir)
                || used.is_for_tests && own.tests_may_use.contains(&other.dir);
            if other.dir != own.dir && !may_use {
                found.push(format!("{} must not depend on {}", member.name, used.name));
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

    /// The violations in a workspace of `(directory, directories it depends on)`, some of
    /// these "in tests".
    fn check(members: &[(&str, &[&str])]) -> Vec<String> {
        let root = Path::new("/ws");
        let name = |dir: &str| dir.replace('/', "-");
        let members: Vec<Member> = members
            .iter()
            .map(|(dir, uses)| Member {
                name: name(dir),
                dir: root.join(dir),
                uses: uses
                    .iter()
                    .map(|used| {
                        let dir = used.trim_end_matches(" in tests");
                        Use {
                            name: name(dir),
                            dir: root.join(dir),
                            is_for_tests: dir != *used,
                        }
                    })
                    .collect(),
            })
            .collect();
        against_the_direction(root, &members)
    }

    #[test]
    fn the_layout_of_the_design_is_accepted() {
        let members: &[(&str, &[&str])] = &[
            ("rr-channel/log", &[]),
            ("rr-channel", &["rr-channel/log"]),
            ("rr-channel/tools", &["rr-channel/log"]),
            ("ptrace-async", &[]),
            ("ptrace-async/replay", &["ptrace-async"]),
            ("process-cache", &["ptrace-async"]),
            (
                "servo-harness",
                &["rr-channel/log", "process-cache", "ptrace-async/replay"],
            ),
            ("benches", &["process-cache", "rr-channel in tests"]),
            ("xtask", &["process-cache", "ptrace-async"]),
        ];
        assert_eq!(check(members), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_named() {
        let found = check(&[
            ("ptrace-async", &["process-cache"]),
            ("process-cache", &["ptrace-async", "rr-channel in tests"]),
            ("rr-channel", &["xtask"]),
            ("xtask", &["rr-channel"]),
        ]);
        assert_eq!(
            found,
            [
                "ptrace-async must not depend on process-cache",
                "process-cache must not depend on rr-channel",
                "rr-channel must not depend on xtask",
                "xtask must not depend on rr-channel",
            ]
        );
    }

    #[test]
    fn a_crate_outside_the_layout_is_named() {
        assert_eq!(
            check(&[("misc", &[])]),
            [
                "misc has no place in the layout: add its directory to xtask/src/checks/deps/crates.rs"
            ]
        );
    }
}
