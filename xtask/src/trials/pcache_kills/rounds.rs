//! The rounds of each kind.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, WaitOptions};

use super::project::{self, Tree, VERSIONS};
use super::{mount, unmount};
use crate::support::pcache::Report;
use crate::trials::differential::dice::Dice;

/// The result of rounds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rounds: u64,
    /// Builds that were killed before they ended.
    killed: u64,
    /// Builds that did not store everything.
    full: u64,
    /// Builds that were skipped as a whole.
    skipped: u64,
    /// Builds whose result had been stored, and that were not skipped.
    lost: u64,
    /// Temporary files of killed restores that are still there.
    litter: u64,
    /// Events that must not happen.
    pub(crate) wrong: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.killed += other.killed;
        self.full += other.full;
        self.skipped += other.skipped;
        self.lost += other.lost;
        self.litter += other.litter;
        self.wrong += other.wrong;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            killed,
            full,
            skipped,
            lost,
            litter,
            wrong,
        } = self;
        write!(
            f,
            "{rounds} rounds, {killed} killed, {full} stores were full, {skipped} builds skipped, {lost} results lost, {litter} temporary files left, {wrong} wrong"
        )
    }
}

/// The tree that a plain build leaves.
struct Expected {
    tree: Tree,
    said: Vec<u8>,
}

/// Everything that rounds have in common.
pub(crate) struct Rounds {
    pcache: PathBuf,
    scratch: PathBuf,
    seed: u64,
    expected: Vec<Expected>,
}

/// A tree and a store.
struct Site {
    tree: PathBuf,
    store: PathBuf,
    /// Output and report.
    notes: PathBuf,
}

impl Rounds {
    pub(crate) fn new(pcache: PathBuf, scratch: &Path, seed: u64) -> anyhow::Result<Self> {
        let scratch = scratch.canonicalize()?;
        let mut expected = Vec::new();
        let tree = scratch.join("plain");
        for version in 0..VERSIONS {
            project::reset(&tree, version)?;
            let output = Command::new("sh")
                .arg("build.sh")
                .current_dir(&tree)
                .env("LC_ALL", "C")
                .output()
                .context("starting sh")?;
            ensure!(output.status.success(), "the project does not build");
            expected.push(Expected {
                tree: project::read(&tree)?,
                said: output.stdout,
            });
        }
        Ok(Self {
            pcache,
            scratch,
            seed,
            expected,
        })
    }

    fn site(&self, name: &str) -> anyhow::Result<Site> {
        let base = self.scratch.join(name);
        fs::create_dir_all(&base)?;
        Ok(Site {
            tree: base.join("tree"),
            store: base.join("store"),
            notes: base,
        })
    }

    /// Builds that are killed.
    pub(crate) fn kills(&self, count: u64) -> anyhow::Result<Tally> {
        let site = self.site("kills")?;
        let mut tally = Tally::default();
        let mut dice = Dice::new(self.seed);
        // Results that a build which was not disturbed has stored.
        let mut stored = [false; VERSIONS];
        // How long a build takes that runs, and one that is skipped.
        let mut usual = [Duration::from_millis(50), Duration::from_millis(8)];
        for round in 0..count {
            if dice.chance(8) && site.store.exists() {
                fs::remove_dir_all(&site.store)?;
                stored = [false; VERSIONS];
            }
            let version = dice.below(VERSIONS);
            project::reset(&site.tree, version)?;
            let usual = &mut usual[usize::from(stored[version])];
            let most = usual.as_micros() as usize / *dice.pick(&[1, 1, 2, 8]);
            let after = Duration::from_micros(dice.below(most) as u64);
            let whom = *dice.pick(&[Whom::Front, Whom::Tracer, Whom::All]);
            let killed = self.run(&site, Some((after, whom)))?.is_none();
            tally.rounds += 1;
            tally.killed += u64::from(killed);
            // A killed build leaves half a tree; the next one begins there, or anew.
            let anew = dice.chance(70);
            if anew {
                project::reset(&site.tree, version)?;
            }
            let began = Instant::now();
            self.judge(&site, version, &mut tally)?;
            if anew {
                *usual = (*usual * 3 + began.elapsed().min(Duration::from_secs(5))) / 4;
                let report = Report::read(&site.notes.join("report.json"));
                let whole = report.units == 1 && report.hits == 1;
                tally.skipped += u64::from(whole);
                if stored[version] && !whole {
                    tally.lost += 1;
                    println!("round {round}: version {version} was stored and is not skipped");
                }
                if let Some(reason) = &report.not_stored {
                    println!("round {round}: version {version} was not stored: {reason}");
                }
                stored[version] = true;
            }
            if round % 50 == 49 || round + 1 == count {
                self.fsck(&site, &mut tally)?;
            }
        }
        // What was stored by a build that nobody disturbed may not get lost.
        tally.wrong += tally.lost;
        Ok(tally)
    }

    /// Builds whose store is on a disk that gets full.
    pub(crate) fn full(&self, count: u64, ext4: bool) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let mut dice = Dice::new(self.seed);
        for round in 0..count {
            let mut site = self.site("full")?;
            let disk = site.notes.join("disk");
            mount(
                &disk,
                dice.range(16, *dice.clone().pick(&[1000, 8000])) / 4 * 4,
                ext4,
            )?;
            site.store = disk.join("store");
            // Something else takes its room, and gives it back.
            let ballast = disk.join("ballast");
            for _ in 0..3 {
                let version = dice.below(VERSIONS);
                if dice.chance(50) {
                    let bytes = vec![1; dice.below(400) << 10];
                    // That this fills the disk is what it is for.
                    let _ = fs::write(&ballast, bytes);
                } else {
                    let _ = fs::remove_file(&ballast);
                }
                project::reset(&site.tree, version)?;
                self.judge(&site, version, &mut tally)?;
                let report = Report::read(&site.notes.join("report.json"));
                tally.full += u64::from(report.not_stored.is_some());
                tally.skipped += u64::from(report.units == 1 && report.hits == 1);
            }
            tally.rounds += 1;
            if site.store.join("format").exists() {
                self.fsck(&site, &mut tally)?;
            }
            unmount(&disk).with_context(|| format!("in round {round}"))?;
        }
        Ok(tally)
    }

    /// Eight pcaches at once on one store and four trees, some of them killed.
    pub(crate) fn together(&self, count: u64) -> anyhow::Result<Tally> {
        const PCACHES: u64 = 8;
        const TREES: usize = 4;
        let trees: Vec<Mutex<PathBuf>> = (0..TREES)
            .map(|n| Mutex::new(self.scratch.join(format!("together-{n}"))))
            .collect();
        let next = AtomicU64::new(0);
        let total = Mutex::new(Tally::default());
        let store = self.scratch.join("together-store");
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..PCACHES)
                .map(|worker| {
                    let (trees, next, total, store) = (&trees, &next, &total, &store);
                    scope.spawn(move || -> anyhow::Result<()> {
                        let mut dice = Dice::new(self.seed.wrapping_mul(100).wrapping_add(worker));
                        while next.fetch_add(1, Ordering::Relaxed) < count {
                            let site = Site {
                                tree: PathBuf::new(),
                                store: store.clone(),
                                notes: self.site(&format!("together-notes-{worker}"))?.notes,
                            };
                            let tally = self.one_of_many(site, trees, &mut dice)?;
                            lock(total).add(&tally);
                        }
                        Ok(())
                    })
                })
                .collect();
            for worker in workers {
                match worker.join() {
                    Ok(result) => result?,
                    Err(_) => anyhow::bail!("a worker panicked"),
                }
            }
            anyhow::Ok(())
        })?;
        let mut tally = total
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let site = Site {
            tree: PathBuf::new(),
            store,
            notes: self.scratch.clone(),
        };
        self.fsck(&site, &mut tally)?;
        Ok(tally)
    }

    /// One build by one of several pcaches. Two of them never build in one tree at
    /// the same time, which no build survives, but they use each other's results.
    fn one_of_many(
        &self,
        site: Site,
        trees: &[Mutex<PathBuf>],
        dice: &mut Dice,
    ) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let version = dice.below(VERSIONS);
        let tree = lock(&trees[dice.below(trees.len())]);
        let site = Site {
            tree: tree.clone(),
            ..site
        };
        project::reset(&site.tree, version)?;
        tally.rounds += 1;
        if dice.chance(30) {
            let after = Duration::from_micros(dice.below(400_000) as u64);
            let whom = *dice.pick(&[Whom::Front, Whom::Tracer, Whom::All]);
            tally.killed += u64::from(self.run(&site, Some((after, whom)))?.is_none());
            project::reset(&site.tree, version)?;
        }
        self.judge(&site, version, &mut tally)?;
        let report = Report::read(&site.notes.join("report.json"));
        tally.skipped += u64::from(report.units == 1 && report.hits == 1);
        Ok(tally)
    }

    /// Builds undisturbed, and compares.
    fn judge(&self, site: &Site, version: usize, tally: &mut Tally) -> anyhow::Result<()> {
        let expected = &self.expected[version];
        let status = self.run(site, None)?;
        let said = fs::read(site.notes.join("output"))?;
        let mut tree = project::read(&site.tree)?;
        tally.litter += project::take_litter(&mut tree);
        let mut wrong = project::differences(&expected.tree, &tree);
        if !status.is_some_and(|status| status.success()) {
            wrong.push(format!("it ended with {status:?}"));
        }
        if said != expected.said {
            wrong.push(format!(
                "it said {:?} instead of {:?}",
                String::from_utf8_lossy(&said),
                String::from_utf8_lossy(&expected.said)
            ));
        }
        if !wrong.is_empty() {
            tally.wrong += 1;
            println!("wrong, version {version}, in {}:", site.tree.display());
            for line in wrong {
                println!("  {line}");
            }
            let errors = fs::read(site.notes.join("errors")).unwrap_or_default();
            println!("  {}", String::from_utf8_lossy(&errors).trim_end());
        }
        Ok(())
    }

    fn fsck(&self, site: &Site, tally: &mut Tally) -> anyhow::Result<()> {
        let output = Command::new(&self.pcache)
            .args(["fsck", "--cache-dir"])
            .arg(&site.store)
            .output()
            .context("starting pcache fsck")?;
        if !output.status.success() {
            tally.wrong += 1;
            println!("fsck: {}", String::from_utf8_lossy(&output.stdout));
            println!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Builds under pcache, and returns when nothing of it is left. Nothing if it was
    /// killed.
    fn run(
        &self,
        site: &Site,
        kill: Option<(Duration, Whom)>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let report = site.notes.join("report.json");
        let _ = fs::remove_file(&report);
        // What was written in the moment before a build makes it uncacheable.
        wait_for_a_tick(&site.notes)?;
        let mut child = Command::new(&self.pcache)
            .args(["--quiet", "--min-time", "0", "--json"])
            .arg(&report)
            .args(["--", "sh", "build.sh"])
            .current_dir(&site.tree)
            .env("PCACHE_DIR", &site.store)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(File::create(site.notes.join("output"))?)
            .stderr(File::create(site.notes.join("errors"))?)
            .process_group(0)
            .spawn()
            .context("starting pcache")?;
        let front = Pid::from_child(&child);
        let mut was_killed = false;
        if let Some((after, whom)) = kill {
            std::thread::sleep(after);
            was_killed = child.try_wait()?.is_none();
            whom.kill(front);
        }
        let status = child.wait()?;
        if kill.is_some() {
            // Whoever stays, a tracer that has lost its front say, ends by itself,
            // and its tracees end with it.
            while let Ok(Some(_)) = rustix::process::waitpgid(front, WaitOptions::empty()) {}
        }
        Ok((!was_killed).then_some(status))
    }
}

/// The process that is killed.
#[derive(Debug, Clone, Copy)]
enum Whom {
    /// The process that the user started.
    Front,
    /// Its child, which traces.
    Tracer,
    /// Them, and all that they started.
    All,
}

impl Whom {
    fn kill(self, front: Pid) {
        // Whoever is gone already need not be killed.
        match self {
            Self::All => drop(rustix::process::kill_process_group(front, Signal::KILL)),
            Self::Front => drop(rustix::process::kill_process(front, Signal::KILL)),
            Self::Tracer => {
                let pid = front.as_raw_nonzero();
                let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
                let tracer = children.ok().and_then(|list| {
                    let first = list.split_ascii_whitespace().next()?;
                    Pid::from_raw(first.parse().ok()?)
                });
                let _ = rustix::process::kill_process(tracer.unwrap_or(front), Signal::KILL);
            }
        }
    }
}

/// Waits until files that are written get another time than all that were written so far. A
/// file's own time may run ahead of the clock that stands still for a tick (multigrain
/// timestamps, Linux 6.13), so it is that clock which must pass it.
fn wait_for_a_tick(scratch: &Path) -> anyhow::Result<()> {
    let path = scratch.join("clock");
    fs::write(&path, "")?;
    let last = fs::metadata(&path)?;
    let last = (last.ctime(), last.ctime_nsec());
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        (time.tv_sec, time.tv_nsec)
    };
    while now() <= last {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
