//! Sources of tests: their names, and how each is run.

mod cargo;
mod condition;
mod manifest;
mod metadata;
mod nextest;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

pub(crate) use self::cargo::COLLECT;
pub(crate) use self::cargo::collect;
use self::condition::Properties;
use self::metadata::Metadata;
use crate::model::outcome::Outcome;
use crate::platform::interrupt::Interrupt;
use crate::sandbox::guard::{self, Take};
use crate::sandbox::{Ending, Job};

/// A test, and how to run it.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name, which no other test of the suite has.
    pub name: String,
    /// The command that runs it.
    pub job: Job,
    /// The digest of what decides what is run (the program's content, and the arguments), and
    /// what is expected, if that is no success.
    pub subject: String,
    /// The outcome that its suite expects.
    pub expected: Expected,
    /// How many times the usual time it may take.
    pub patience: u32,
    /// The executable that runs it in one process with others, if there is one.
    pub executable: Option<Executable>,
}

/// An executable of Rust's test harness, and a test in it.
#[derive(Debug, Clone)]
pub struct Executable {
    /// The executable, with arguments for all of its tests.
    pub job: Job,
    /// The digest of both.
    pub subject: String,
    /// The test's name among them.
    pub name: String,
    /// How many of its tests run at the same time, if the user says so.
    pub threads: Option<usize>,
}

/// The expectation of a suite for a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expected {
    /// That it succeeds.
    #[default]
    Success,
    /// That it ends by itself, and does not succeed.
    Failure,
    /// That it crashes.
    Crash,
    /// That it does not end.
    Timeout,
}

impl Expected {
    /// The outcome of a run that ended like this; `None` if it says nothing about the test.
    pub fn outcome_of(self, ending: &Ending) -> Option<Outcome> {
        let (was, outcome) = match ending {
            Ending::Exit(0) => (Expected::Success, Outcome::Unexpected),
            Ending::Exit(_) => (Expected::Failure, Outcome::Unexpected),
            Ending::Signal(_) | Ending::Lost => (Expected::Crash, Outcome::Crash),
            Ending::TimedOut => (Expected::Timeout, Outcome::Timeout),
            Ending::Interrupted | Ending::NotStarted(_) => return None,
        };
        Some(if was == self {
            Outcome::Expected
        } else {
            outcome
        })
    }
}

/// Options that say where tests come from.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Tests")]
pub struct Source {
    /// Test names, one a line (`-`: standard input); COMMAND runs one, `{}` being its name
    #[arg(long, value_name = "FILE", group = "names")]
    tests: Option<PathBuf>,
    /// Test names from a manifest of web platform tests (MANIFEST.json); `{}` is the URL
    #[arg(long, value_name = "FILE", group = "names")]
    manifest: Option<PathBuf>,
    /// Directory of .ini files: expected outcomes of the manifest's tests, and which are disabled
    #[arg(long, value_name = "DIR", requires = "manifest")]
    metadata: Option<PathBuf>,
    /// A property for the conditions there, as `product=servo`; may be given again
    #[arg(long = "property", value_name = "NAME=VALUE", requires = "metadata", value_parser = property)]
    properties: Vec<(String, String)>,
    /// COMMAND is a test executable of Rust's, with options: its tests are run one by one
    #[arg(long, group = "names")]
    executable: bool,
    /// Only tests whose names contain this; may be given again
    #[arg(long = "only", value_name = "TEXT")]
    only: Vec<String>,
    /// A crate that is not replaced to record cargo's tests; may be given again
    #[arg(long, value_name = "CRATE")]
    except: Vec<String>,
    /// Also record the locks, channels and threads of std, in cargo's tests
    #[arg(long)]
    std: bool,
    /// `cargo test ...`, `cargo nextest run ...`, or what runs one test
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How cargo is called to find tests.
pub(crate) trait Cargo {
    /// A `cargo test` with these options that calls `runner` with each executable.
    fn test(&self, args: &[String], runner: &[String]) -> anyhow::Result<std::process::Command>;

    /// A `cargo nextest list` with these options, and these of the user's.
    fn nextest_list(&self, options: &[&str], args: &[String]) -> std::process::Command;
}

/// How tests are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// A directory for temporary files.
    pub scratch: &'a Path,
    /// Until when.
    pub interrupt: &'a Interrupt,
}

impl Source {
    /// A source that runs the command.
    pub fn of_command(command: Vec<String>) -> Source {
        Source {
            command,
            ..Source::default()
        }
    }

    /// Crates that are left as they are.
    pub(crate) fn except(&self) -> &[String] {
        &self.except
    }

    /// Whether `std` is recorded.
    pub(crate) const fn records_std(&self) -> bool {
        self.std
    }

    /// The options of `cargo test`, if that is where the tests come from.
    pub(crate) fn of_cargo(&self) -> Option<&[String]> {
        match self.command.as_slice() {
            [cargo, test, args @ ..]
                if self.is_plain() && is_cargo(cargo) && matches!(test.as_str(), "test" | "t") =>
            {
                Some(args)
            }
            _ => None,
        }
    }

    /// The options of `cargo nextest run`, if that is where they come from.
    pub(crate) fn of_nextest(&self) -> Option<&[String]> {
        match self.command.as_slice() {
            [cargo, nextest, args @ ..]
                if self.is_plain() && is_cargo(cargo) && nextest == "nextest" =>
            {
                Some(match args {
                    [first, rest @ ..] if matches!(first.as_str(), "run" | "r" | "list") => rest,
                    rest => rest,
                })
            }
            _ => None,
        }
    }

    /// Whether cargo or nextest builds the tests.
    pub(crate) fn is_of_cargo(&self) -> bool {
        self.of_cargo().or_else(|| self.of_nextest()).is_some()
    }

    const fn is_plain(&self) -> bool {
        self.tests.is_none() && self.manifest.is_none() && !self.executable
    }

    /// All tests, as they are.
    ///
    /// # Errors
    /// If there are none, or they cannot be built or listed, or that is
    /// [`Interrupted`](crate::platform::interrupt::Interrupted).
    pub fn tests(&self, search: Search<'_>) -> anyhow::Result<Vec<Test>> {
        self.tests_by(&cargo::Plain, search)
    }

    /// All tests, with this way to call cargo.
    ///
    /// # Errors
    /// As [`tests`](Source::tests).
    pub(crate) fn tests_by(
        &self,
        cargo: &dyn Cargo,
        search: Search<'_>,
    ) -> anyhow::Result<Vec<Test>> {
        ensure!(
            !self.command.is_empty(),
            "there is no command: give one after `--`"
        );
        let mut tests = match (&self.tests, &self.manifest) {
            (Some(names), _) => self.named(&read_names(names)?)?,
            (_, Some(manifest)) => self.of_manifest(manifest)?,
            _ if self.executable => executable_tests(&self.command, search.interrupt)?,
            _ => match (self.of_cargo(), self.of_nextest()) {
                (Some(args), _) => cargo::tests(cargo, args, search)?,
                (_, Some(args)) => {
                    let list = cargo.nextest_list(&nextest::OPTIONS, args);
                    nextest::tests(&list, search.interrupt)?
                }
                _ => vec![self.command_itself()?],
            },
        };
        tests.retain(|test| {
            self.only.is_empty()
                || self
                    .only
                    .iter()
                    .any(|text| test.name.contains(text.as_str()))
        });
        ensure!(!tests.is_empty(), "there are no tests");
        let mut seen = BTreeMap::new();
        for test in &tests {
            if seen.insert(&test.name, ()).is_some() {
                bail!("two tests have the name {}", test.name);
            }
        }
        Ok(tests)
    }

    fn command_itself(&self) -> anyhow::Result<Test> {
        let [program, args @ ..] = self.command.as_slice() else {
            bail!("there is no command");
        };
        let job = Job::new(find_program(program)?, args);
        Ok(Test {
            name: self.command.join(" "),
            subject: subject(&mut Digests::default(), &job)?,
            job,
            expected: Expected::Success,
            patience: 1,
            executable: None,
        })
    }

    /// Tests that the command runs, in which `{}` is the name.
    fn named(&self, names: &[String]) -> anyhow::Result<Vec<Test>> {
        let named = names.iter().map(|name| manifest::Entry {
            name: name.clone(),
            expected: Expected::Success,
            patience: 1,
        });
        self.entries(named)
    }

    fn of_manifest(&self, manifest: &Path) -> anyhow::Result<Vec<Test>> {
        let properties = Properties::with(&self.properties);
        let metadata = self.metadata.as_deref();
        let metadata = metadata.map(|dir| Metadata::new(dir, &properties));
        self.entries(manifest::read(manifest, metadata)?)
    }

    fn entries(
        &self,
        entries: impl IntoIterator<Item = manifest::Entry>,
    ) -> anyhow::Result<Vec<Test>> {
        ensure!(
            self.command.iter().any(|word| word.contains("{}")),
            "the command has no `{{}}`, which stands for the name of a test"
        );
        let mut digests = Digests::default();
        let mut tests = Vec::new();
        for entry in entries {
            let words: Vec<String> = self
                .command
                .iter()
                .map(|word| word.replace("{}", &entry.name))
                .collect();
            let [program, args @ ..] = words.as_slice() else {
                continue;
            };
            let job = Job::new(find_program(program)?, args);
            let mut subject = subject(&mut digests, &job)?;
            // What a run came to when something else was expected does not count.
            match entry.expected {
                Expected::Success => {}
                Expected::Failure => subject += "-failure",
                Expected::Crash => subject += "-crash",
                Expected::Timeout => subject += "-timeout",
            }
            tests.push(Test {
                name: entry.name,
                subject,
                job,
                expected: entry.expected,
                patience: entry.patience,
                executable: None,
            });
        }
        Ok(tests)
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no `=`")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn is_cargo(word: &str) -> bool {
    Path::new(word)
        .file_name()
        .is_some_and(|name| name == "cargo")
}

fn read_names(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("reading names of tests")?
    } else {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
    };
    let lines = text.lines().map(str::trim);
    Ok(lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

/// The tests of an executable of Rust's test harness, given with options.
fn executable_tests(command: &[String], interrupt: &Interrupt) -> anyhow::Result<Vec<Test>> {
    let [program, args @ ..] = command else {
        bail!("there is no executable");
    };
    let program = find_program(program)?;
    let job = Job::new(program, Vec::<OsString>::new());
    libtest(&mut Digests::default(), &job, args, "", interrupt)
}

/// The tests that an executable of Rust's test harness lists with these arguments; the
/// names get the prefix. `job` is the executable without arguments.
fn libtest(
    digests: &mut Digests,
    job: &Job,
    args: &[String],
    prefix: &str,
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Test>> {
    let list = |args: &[String]| -> anyhow::Result<Vec<String>> {
        let program = job.program.display();
        let mut command = std::process::Command::new(&job.program);
        command
            .args(args)
            .args(["--list", "--format", "terse"])
            .envs(job.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &job.dir {
            command.current_dir(dir);
        }
        let output = guard::output(&command, Take::All, interrupt)
            .with_context(|| format!("cannot start {program}"))?;
        ensure!(
            output.status.success(),
            "{program} does not list its tests ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        let listed = String::from_utf8_lossy(&output.stdout);
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let ignored = args
        .iter()
        .any(|arg| arg == "--ignored" || arg == "--include-ignored");
    let mut names = list(args)?;
    if !ignored {
        let marked = list(&[args, &["--ignored".to_owned()]].concat())?;
        names.retain(|name| !marked.contains(name));
    }
    let mut whole = job.clone();
    if ignored {
        whole.args.push("--include-ignored".into());
    }
    let whole_subject = subject(digests, &whole)?;
    let threads = threads(args);
    let mut tests = Vec::new();
    for name in names {
        let mut job = job.clone();
        job.args = vec![name.clone().into(), "--exact".into(), "--nocapture".into()];
        job.args.extend(whole.args.iter().cloned());
        tests.push(Test {
            name: format!("{prefix}{name}"),
            subject: subject(digests, &job)?,
            job,
            expected: Expected::Success,
            patience: 1,
            executable: Some(Executable {
                job: whole.clone(),
                subject: whole_subject.clone(),
                name,
                threads,
            }),
        });
    }
    Ok(tests)
}

/// How many tests at the same time the user wants, by options or else the environment.
fn threads(args: &[String]) -> Option<usize> {
    const OPTION: &str = "--test-threads";
    let with_equals = args
        .iter()
        .find_map(|arg| arg.strip_prefix(OPTION)?.strip_prefix('='));
    let apart = || {
        let at = args.iter().position(|arg| arg == OPTION)?;
        args.get(at + 1).map(String::as_str)
    };
    let given = with_equals.or_else(apart).map(str::to_owned);
    let given = given.or_else(|| std::env::var("RUST_TEST_THREADS").ok());
    given?.parse().ok()
}

/// The program as a path that holds in any directory.
pub(crate) fn find_program(program: &str) -> anyhow::Result<PathBuf> {
    let found = if program.contains('/') {
        let path = std::path::absolute(program)?;
        path.is_file().then_some(path)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join(program))
            .find(|path| path.is_file())
    };
    found.with_context(|| format!("there is no program {program}"))
}

/// Digests of programs, each computed once.
type Digests = BTreeMap<PathBuf, String>;

/// The digest of what a job runs.
fn subject(digests: &mut Digests, job: &Job) -> anyhow::Result<String> {
    let program = match digests.get(&job.program) {
        Some(digest) => digest.clone(),
        None => {
            let mut hasher = blake3::Hasher::new();
            fs::File::open(&job.program)
                .and_then(|file| hasher.update_reader(file).map(|_| ()))
                .with_context(|| format!("cannot read {}", job.program.display()))?;
            let digest = hasher.finalize().to_hex().to_string();
            digests.insert(job.program.clone(), digest.clone());
            digest
        }
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(program.as_bytes());
    for arg in &job.args {
        hasher.update(&[0]);
        hasher.update(arg.as_encoded_bytes());
    }
    Ok(hasher.finalize().to_hex()[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(scratch: &Path) -> Search<'_> {
        static NEVER: Interrupt = Interrupt::never();
        Search {
            scratch,
            interrupt: &NEVER,
        }
    }

    fn source(command: &[&str]) -> Source {
        Source::of_command(command.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn the_expectation_decides_the_outcome_of_an_ending() {
        use Ending::{Exit, Interrupted, Signal, TimedOut};
        let check = |expected: Expected, ending: &Ending, outcome| {
            assert_eq!(
                expected.outcome_of(ending),
                outcome,
                "{expected:?} {ending:?}"
            );
        };
        check(Expected::Success, &Exit(0), Some(Outcome::Expected));
        check(Expected::Success, &Exit(1), Some(Outcome::Unexpected));
        check(Expected::Success, &Signal(6), Some(Outcome::Crash));
        check(Expected::Success, &TimedOut, Some(Outcome::Timeout));
        check(Expected::Failure, &Exit(0), Some(Outcome::Unexpected));
        check(Expected::Failure, &Exit(1), Some(Outcome::Expected));
        check(Expected::Crash, &Signal(11), Some(Outcome::Expected));
        check(Expected::Timeout, &TimedOut, Some(Outcome::Expected));
        check(Expected::Success, &Interrupted, None);
    }

    #[test]
    fn a_command_is_one_test() {
        let dir = tempfile::tempdir().unwrap();
        let tests = source(&["true", "x"]).tests(search(dir.path())).unwrap();
        assert_eq!(tests.len(), 1);
        assert_eq!(tests[0].name, "true x");
    }

    #[test]
    fn names_take_their_place_in_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let names = dir.path().join("names");
        fs::write(&names, "# comment\none\n\n two \n").unwrap();
        let mut source = source(&["true", "--run={}"]);
        source.tests = Some(names.clone());
        let tests = source.tests(search(dir.path())).unwrap();
        let shown: Vec<_> = tests
            .iter()
            .map(|test| (&*test.name, &test.job.args[0]))
            .collect();
        assert_eq!(
            shown,
            [
                ("one", &OsString::from("--run=one")),
                ("two", &OsString::from("--run=two"))
            ]
        );
        assert_ne!(tests[0].subject, tests[1].subject);
        source.only = vec!["w".to_owned()];
        assert_eq!(source.tests(search(dir.path())).unwrap().len(), 1);
    }

    #[test]
    fn tests_of_a_manifest_have_their_own_expectations() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("dom")).unwrap();
        let variants =
            r#"["d1", ["dom/a.html?1", {}], ["dom/a.html?2", {}], ["dom/a.html?3", {}]]"#;
        let items = format!(r#"{{"testharness": {{"dom": {{"a.html": {variants}}}}}}}"#);
        let manifest = format!(r#"{{"version": 8, "items": {items}}}"#);
        fs::write(path("MANIFEST.json"), manifest).unwrap();
        let metadata = "[a.html?1]\n  expected:\n    if product == \"servo\": CRASH\n    FAIL\n\
                        [a.html?2]\n  disabled: it never ends\n";
        fs::write(path("dom/a.html.ini"), metadata).unwrap();
        let mut source = source(&["true", "{}"]);
        source.manifest = Some(path("MANIFEST.json"));
        source.metadata = Some(dir.path().to_owned());
        let error = format!("{:#}", source.tests(search(dir.path())).unwrap_err());
        assert!(error.contains("`--property product=VALUE`"), "{error}");
        source.properties = vec![property("product=servo").unwrap()];
        let tests = source.tests(search(dir.path())).unwrap();
        assert!(tests[0].subject.ends_with("-crash"));
        let shown: Vec<_> = tests
            .iter()
            .map(|test| (&*test.name, test.expected))
            .collect();
        assert_eq!(
            shown,
            [
                ("/dom/a.html?1", Expected::Crash),
                ("/dom/a.html?3", Expected::Success)
            ]
        );
    }

    #[test]
    fn impossible_sources_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = |source: &Source| source.tests(search(dir.path())).unwrap_err().to_string();
        assert_eq!(
            error(&source(&["no-such-program"])),
            "there is no program no-such-program"
        );
        let names = dir.path().join("names");
        fs::write(&names, "one\none\n").unwrap();
        let mut twice = source(&["true", "{}"]);
        twice.tests = Some(names.clone());
        assert_eq!(error(&twice), "two tests have the name one");
        let mut nowhere = source(&["true"]);
        nowhere.tests = Some(names);
        assert!(error(&nowhere).starts_with("the command has no `{}`"));
    }
}
