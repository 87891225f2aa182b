//! The engine that records whole processes: the program `reprise`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Engine, RecordOptions, Replayed};
use crate::sandbox::{Ending, Job, Ran};
use crate::source::{Search, Source, Test, find_program};

/// See the module.
#[derive(Debug)]
pub(crate) struct Processes {
    pub(crate) program: PathBuf,
}

/// The name of the engine.
pub(super) const NAME: &str = "reprise";

/// Exit statuses of `reprise replay` that are not the test's.
const OWN: [i32; 3] = [123, 124, 125];

/// The exit status of a `reprise` that cannot do its work.
const FAILED: i32 = 125;

/// Part of each line that `reprise record` writes where a recording is not whole.
const LOSSES: [&str; 3] = [
    "the recording ends here",
    "the end of the recording could not be written",
    "holds only the beginning",
];

impl Processes {
    /// Finds the program, beside this one or in the path.
    ///
    /// # Errors
    /// If it is at neither place.
    pub(crate) fn find() -> anyhow::Result<Processes> {
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        let beside = own.with_file_name("reprise");
        let program = if beside.is_file() {
            beside
        } else {
            find_program("reprise")
                .context("`reprise` is not installed: `cargo install --path ptrace-async/replay`")?
        };
        Ok(Processes { program })
    }

    fn call(&self, test: &Test, args: &[&str], trace: &Path) -> Job {
        let mut job = test.job.clone();
        job.program.clone_from(&self.program);
        job.args = args.iter().map(Into::into).collect();
        job.args.push(trace.join("trace").into());
        job
    }
}

impl Engine for Processes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tests(&self, source: &Source, search: Search<'_>) -> anyhow::Result<Vec<Test>> {
        let doctor = Command::new(&self.program).arg("doctor").output();
        let can_record = doctor.context("cannot start reprise")?.status.success();
        ensure!(
            can_record,
            "this machine allows no recordings of whole processes: `reprise doctor` says why"
        );
        source.tests(search)
    }

    /// They are the same.
    fn even(&self, _: &[Test]) -> anyhow::Result<()> {
        Ok(())
    }

    fn record(&self, test: &Test, into: &Path, how: RecordOptions) -> Job {
        let chaos = how.chaos.map(|seed| format!("--chaos={seed}"));
        let mut args = vec!["record", "--quiet"];
        args.extend(chaos.as_deref());
        args.push("--output");
        let mut job = self.call(test, &args, into);
        job.args
            .extend(["--".into(), test.job.program.clone().into()]);
        job.args.extend(test.job.args.iter().cloned());
        job
    }

    fn lost(&self, ran: &Ran) -> Option<String> {
        let said = ran.stderr.text();
        let mut lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("reprise: "));
        let is_loss = |line: &&str| LOSSES.iter().any(|loss| line.contains(loss));
        lines.find(is_loss).map(str::to_owned)
    }

    fn refused(&self, ran: &Ran) -> Option<String> {
        let said = ran.stderr.text();
        let mut lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("reprise: "));
        let why = lines.next_back()?.to_owned();
        (ran.ending == Ending::Exit(FAILED)).then_some(why)
    }

    fn replay(&self, test: &Test, recording: &Path, _: &Path) -> Job {
        self.call(test, &["replay", "--quiet"], recording)
    }

    fn replayed(&self, ran: &Ran, _: &Path) -> Replayed {
        let is_faithful = !matches!(ran.ending, Ending::Exit(code) if OWN.contains(&code));
        let said = ran.stderr.text();
        let why = said.lines().filter(|line| line.starts_with("reprise: "));
        Replayed {
            is_faithful,
            why: match is_faithful {
                true => Vec::new(),
                false => why.map(str::to_owned).collect(),
            },
            came: None,
        }
    }

    fn events(&self, recording: &Path) -> anyhow::Result<Option<u64>> {
        // It has no count of its own; that there is a trace is what matters.
        Ok(recording.join("trace").exists().then_some(0))
    }

    fn in_words(&self, recording: &Path) -> anyhow::Result<String> {
        let output = Command::new(&self.program)
            .arg("stats")
            .arg(recording.join("trace"))
            .output()
            .context("cannot start reprise")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn difference(&self, _: &Path, _: &Path) -> anyhow::Result<String> {
        Ok("traces of processes are not compared yet\n".to_owned())
    }

    fn uncovered(&self) -> Vec<String> {
        Vec::new()
    }
}
