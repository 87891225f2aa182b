//! `cargo reprise` on programs that let rayon do their work: those of the package in
//! `pooled`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// A copy of the package, which is built with what the workspace's lock file names.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tools = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs::create_dir(dir.path().join("src")).unwrap();
        for file in ["Cargo.toml", "src/lib.rs"] {
            let pooled = tools.join("tests/pooled");
            fs::copy(pooled.join(file), dir.path().join(file)).unwrap();
        }
        let lock = tools.join("../../Cargo.lock");
        fs::copy(lock, dir.path().join("Cargo.lock")).unwrap();
        Project { dir }
    }

    #[track_caller]
    fn reprise(&self, args: &[&str]) -> String {
        run(&mut self.command(args))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-reprise"));
        command
            .arg("reprise")
            .args(args)
            .current_dir(self.dir.path())
            .env("CARGO", env!("CARGO"))
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", self.dir.path().join("target"))
            .env("OUTCOMES", self.dir.path().join("target/outcomes"))
            .env_remove("RR_CHANNEL")
            .env_remove("DIVERGE");
        command
    }

    /// What the runs since this was last asked have seen.
    fn take_outcomes(&self) -> Vec<String> {
        let path = self.dir.path().join("target/outcomes");
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

const PROGRAMS: &[&str] = &[
    "par_iter_sends",
    "par_iter_locks",
    "splits",
    "joins",
    "joins_that_panic",
    "scopes",
    "scopes_in_order",
    "spawns",
    "nested",
    "across_pools",
    "waits",
    "yields",
];

/// How often is set by `RR_CHANNEL_TEST_RUNS` (recordings by replays of each).
#[test]
fn work_of_a_pool_is_replayed() {
    let runs = std::env::var("RR_CHANNEL_TEST_RUNS").unwrap_or_default();
    let (recordings, replays) = runs
        .split_once('x')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
        .unwrap_or((2, 3));
    let project = Project::new();
    fs::create_dir(project.dir.path().join("target")).unwrap();
    for program in PROGRAMS {
        let mut outcomes = HashSet::new();
        for number in 0..recordings {
            let mut args = vec!["test", "-q", "--", "--exact", program];
            if number % 2 == 1 {
                args.insert(1, "--chaos");
            }
            project.reprise(&args);
            let recorded = project.take_outcomes();
            assert_eq!(recorded.len(), 1);
            let said = project.reprise(&["replay", "--times", &replays.to_string()]);
            // Whether every event was used is not asked: nobody waits for the threads of a
            // pool that was dropped, so the process may end before the last one of them.
            let faithful =
                format!("{replays} of {replays} replays ended as recorded, 0 desynchronised");
            assert!(said.contains(&faithful), "{program}: {said}");
            let outcome = recorded[0].clone();
            assert_eq!(
                project.take_outcomes(),
                vec![outcome.clone(); replays],
                "{program}"
            );
            outcomes.insert(outcome);
        }
        eprintln!(
            "{program}: {} outcomes in {recordings} recordings",
            outcomes.len()
        );
    }

    // Threads of a pool that leave their logs do what there is to do.
    project.reprise(&["test", "-q", "--", "--exact", "diverges"]);
    assert_eq!(project.take_outcomes(), ["(220, 20090)"]);
    let said = run(project.command(&["replay"]).env("DIVERGE", "1"));
    assert!(said.contains("1 desynchronised"), "{said}");
    assert_eq!(project.take_outcomes(), ["(77, 2436)"]);
}
