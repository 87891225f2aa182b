//! Changes of a tree before the next build.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::catalog::Workload;
use crate::support::tree;

/// One change, in the order in which a round makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scenario {
    /// A fresh tree and an empty cache.
    Cold,
    /// `clean`, then build.
    Warm,
    /// Build again, nothing changed.
    Nothing,
    /// And once more: the first time pcache had not seen the finished tree.
    NothingAgain,
    /// A line added to one source.
    SourceEdited,
    /// A line added to one header.
    HeaderEdited,
    /// `clean`, and a header added earlier in the search path.
    HeaderAdded,
    /// `clean`, and a comment added to the rules of the build: the builder runs anew.
    RulesEdited,
    /// A source with a new time and the same content.
    Touched,
    /// One output deleted.
    OutputDeleted,
    /// One output modified by hand.
    OutputModified,
    /// A fresh tree with other times.
    Elsewhere,
    /// A fresh tree on another host, with an empty store.
    OtherHost,
    /// `clean`, then build with a store that knows digests of files and nothing else.
    OtherStore,
}

/// All of them, in order.
pub(super) const ALL: [Scenario; 14] = [
    Scenario::Cold,
    Scenario::Warm,
    Scenario::Nothing,
    Scenario::NothingAgain,
    Scenario::SourceEdited,
    Scenario::HeaderEdited,
    Scenario::HeaderAdded,
    Scenario::RulesEdited,
    Scenario::Touched,
    Scenario::OutputDeleted,
    Scenario::OutputModified,
    Scenario::Elsewhere,
    Scenario::OtherHost,
    Scenario::OtherStore,
];

impl Scenario {
    /// Whether `workload` has what the scenario changes.
    pub(super) fn applies(self, workload: &Workload) -> bool {
        match self {
            Self::HeaderAdded => workload.added.is_some(),
            Self::RulesEdited => workload.rules.is_some(),
            _ => true,
        }
    }

    /// Whether what it is about comes from a remote cache.
    pub(super) fn needs_remote(self) -> bool {
        matches!(self, Self::OtherHost | Self::OtherStore)
    }

    /// Makes the change in `tree`, what is in the way is set `aside`; `shell` prepares a
    /// shell for the workload's own commands.
    ///
    /// # Errors
    ///
    /// When a file to change is not there.
    pub(super) fn apply(
        self,
        workload: &Workload,
        pristine: &Path,
        tree: &Path,
        aside: &Path,
        shell: &dyn Fn(&str) -> Command,
    ) -> anyhow::Result<()> {
        match self {
            Self::Cold | Self::OtherHost => {
                tree::set_aside(tree, aside, &[])?;
                copy(pristine, tree, "-a")
            }
            Self::Elsewhere => {
                tree::set_aside(tree, aside, &[])?;
                copy(pristine, tree, "-dRp")?;
                shift_times(tree).context("giving a tree other times")
            }
            Self::Warm | Self::OtherStore => clean(workload, shell),
            Self::Nothing | Self::NothingAgain => Ok(()),
            Self::SourceEdited => append(tree, workload.source_edit),
            Self::HeaderEdited => append(tree, workload.header_edit),
            Self::HeaderAdded => {
                if let Some((path, text)) = workload.added {
                    fs::write(tree.join(path), text).with_context(|| format!("adding {path}"))?;
                }
                clean(workload, shell)
            }
            Self::RulesEdited => {
                // What is cleaned with newer rules may configure itself again.
                clean(workload, shell)?;
                if let Some(path) = workload.rules {
                    append(tree, (path, "# edited\n"))?;
                }
                Ok(())
            }
            Self::Touched => {
                let path = tree.join(workload.source_edit.0);
                let file = fs::File::options().append(true).open(&path);
                file.and_then(|file| file.set_modified(std::time::SystemTime::now()))
                    .with_context(|| format!("touching {}", path.display()))
            }
            Self::OutputDeleted => tree::remove(&tree.join(workload.output))
                .with_context(|| format!("deleting {}", workload.output)),
            Self::OutputModified => {
                let path = tree.join(workload.output);
                if path.is_dir() {
                    return fs::write(path.join("stray"), "x")
                        .context("adding a stray file to an output");
                }
                append(tree, (workload.output, "by hand\n"))
            }
        }
    }
}

/// Makes all files younger by the same time: what was newer than what stays so,
/// which autotools depend on.
fn shift_times(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            shift_times(&entry.path())?;
        } else if kind.is_file() {
            let before = entry.metadata()?.modified()?;
            let file = fs::File::open(entry.path())?;
            file.set_modified(before + std::time::Duration::from_secs(1_000_003))?;
        }
    }
    Ok(())
}

fn clean(workload: &Workload, shell: &dyn Fn(&str) -> Command) -> anyhow::Result<()> {
    let status = shell(workload.clean)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "`{}` failed", workload.clean);
    Ok(())
}

fn append(tree: &Path, (path, line): (&str, &str)) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = fs::File::options()
        .append(true)
        .open(tree.join(path))
        .with_context(|| format!("opening {path}"))?;
    file.write_all(line.as_bytes())
        .with_context(|| format!("editing {path}"))
}

/// Copies a tree into an empty one.
fn copy(from: &Path, to: &Path, how: &str) -> anyhow::Result<()> {
    super::fetch::run(Command::new("cp").arg(how).arg(from.join(".")).arg(to))
}
