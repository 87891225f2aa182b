//! Disturbing a run: others change its files, signal its processes, hold its locks or take
//! away its resources.
//!
//! A plain run and one under pcache race differently with others, so a disturbed run is
//! compared with nothing. It happens on pcache's side alone and leaves its results in the
//! store; the same step is then taken undisturbed on both sides and compared. The disturbed
//! run must end, and pcache must not complain in it.
//!
//! A moment is an event: a program of the case, its *gate*, waits for the lock of a file that
//! the test holds ([`moment::Gate`]), or a process of a certain name is there. A
//! [`Condition`] is there before the run and until it has ended.
//!
//! **Invariant:** which event a disturbance waits for is a part of the case; no disturbance
//! is a matter of time. One whose event does not come does nothing.

mod condition;
mod cover;
mod moment;
mod signal;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::case::{Edit, Run};
use super::edit::Target;
use condition::Held;
pub(crate) use condition::{Condition, Lock};
pub(crate) use cover::Cover;
pub(crate) use moment::Moment;
pub(crate) use signal::Signal;

/// One disturbance of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Disturbance {
    /// At this moment somebody else does this.
    Act(Moment, Act),
    /// During the whole run this is so.
    During(Condition),
}

/// An act of somebody else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// A change of the tree.
    Edit(Edit),
    /// Change the first byte of a file through a mapping, which stays until the run has ended.
    Map(String),
    /// Send a signal to the process of the moment, or to this many generations above it.
    Signal(Signal, usize),
    /// Mount something over a path.
    Mount(String, Cover),
    /// Unmount what was mounted over a path last.
    Unmount(String),
}

/// How often a thread looks whether a moment has come.
const PERIOD: Duration = Duration::from_micros(300);

/// The run as it is started: what is inherited by its processes is a part of it.
pub(crate) fn started(run: &Run, disturbances: &[Disturbance]) -> Run {
    let mut run = run.clone();
    for disturbance in disturbances {
        match disturbance {
            Disturbance::During(Condition::Limited(limits)) => {
                let limits = limits.iter().map(|limit| format!("--{limit}"));
                let words = std::iter::once("prlimit".to_owned()).chain(limits);
                run.argv.splice(0..0, words);
            }
            Disturbance::During(Condition::Injected(fault)) => {
                run.env.insert("PCACHE_INJECT".into(), fault.clone());
            }
            _ => {}
        }
    }
    run
}

/// Where a disturbed run happens.
pub(crate) struct Scene<'a> {
    /// The live tree.
    pub(crate) tree: &'a Path,
    /// The same, for edits.
    pub(crate) target: Target<'a>,
    /// A file system that is soon full, if there is one.
    pub(crate) small: Option<&'a Path>,
    /// The program under test, whose own processes are left alone.
    pub(crate) pcache: &'a Path,
}

/// All that others have taken hold of before a run.
pub(crate) struct Ready<'a> {
    scene: &'a Scene<'a>,
    /// Released one by one when the run has ended.
    _held: Vec<Held>,
    acts: Vec<Pending<'a>>,
}

struct Pending<'a> {
    moment: moment::Watched,
    act: &'a Act,
}

/// The first process of a run, once it is started, and whether the run has ended.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    leader: Mutex<Option<i32>>,
    ended: AtomicBool,
}

impl Progress {
    /// The run has started with this process.
    pub(crate) fn begin(&self, leader: i32) {
        *self
            .leader
            .lock()
            .unwrap_or_else(|error| error.into_inner()) = Some(leader);
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    fn leader(&self) -> Option<i32> {
        *self
            .leader
            .lock()
            .unwrap_or_else(|error| error.into_inner())
    }
}

impl<'a> Ready<'a> {
    /// Takes hold of locks, files and places. What cannot be had here is left out.
    pub(crate) fn new(scene: &'a Scene<'a>, disturbances: &'a [Disturbance]) -> Self {
        let mut held = Vec::new();
        let mut acts = Vec::new();
        for disturbance in disturbances {
            match disturbance {
                Disturbance::During(condition) => held.extend(condition.hold(scene)),
                Disturbance::Act(moment, act) => {
                    if let Some(moment) = moment.watch(scene) {
                        acts.push(Pending { moment, act });
                    }
                }
            }
        }
        Self {
            scene,
            _held: held,
            acts,
        }
    }

    /// Acts at each moment, until the run has ended.
    pub(crate) fn attend(mut self, progress: &Progress) {
        let mut mappings = Vec::new();
        while !progress.ended.load(Ordering::SeqCst) {
            if let Some(leader) = progress.leader() {
                let scene = self.scene;
                self.acts.retain(|pending| {
                    let Some(process) = pending.moment.come(leader, scene.pcache) else {
                        return true;
                    };
                    mappings.extend(pending.act.perform(scene, process, leader));
                    // A gate opens as its lock is dropped with it.
                    false
                });
            }
            std::thread::sleep(PERIOD);
        }
    }
}

impl Act {
    /// Does it; gives back what stays until the run has ended.
    fn perform(&self, scene: &Scene<'_>, process: i32, leader: i32) -> Option<Held> {
        match self {
            // What does not apply at this moment does nothing.
            Self::Edit(edit) => drop(scene.target.apply(edit)),
            Self::Mount(path, cover) => cover.mount(scene, path),
            Self::Unmount(path) => cover::unmount(scene, path),
            Self::Map(path) => return Held::mapping(&inside(scene.tree, path)?),
            Self::Signal(signal, above) => {
                signal.send(signal::above(process, *above, leader, scene.pcache));
            }
        }
        None
    }
}

/// A path of the tree; none that leaves it.
fn inside(tree: &Path, relative: &str) -> Option<PathBuf> {
    let leaves = relative.starts_with('/') || relative.split('/').any(|part| part == "..");
    (!leaves).then(|| tree.join(relative))
}

/// Ways to make a disturbance plainer, for shrinking.
pub(crate) fn plainer(disturbance: &Disturbance) -> Vec<Disturbance> {
    match disturbance {
        Disturbance::Act(moment, Act::Signal(signal, above)) if *above > 0 => {
            vec![Disturbance::Act(
                moment.clone(),
                Act::Signal(*signal, above - 1),
            )]
        }
        Disturbance::Act(moment, Act::Edit(edit)) => match edit {
            Edit::Replace(path, blocks) => vec![Disturbance::Act(
                moment.clone(),
                Act::Edit(Edit::Write(path.clone(), blocks.clone())),
            )],
            Edit::Write(path, blocks) if blocks.len() > 1 => vec![Disturbance::Act(
                moment.clone(),
                Act::Edit(Edit::Write(path.clone(), blocks[..1].to_vec())),
            )],
            _ => Vec::new(),
        },
        Disturbance::Act(moment, Act::Mount(path, Cover::Bind(_))) => {
            let empty = Act::Mount(path.clone(), Cover::Empty);
            vec![Disturbance::Act(moment.clone(), empty)]
        }
        Disturbance::During(Condition::Limited(limits)) if limits.len() > 1 => {
            vec![Disturbance::During(Condition::Limited(
                limits[..1].to_vec(),
            ))]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_run_starts_below_prlimit() {
        let run = Run {
            argv: vec!["make".into(), "-k".into()],
            ..Run::default()
        };
        let limited = Disturbance::During(Condition::Limited(vec!["nofile=9".into()]));
        assert_eq!(
            started(&run, &[limited]).argv,
            ["prlimit", "--nofile=9", "make", "-k"]
        );
        assert_eq!(started(&run, &[]), run);
    }

    #[test]
    fn disturbances_survive_json() {
        for disturbance in [
            Disturbance::Act(
                Moment::Gate("g0".into()),
                Act::Edit(Edit::Delete("out/a".into())),
            ),
            Disturbance::Act(
                Moment::Gate("g0".into()),
                Act::Mount("work".into(), Cover::Bind("out".into())),
            ),
            Disturbance::Act(Moment::Program("cc1".into()), Act::Signal(Signal::Kill, 1)),
            Disturbance::During(Condition::Locked("work/lock".into(), Lock::Record)),
            Disturbance::During(Condition::FullDisk(2)),
        ] {
            let json = serde_json::to_string(&disturbance).unwrap();
            assert_eq!(
                serde_json::from_str::<Disturbance>(&json).unwrap(),
                disturbance
            );
        }
    }

    #[test]
    fn plainer_disturbances_end_somewhere() {
        let mut current =
            Disturbance::Act(Moment::Gate("g0".into()), Act::Signal(Signal::Terminate, 3));
        let mut rounds = 0;
        while let Some(next) = plainer(&current).pop() {
            current = next;
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }
}
