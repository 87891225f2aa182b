//! One call with one error: the run in which it fails, and the run after that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use ptrace_async::syscall::{Failure, errno};

use super::calls::Call;
use crate::support::seen::Seen;
use crate::support::tree;

/// Where a worker runs its trials.
#[derive(Debug)]
pub(super) struct Place {
    tree: PathBuf,
    store: PathBuf,
    helper: PathBuf,
}

/// The pcache to test, and how it sees lookups.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) pcache: PathBuf,
    pub(super) interception: String,
    pub(super) defect: Option<String>,
}

/// The finding of a trial.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The run after the error equals a plain one.
    Same,
    /// The call did not fail as asked: it does not stop.
    Unseen,
    /// The runs differ.
    Differs(String),
}

/// Modification time of all files of a fresh tree, in seconds.
const OLD: u64 = 1_000_000_000;

impl Place {
    pub(super) fn new(base: &Path, helper: &Path) -> anyhow::Result<Self> {
        let place = Self {
            tree: base.join("tree"),
            store: base.join("store"),
            helper: helper.to_owned(),
        };
        fs::create_dir_all(base)?;
        Ok(place)
    }

    /// Makes the tree anew.
    fn reset(&self) -> anyhow::Result<()> {
        tree::remove(&self.tree)?;
        let at = |name: &str| self.tree.join(name);
        fs::create_dir_all(at("d"))?;
        fs::create_dir_all(at("e"))?;
        for (name, text) in [("f", "content of f\n"), ("g", "g\n"), ("e/x", "x\n")] {
            fs::write(at(name), text)?;
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o644))?;
        }
        std::os::unix::fs::symlink("f", at("l"))?;
        rustix::fs::setxattr(at("f"), "user.a", b"value", rustix::fs::XattrFlags::empty())
            .unwrap_or_default();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(OLD);
        for name in ["f", "g", "e/x", "d", "e"] {
            fs::File::open(at(name))?.set_modified(old)?;
        }
        let time = rustix::fs::Timespec {
            tv_sec: OLD as i64,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, at("l"), &times, flags)?;
        fs::File::open(&self.tree)?.set_modified(old)?;
        Ok(())
    }

    /// Runs the call plainly in a new tree.
    pub(super) fn plain(&self, call: &Call, is_warm: bool) -> anyhow::Result<Seen> {
        self.reset()?;
        self.run(Command::new(&self.helper), call, is_warm)
    }

    /// Has the call fail under pcache, and runs it again.
    pub(super) fn attempt(
        &self,
        subject: &Subject,
        call: &Call,
        error: i32,
        is_warm: bool,
        plain: &Seen,
    ) -> anyhow::Result<Verdict> {
        self.reset()?;
        tree::remove(&self.store)?;
        let name = errno::name(error).context("an error of the table has a name")?;
        // Arguments that the kernel looks at leave no room for a mark.
        let which = if call.arguments.len() < 6 {
            "marked"
        } else {
            "1"
        };
        let mut command = self.under(subject);
        command.env(
            "PCACHE_INJECT",
            format!("{}:{name}:{which}", call.spec.name),
        );
        let failing = self.run(command, call, is_warm)?;
        if let Some(line) = complaint(&failing) {
            return Ok(Verdict::Differs(format!("in the run that fails: {line}")));
        }
        let is_repeated = call.spec.failure(error) == Failure::Retried;
        if !is_repeated && failing.out != format!("error {error}\n") {
            return Ok(Verdict::Unseen);
        }
        if is_repeated {
            // The call was made after all.
            self.reset()?;
        }
        let after = self.run(self.under(subject), call, is_warm)?;
        Ok(match plain.difference(&after) {
            Some(text) => Verdict::Differs(text),
            None => Verdict::Same,
        })
    }

    fn under(&self, subject: &Subject) -> Command {
        let mut command = Command::new(&subject.pcache);
        command.args(["--quiet", "--min-time", "0", "--interception"]);
        command
            .arg(&subject.interception)
            .arg("--")
            .arg(&self.helper);
        if let Some(defect) = &subject.defect {
            command.env("PCACHE_DEFECT", defect);
        }
        command.env("PCACHE_DIR", &self.store);
        command
    }

    fn run(&self, mut command: Command, call: &Call, is_warm: bool) -> anyhow::Result<Seen> {
        let repeated = call.spec.failures().into_iter();
        let repeated = repeated.filter(|(_, failure)| *failure == Failure::Retried);
        let repeated: String = repeated.map(|(error, _)| format!("{error},")).collect();
        if is_warm {
            command.arg("-w");
        }
        command.arg(format!("-r,{repeated}"));
        command.arg(call.spec.number.to_string());
        command.args(&call.arguments);
        Seen::of(command, &self.tree)
    }
}

fn complaint(seen: &Seen) -> Option<&str> {
    let mut lines = seen.err.lines().chain(seen.out.lines());
    lines.find(|line| line.starts_with("pcache: "))
}
