//! The direction of dependencies between the crates of the workspace.
//!
//! [`PLACES`] says, for each directory of the workspace, which other members a
//! crate living there may depend on, in any way (development dependencies
//! too). A member outside every listed directory is a violation itself, so a
//! new crate has to be given its place here before it can land.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cargo_metadata::Metadata;

/// A directory of the workspace and what the crates in it may know.
struct Place {
    /// Relative to the workspace root; the longest matching place decides.
    dir: &'static str,
    /// Places whose crates may be used.
    may_use: &'static [&'static str],
}

const LIBRARIES: &[&str] = &[
    "rr-channel",
    "rr-channel/log",
    "rr-channel/tools",
    "ptrace-async",
    "ptrace-async/replay",
    "process-cache",
    "servo-harness",
];

/// The places of all crates. `benches` and `xtask` use everything and nobody uses
/// them.
const PLACES: &[Place] = &[
    Place {
        dir: "rr-channel/log",
        may_use: &[],
    },
    Place {
        dir: "rr-channel",
        may_use: &["rr-channel/log"],
    },
    Place {
        dir: "rr-channel/tools",
        may_use: &["rr-channel", "rr-channel/log"],
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
            "rr-channel/log",
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

/// A member of the workspace.
#[derive(Debug)]
struct Member {
    name: String,
    dir: PathBuf,
    /// Names and directories of the crates it depends on inside the workspace.
    uses: Vec<(String, PathBuf)>,
}

/// The dependencies between crates that go against the direction, each as one line.
pub(super) fn violations(metadata: &Metadata) -> Vec<String> {
    let members: Vec<Member> = metadata
        .workspace_packages()
        .into_iter()
        .filter_map(|package| {
            let uses = package.dependencies.iter().filter_map(|dependency| {
                let dir = dependency.path.as_ref()?;
                Some((dependency.name.clone(), dir.clone().into_std_path_buf()))
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
        for (name, dir) in &member.uses {
            let Some(Some(other)) = place_of.get(dir.as_path()) else {
                continue;
            };
            if other.dir != own.dir && !own.may_use.contains(&other.dir) {
                found.push(format!("{} must not depend on {name}", member.name));
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

    /// The violations in a workspace of `(directory, directories it depends on)`.
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
                    .map(|used| (name(used), root.join(used)))
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
            ("benches", &["process-cache", "rr-channel"]),
            ("xtask", &["process-cache", "ptrace-async"]),
        ];
        assert_eq!(check(members), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_against_the_direction_is_named() {
        let found = check(&[
            ("ptrace-async", &["process-cache"]),
            ("process-cache", &["ptrace-async", "rr-channel"]),
            ("rr-channel", &["xtask"]),
            ("xtask", &[]),
        ]);
        assert_eq!(
            found,
            [
                "ptrace-async must not depend on process-cache",
                "process-cache must not depend on rr-channel",
                "rr-channel must not depend on xtask",
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
