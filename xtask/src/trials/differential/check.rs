//! Taking a case's steps on both sides, and comparing after each.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::case::{Aftermath, Case, Edit, Run, Step};
use super::conclude;
use super::disturb::{self, Progress, Ready, Scene};
use super::edit::Target;
use super::execute::{End, Outcome, Patience, execute};
use crate::support::pcache::{self, Report};
use crate::support::tree;
use crate::support::tree::arena::{Arena, Side};
use crate::support::tree::clock::{self, FileClock, Nanos};
use crate::support::tree::snapshot::{Aspect, Snapshot, Story, excerpt, excerpts};

/// The pcache to test.
#[derive(Debug, Clone)]
pub(crate) struct Pcache {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its `--interception`.
    pub(crate) interception: String,
    /// The planted defect to switch on, by name.
    pub(crate) defect: Option<String>,
    /// Longest time for one run.
    pub(crate) deadline: Duration,
}

impl Pcache {
    /// Whether this build injects errors when it is asked to.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn injects_errors(&self) -> anyhow::Result<bool> {
        pcache::injects_errors(&self.program)
    }
}

/// The program that the second side runs under.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// Under pcache: the test.
    Pcache(&'a Pcache),
    /// Plainly: asks whether the case itself is deterministic.
    Plain,
}

/// The first difference of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The step after which it showed, from 0.
    pub(crate) step: usize,
    /// The kind of a difference.
    pub(crate) aspect: Aspect,
    /// The differing things, one line each.
    pub(crate) lines: Vec<String>,
}

/// Counts over the runs of one or many cases.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    /// Steps taken on both sides.
    pub(crate) steps: u64,
    /// Steps after which pcache reported at least one hit.
    pub(crate) steps_with_hits: u64,
    /// Exec-units pcache saw.
    pub(crate) units: u64,
    /// Of them, those it skipped.
    pub(crate) hits: u64,
}

impl Tally {
    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.steps_with_hits += other.steps_with_hits;
        self.units += other.units;
        self.hits += other.hits;
    }
}

/// Takes all steps of `case` and stops at the first difference.
///
/// # Errors
///
/// When the machinery fails, as opposed to the thing under test.
pub(crate) fn check(
    arena: &Arena,
    case: &Case,
    subject: Subject<'_>,
    tally: &mut Tally,
) -> anyhow::Result<Option<Difference>> {
    arena.reset()?;
    let clock = FileClock::new(arena.io().join("clock"));
    let began = clock.advance()?.before;
    let mut play = Play {
        arena,
        case,
        subject,
        clock,
        began,
        story: [Story::default(), Story::default()],
        parted: false,
    };
    play.edit(&Edit::Reset(None))?;
    for (index, step) in case.steps.iter().enumerate() {
        arena.move_on();
        let found = play.step(step, tally)?;
        tally.steps += 1;
        if let Some(aspect) = found.iter().map(|(aspect, _)| *aspect).min() {
            let lines = found.into_iter().map(|(_, line)| line).collect();
            return Ok(Some(Difference {
                step: index,
                aspect,
                lines,
            }));
        }
        if play.parted {
            break;
        }
    }
    Ok(None)
}

/// Where commands find programs.
pub(crate) fn search_path() -> &'static str {
    SEARCHED.get().map_or(SYSTEM, String::as_str)
}

/// Has commands look into this directory first, all of them from now on.
pub(crate) fn search_before(directory: &Path) {
    SEARCHED.get_or_init(|| format!("{}:{SYSTEM}", directory.display()));
}

/// Where the system has its programs.
const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin";
/// The search path, if it is another one.
static SEARCHED: OnceLock<String> = OnceLock::new();

/// The full path of a program given by name.
fn look_up(program: &OsStr) -> PathBuf {
    let name = Path::new(program);
    if name.components().count() > 1 {
        return name.to_owned();
    }
    search_path()
        .split(':')
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| name.to_owned())
}

struct Play<'a> {
    arena: &'a Arena,
    case: &'a Case,
    subject: Subject<'a>,
    clock: FileClock,
    began: Nanos,
    story: [Story; 2],
    /// By luck the next build is not the same on both sides.
    parted: bool,
}

type Findings = Vec<(Aspect, String)>;

impl Play<'_> {
    /// Applies an edit to both trees, as a chapter of its own.
    fn edit(&mut self, edit: &Edit) -> anyhow::Result<()> {
        let boundary = self.clock.advance()?;
        self.story
            .iter_mut()
            .for_each(|story| story.begin(boundary.before));
        for side in [Side::Plain, Side::Cached] {
            let root = self.arena.parked(side);
            Target {
                root: &root,
                case: self.case,
                began: self.began,
                present: boundary.after,
            }
            .apply(edit)?;
        }
        Ok(())
    }

    /// Kills pcache in the middle of a run; what the run did to the tree until
    /// then is anybody's guess, so both trees begin anew.
    fn crash(&mut self, after: u64, run: &Run, tally: &mut Tally) -> anyhow::Result<()> {
        if let Subject::Pcache(_) = self.subject {
            let patience = Patience::Kill(Duration::from_millis(after));
            self.run(Side::Cached, &[], run, patience, tally)?;
            // The number of chapters stays the same on both sides.
            let boundary = self.clock.advance()?;
            self.story[Side::Plain as usize].begin(boundary.before);
        }
        self.edit(&Edit::Reset(None))
    }

    fn step(&mut self, step: &Step, tally: &mut Tally) -> anyhow::Result<Findings> {
        let hasty: &[Edit] = if step.hasty { &step.edits } else { &[] };
        for edit in step.edits.iter().skip(hasty.len()) {
            match edit {
                Edit::Crash(after) => self.crash(*after, &step.run, tally)?,
                _ => self.edit(edit)?,
            }
        }
        let found = self.disturb(step)?;
        if !found.is_empty() {
            return Ok(found);
        }
        if step.run.chance.is_some() {
            return self.chance(&step.run, tally);
        }
        let deadline = Patience::Deadline(match self.subject {
            Subject::Pcache(pcache) => pcache.deadline,
            Subject::Plain => Duration::from_secs(60),
        });
        let run = &step.run;
        let (ours, our_outcome) = self.run(Side::Plain, hasty, run, deadline, tally)?;
        let (theirs, their_outcome) = self.run(Side::Cached, hasty, run, deadline, tally)?;
        let mut found = ours.differences(&theirs);
        compare_outcomes(&our_outcome, &their_outcome, &step.run, &mut found);
        self.compare_order(&step.order, &mut found);
        if found.is_empty() {
            let ours = self.arena.live(Side::Plain, |tree| {
                conclude::conclude(tree, &self.case.kind, &self.arena.home())
            })?;
            let theirs = self.arena.live(Side::Cached, |tree| {
                conclude::conclude(tree, &self.case.kind, &self.arena.home())
            })?;
            conclude::compare(&ours, &theirs, &mut found);
            // What was made in one tick of the clock plainly need not be under
            // pcache: then the conclusions are a matter of luck, and so is what
            // comes of them.
            if !found.is_empty()
                && tree::has_equal_times(&self.arena.parked(Side::Plain), self.began)?
            {
                found.clear();
                self.parted = true;
            }
        }
        Ok(found)
    }

    /// Runs a step whose `chance` file must be new each time: three runs on
    /// pcache's side, one on the plain side to compare all else with.
    fn chance(&mut self, run: &Run, tally: &mut Tally) -> anyhow::Result<Findings> {
        let path = run.chance.as_deref().unwrap_or_default();
        let deadline = Patience::Deadline(Duration::from_secs(60));
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for round in 1..=3 {
            let (mut ours, our_outcome) = self.run(Side::Plain, &[], run, deadline, tally)?;
            let (mut theirs, their_outcome) = self.run(Side::Cached, &[], run, deadline, tally)?;
            ours.forget(path);
            theirs.forget(path);
            found.extend(ours.differences(&theirs));
            compare_outcomes(&our_outcome, &their_outcome, run, &mut found);
            let value =
                std::fs::read(self.arena.parked(Side::Cached).join(path)).unwrap_or_default();
            if !seen.insert(value.clone()) {
                found.push((
                    Aspect::Chance,
                    format!("{path}: {} again in run {round}", excerpt(&value, 0)),
                ));
            }
            if !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Disturbs a run of the step on pcache's side, whose results stay in the store.
    fn disturb(&mut self, step: &Step) -> anyhow::Result<Findings> {
        let Subject::Pcache(pcache) = self.subject else {
            return Ok(Vec::new());
        };
        if step.disturbances.is_empty() {
            return Ok(Vec::new());
        }
        let parked = self.arena.parked(Side::Cached);
        let saved = self.arena.saved();
        super::copy(&parked, &saved)?;
        let mut run = disturb::started(&step.run, &step.disturbances);
        if step.refreshed {
            run.options.push("--refresh".into());
        }
        let boundary = self.clock.advance()?;
        self.story[Side::Cached as usize].begin(boundary.before);
        let tree = self.arena.tree();
        let scene = Scene {
            tree: &tree,
            target: Target {
                root: &tree,
                case: self.case,
                began: self.began,
                present: boundary.after,
            },
            small: self.arena.small(),
            pcache: &pcache.program,
        };
        let patience = Patience::Deadline(pcache.deadline);
        let outcome = self.start(Side::Cached, &run, patience, |execute| {
            let ready = Ready::new(&scene, &step.disturbances);
            let progress = Progress::default();
            std::thread::scope(|scope| {
                scope.spawn(|| ready.attend(&progress));
                let outcome = execute(&|leader| progress.begin(leader));
                progress.end();
                outcome
            })
        })?;
        match step.aftermath {
            Aftermath::Restored => {
                tree::remove(&parked)?;
                std::fs::rename(&saved, &parked)?;
                // The number of chapters stays the same on both sides.
                let boundary = self.clock.advance()?;
                self.story[Side::Plain as usize].begin(boundary.before);
            }
            Aftermath::Kept => {
                tree::remove(&saved)?;
                let plain = self.arena.parked(Side::Plain);
                tree::remove(&plain)?;
                super::copy(&parked, &plain)?;
                self.story[Side::Plain as usize] = self.story[Side::Cached as usize].clone();
            }
        }
        Ok(complaints(&outcome))
    }

    /// Of each two paths of `order`, the same one is newer under pcache as plainly. A directory may
    /// be as old as a file outside of it.
    fn compare_order(&self, order: &[String], found: &mut Findings) {
        let times = |side| -> Option<Vec<Nanos>> {
            let root = self.arena.parked(side);
            let time = |path| Some(clock::modified(&root.join(path).symlink_metadata().ok()?));
            order.iter().map(time).collect()
        };
        let (Some(ours), Some(theirs)) = (times(Side::Plain), times(Side::Cached)) else {
            return;
        };
        for (after, newer) in order.iter().enumerate() {
            for (before, older) in order.iter().enumerate() {
                let as_old = order.iter().any(|path| is_in(path, newer)) && !is_in(older, newer);
                let wrong =
                    theirs[after] < theirs[before] || theirs[after] == theirs[before] && !as_old;
                if ours[after] - ours[before] >= APART && wrong {
                    found.push((
                        Aspect::Times,
                        format!("{newer} is newer than {older} plainly, not under pcache"),
                    ));
                }
            }
        }
    }

    fn run(
        &mut self,
        side: Side,
        hasty: &[Edit],
        run: &Run,
        patience: Patience,
        tally: &mut Tally,
    ) -> anyhow::Result<(Snapshot, Outcome)> {
        let boundary = self.clock.advance()?;
        self.story[side as usize].begin(boundary.before);
        let root = self.arena.parked(side);
        for edit in hasty {
            Target {
                root: &root,
                case: self.case,
                began: self.began,
                present: boundary.after,
            }
            .apply(edit)?;
        }
        let outcome = self.start(side, run, patience, |execute| execute(&|_| {}))?;
        let snapshot = Snapshot::take(
            &self.arena.parked(side),
            &self.story[side as usize],
            self.clock.advance()?.before,
        )?;
        let report = Report::read(&self.report());
        tally.units += report.units;
        tally.hits += report.hits;
        tally.steps_with_hits += u64::from(report.hits > 0);
        Ok((snapshot, outcome))
    }

    /// Starts a run in the live tree of a side; `within` calls what executes it, and may do
    /// more meanwhile.
    fn start(
        &self,
        side: Side,
        run: &Run,
        patience: Patience,
        within: impl FnOnce(&dyn Fn(&dyn Fn(i32)) -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Outcome> {
        let report = self.report();
        let _ = std::fs::remove_file(&report);
        if let Some(small) = self.arena.small() {
            tree::clear(small)?;
        }
        self.arena.live(side, |tree| {
            let outcome = self.start_in(tree, side, run, patience, &report, within);
            if self.arena.small().is_some() {
                tree::mounts::unmount_in(tree)?;
            }
            outcome
        })
    }

    fn start_in(
        &self,
        tree: &Path,
        side: Side,
        run: &Run,
        patience: Patience,
        report: &Path,
        within: impl FnOnce(&dyn Fn(&dyn Fn(i32)) -> anyhow::Result<Outcome>) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Outcome> {
        let pcache = match (side, self.subject) {
            (Side::Cached, Subject::Pcache(pcache)) => Some(pcache),
            _ => None,
        };
        within(&|started| {
            execute(
                self.command(tree, run, pcache, report),
                &run.input,
                &run.output,
                tree,
                &self.arena.io(),
                patience,
                started,
            )
        })
    }

    fn report(&self) -> PathBuf {
        self.arena.io().join("report.json")
    }

    fn command(&self, tree: &Path, run: &Run, pcache: Option<&Pcache>, report: &Path) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if !run.prelude.is_empty() {
            words.extend(["sh", "-c"].map(OsString::from));
            words.push(format!("{} exec \"$@\"", run.prelude).into());
            words.push("sh".into());
        }
        if let Some(pcache) = pcache {
            words.push(pcache.program.clone().into());
            // However short a program is, its result is to be tested.
            words.extend(["--quiet", "--min-time", "0", "--json"].map(OsString::from));
            words.push(report.into());
            words.extend(["--interception", &pcache.interception].map(OsString::from));
            if self.arena.moves() {
                words.push("--root".into());
                words.push(format!("tree={}", tree.display()).into());
            }
            words.extend(run.options.iter().map(OsString::from));
            words.push("--".into());
        }
        words.extend(run.argv.iter().map(OsString::from));
        // Programs are looked up here, because the standard library starts a
        // path in another way than a name, and the difference shows in the
        // ignored signals.
        let mut command = Command::new(look_up(&words[0]));
        command.arg0(&words[0]).args(&words[1..]);
        // A directory that an edit removed is replaced by the root of the
        // tree, on both sides alike.
        let cwd = tree.join(&run.cwd);
        command.current_dir(if cwd.is_dir() { cwd } else { tree.to_owned() });
        command.env_clear();
        command.env("PATH", search_path());
        command.env("HOME", self.arena.home());
        command.env("LC_ALL", "C.UTF-8");
        // Both sides see pcache's own variables, so that a program which
        // prints its environment prints the same.
        command.env("PCACHE_DIR", self.arena.store());
        if let Subject::Pcache(Pcache {
            defect: Some(defect),
            ..
        }) = self.subject
        {
            command.env("PCACHE_DEFECT", defect);
        }
        if let Some(small) = self.arena.small() {
            command.env("SMALL", small);
        }
        command.envs(&run.env);
        command
    }
}

/// Whether a path is in a directory.
fn is_in(path: &str, directory: &str) -> bool {
    std::path::Path::new(path).parent() == Some(directory.as_ref())
}

/// By how much a path is newer at least where that is no accident: the cases that ask for an
/// order sleep for twice that time.
const APART: Nanos = 10_000_000;

/// Lists whatever a disturbed run shows and no run may show.
fn complaints(outcome: &Outcome) -> Findings {
    let mut found = Vec::new();
    if outcome.end == End::Hang {
        found.push((Aspect::Hang, "a disturbed run hangs".to_owned()));
    }
    for stream in [&outcome.out, &outcome.err] {
        let text = String::from_utf8_lossy(stream);
        if let Some(line) = text.lines().find(|line| line.starts_with("pcache: ")) {
            found.push((Aspect::Message, format!("in a disturbed run: {line}")));
        }
    }
    found
}

fn compare_outcomes(ours: &Outcome, theirs: &Outcome, run: &Run, found: &mut Findings) {
    // A program that cannot be started: pcache, or the shell of the prelude,
    // says so in its own words and ends as a shell does.
    let not_started = |end| matches!(end, End::NotStarted | End::Exit(125..=127));
    if not_started(theirs.end)
        && (ours.end == End::NotStarted || (!run.prelude.is_empty() && not_started(ours.end)))
    {
        return;
    }
    if theirs.end == End::Hang || ours.end == End::Hang {
        found.push((
            Aspect::Hang,
            format!(
                "ended {:?} plainly, {:?} under pcache",
                ours.end, theirs.end
            ),
        ));
    } else if ours.end != theirs.end {
        found.push((
            Aspect::Status,
            format!(
                "ended {:?} plainly, {:?} under pcache",
                ours.end, theirs.end
            ),
        ));
    }
    for (name, ours, theirs) in [
        ("output", &ours.out, &theirs.out),
        ("error", &ours.err, &theirs.err),
    ] {
        let same = if run.unordered {
            sorted(ours) == sorted(theirs)
        } else {
            ours == theirs
        };
        if !same {
            let (ours, theirs) = excerpts(ours, theirs);
            found.push((
                Aspect::Streams,
                format!("standard {name}: {ours} plainly, {theirs} under pcache"),
            ));
        }
    }
    if ours.left != theirs.left {
        let (ours, theirs) = excerpts(&ours.left, &theirs.left);
        found.push((
            Aspect::Offsets,
            format!("left of standard input: {ours} plainly, {theirs} under pcache"),
        ));
    }
    if ours.offset != theirs.offset {
        found.push((
            Aspect::Offsets,
            format!(
                "offset of the output file: {} plainly, {} under pcache",
                ours.offset, theirs.offset
            ),
        ));
    }
}

/// Programs write a message in pieces, which those of others may separate.
fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}
