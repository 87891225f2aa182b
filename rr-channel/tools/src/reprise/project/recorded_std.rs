//! A `std` that records, for crates that are not edited.
//!
//! `rustc --extern std=` makes another crate the `std` of the one that is compiled. Ours is
//! `rr-channel-std`. It is built here, outside of the project's graph, because no package of the
//! project depends on it, and once for each compiler. The replacements of other crates
//! ([`patch`](crate::reprise::patch)) are in the graph, and use the same build of
//! `rr-channel-core`: a process has one session.
//!
//! Cargo gives the compiler `--target` for what becomes part of a program, and not for build
//! scripts and procedural macros, as long as it is told a target itself. A script that cargo calls
//! in place of the compiler tells them apart by that.
//!
//! Crates that make locks, channels or executors out of atomics and of `std` get the original
//! `std` ([`ORIGINAL`]).

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, ensure};
use cargo_metadata::Message;
use serde::{Deserialize, Serialize};

use super::cargo::cargo;
use crate::reprise::patch::{self, copy};

const SCRIPT: &str = include_str!("recorded_std.sh");

/// Packages that get the original `std`, as patterns of a shell. What their operations return
/// depends on atomics too, so the order of what they do with `std` is no order of the program's.
const ORIGINAL: &[&str] = &[
    "rr-channel*",
    "arc-swap",
    "async-channel",
    "async-executor",
    "async-lock",
    "async-std",
    "atomic-waker",
    "backtrace",
    "blocking",
    "concurrent-queue",
    "crossbeam*",
    "dashmap",
    "event-listener*",
    "flume",
    "futures-channel",
    "futures-executor",
    "futures-util",
    "getrandom",
    "ipc-channel",
    "jobserver",
    "kanal",
    "lock_api",
    "loom",
    "mio",
    "moka",
    "once_cell",
    "parking",
    "parking_lot*",
    "polling",
    "rayon*",
    "regex-automata",
    "sharded-slab",
    "signal-hook*",
    "smol",
    "spin",
    "thread_local",
    "tokio*",
    "tracing-core",
    "tracing-subscriber",
    "triomphe",
];

/// A built `std`, and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedStd {
    std: PathBuf,
    core: PathBuf,
    log: PathBuf,
    /// A hash of the libraries.
    hash: String,
}

/// The compiler of a project, and how cargo is called that builds with it.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// The program, and the directory that it is installed in.
    rustc: String,
    sysroot: PathBuf,
    /// The output of `rustc -vV`.
    version: String,
    /// Whether nothing may be downloaded.
    offline: bool,
}

impl Compiler {
    /// The one that `rustc` is in the current directory.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub(crate) fn ask(rustc: String, offline: bool) -> anyhow::Result<Self> {
        let ask = |question: &[&str]| {
            let output = Command::new(&rustc).args(question).output();
            let output = output.with_context(|| format!("cannot start {rustc}"))?;
            ensure!(
                output.status.success(),
                "`{rustc} {}` failed",
                question.join(" ")
            );
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = ask(&["-vV"])?;
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim_end());
        Ok(Compiler {
            rustc,
            sysroot,
            version,
            offline,
        })
    }

    /// A program of the same toolchain. One that is searched for may be another one in another
    /// directory.
    fn installed(&self, name: &str) -> Option<PathBuf> {
        Some(self.sysroot.join("bin").join(name)).filter(|program| program.exists())
    }

    /// A call of cargo that builds with it, in any directory.
    fn cargo(&self) -> Command {
        let mut command = match self.installed("cargo") {
            Some(installed) if env::var_os("CARGO").is_none() => Command::new(installed),
            _ => cargo(),
        };
        if self.offline {
            command.arg("--offline");
        }
        if self.rustc.contains('/') {
            command.env("RUSTC", &self.rustc);
        } else if let Some(rustc) = self.installed("rustc") {
            command.env("RUSTC", rustc);
        }
        command
    }
}

impl RecordedStd {
    /// The one for this compiler and the platform `target`, built if it is not there yet. `lock` is
    /// the project's lock file: what can be downloaded may be no more than what that names.
    ///
    /// # Errors
    /// If it cannot be built.
    pub(crate) fn get(
        compiler: &Compiler,
        target: &str,
        lock: &Path,
        otherwise: &Path,
    ) -> anyhow::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let files = patch::files_of_std()?;
        for (path, text) in &files {
            for part in [path, text] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hasher.update(compiler.version.as_bytes());
        hasher.update(target.as_bytes());
        let key = hasher.finalize().to_hex();
        let name = format!("std-{}", &key[..16]);
        let dirs = cache().into_iter().chain([otherwise.to_owned()]);
        let dirs: Vec<_> = dirs.map(|dir| dir.join(&name)).collect();
        let (dir, _guard) = match Place::among(&dirs)? {
            Place::Built(built) => return Ok(built),
            Place::Ours(dir, guard) => (dir, guard),
        };
        eprintln!("reprise: building a std that records, once for this compiler");
        let made = build(compiler, &files, target, lock, &dir)?;
        copy::write(&dir.join(BUILT), &serde_json::to_vec(&made)?)?;
        Ok(made)
    }

    /// The one that is complete in `dir`.
    fn built_in(dir: &Path) -> Option<Self> {
        let built: Self = serde_json::from_slice(&fs::read(dir.join(BUILT)).ok()?).ok()?;
        let is_complete = built.files().into_iter().all(Path::exists);
        is_complete.then_some(built)
    }

    fn files(&self) -> [&Path; 3] {
        [&self.std, &self.core, &self.log]
    }

    /// The directory of all that is linked with it.
    fn dependencies(&self) -> &Path {
        self.core.parent().unwrap_or(Path::new("."))
    }

    /// A name for builds with it, unlike those of other builds of it.
    pub(crate) fn name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.hash.as_bytes());
        hasher.update(SCRIPT.as_bytes());
        hasher.update(ORIGINAL.concat().as_bytes());
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// Makes the script below `dir`, which calls `chain` with the compiler's command line if the
    /// user has such a program already.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn script(&self, dir: &Path, chain: Option<&str>) -> anyhow::Result<PathBuf> {
        let text = self.script_text(chain)?;
        let path = dir.join("rustc-std");
        copy::write_script(&path, &text)?;
        Ok(path)
    }

    fn script_text(&self, chain: Option<&str>) -> anyhow::Result<String> {
        let chain = chain.map_or_else(String::new, |chain| quoted(chain) + " ");
        Ok(SCRIPT
            .replace("@DEPENDENCIES@", &quoted(text(self.dependencies())?))
            .replace("@CORE@", &quoted(text(&self.core)?))
            .replace("@LOG@", &quoted(text(&self.log)?))
            .replace("@STD@", &quoted(text(&self.std)?))
            .replace("@ORIGINAL@", &ORIGINAL.join(" | "))
            .replace("@CHAIN@", &chain))
    }

    /// The options with which rustdoc compiles the tests in documentation: it calls no script.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub(crate) fn rustdoc_options(&self) -> anyhow::Result<Vec<String>> {
        Ok(vec![
            "-L".to_owned(),
            format!("dependency={}", text(self.dependencies())?),
            "--extern".to_owned(),
            format!("std={}", text(&self.std)?),
        ])
    }
}

/// The file that says what is in its directory, once that is complete.
const BUILT: &str = "built.json";

/// A directory for a `std` that records.
#[derive(Debug)]
enum Place {
    /// It is there.
    Built(RecordedStd),
    /// It is to be made in this directory, which others leave alone as long as the file is open.
    Ours(PathBuf, File),
}

impl Place {
    /// The first of `dirs` that has it, or can be written to. A directory may have it that cannot:
    /// the home of another user, or of an image.
    fn among(dirs: &[PathBuf]) -> anyhow::Result<Self> {
        let mut problem = None;
        for dir in dirs {
            let lock = dir.join("lock");
            let guard = match fs::create_dir_all(dir).and_then(|()| File::create(&lock)) {
                Ok(guard) => guard,
                Err(error) => match RecordedStd::built_in(dir) {
                    Some(built) => return Ok(Place::Built(built)),
                    None => {
                        problem = Some(
                            anyhow!(error).context(format!("cannot write {}", lock.display())),
                        );
                        continue;
                    }
                },
            };
            guard
                .lock()
                .with_context(|| format!("cannot lock {}", dir.display()))?;
            return Ok(match RecordedStd::built_in(dir) {
                Some(built) => Place::Built(built),
                None => Place::Ours(dir.clone(), guard),
            });
        }
        Err(problem.unwrap_or_else(|| anyhow!("there is no directory for a std that records")))
    }
}

/// Whether a package gets the original `std`.
pub(crate) fn has_original(package: &str) -> bool {
    ORIGINAL.iter().any(|pattern| {
        pattern
            .strip_suffix('*')
            .map_or(package == *pattern, |start| package.starts_with(start))
    })
}

/// The user's directory for what can be made again.
fn cache() -> Option<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let given = given.filter(|dir| dir.is_absolute());
    let dir = given.or_else(|| Some(env::home_dir()?.join(".cache")))?;
    let dir = dir.join("cargo-reprise");
    // A user may have no home.
    fs::create_dir_all(&dir).ok()?;
    Some(dir)
}

/// The profile for releases, as it is if nobody has configured it.
const PROFILE: &[&str] = &[
    "opt-level=3",
    "debug=false",
    "debug-assertions=false",
    "overflow-checks=false",
    "lto=false",
    "panic=\"unwind\"",
    "incremental=false",
    "codegen-units=16",
    "rpath=false",
];

fn build(
    compiler: &Compiler,
    files: &[(String, String)],
    target: &str,
    lock: &Path,
    dir: &Path,
) -> anyhow::Result<RecordedStd> {
    patch::write_files(dir, files)?;
    let package = dir.join("rr-channel-std");
    if let Ok(bytes) = fs::read(lock) {
        copy::write(&package.join("Cargo.lock"), &bytes)?;
    }
    // It is for all projects, so none of them says how: their configuration does not hold here.
    // But a project may know better where packages are to be had, or how to link.
    let mut output = call(compiler, &package, target, dir)
        .current_dir(dir)
        .env("RUSTC_WRAPPER", "")
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        eprintln!("reprise: trying again with the configuration of the project");
        output = call(compiler, &package, target, dir)
            .output()
            .context("cannot start cargo")?;
    }
    ensure!(
        output.status.success(),
        "the std that records could not be built; without `--std`, locks and channels of std are \
         not recorded"
    );
    let mut libraries = Vec::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        if let Message::CompilerArtifact(artifact) = message? {
            let rlib =
                |file: &&cargo_metadata::camino::Utf8PathBuf| file.extension() == Some("rlib");
            let rlib = artifact.filenames.iter().find(rlib).cloned();
            libraries.extend(rlib.map(|path| (artifact.target.name, path)));
        }
    }
    let find = |name: &str| {
        let found = libraries.iter().find(|(crate_name, _)| crate_name == name);
        let (_, path) = found.with_context(|| format!("cargo built no {name}"))?;
        Ok::<_, anyhow::Error>(path.clone().into_std_path_buf())
    };
    let mut made = RecordedStd {
        std: find("rr_channel_std")?,
        core: find("rr_channel_core")?,
        log: find("rr_channel_log")?,
        hash: String::new(),
    };
    let mut hasher = blake3::Hasher::new();
    for file in made.files() {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        hasher.update(&bytes);
    }
    made.hash = hasher.finalize().to_hex().to_string();
    Ok(made)
}

/// The call of cargo that builds `package` below `dir`.
fn call(compiler: &Compiler, package: &Path, target: &str, dir: &Path) -> Command {
    let to = dir.join("target");
    let build_dir = serde_json::Value::from(to.to_string_lossy());
    let mut command = compiler.cargo();
    command
        .args(["build", "--release", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .args(["--target", target])
        .arg("--target-dir")
        .arg(&to)
        .arg("--config")
        .arg(format!("build.build-dir={build_dir}"))
        // A project may use other builds of the same packages, and link with bitcode.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            "-Cmetadata=rr-channel\u{1f}-Cembed-bitcode=yes",
        )
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .stderr(Stdio::inherit());
    for setting in PROFILE {
        command
            .arg("--config")
            .arg(format!("profile.release.{setting}"));
    }
    command
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("the path {} is not UTF-8", path.display()))
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> RecordedStd {
        RecordedStd {
            std: "/a b/librr_channel_std.rlib".into(),
            core: "/a b/librr_channel_core-1.rlib".into(),
            log: "/a b/librr_channel_log-1.rlib".into(),
            hash: String::new(),
        }
    }

    /// The call that the script makes for a crate of `package`, by arguments.
    fn called(package: &str, args: &[&str], chain: Option<&str>) -> Vec<String> {
        let text = made().script_text(chain).unwrap();
        let output = Command::new("sh")
            .args(["-c", &text, "rustc-std", "printf", r"%s\n"])
            .args(args)
            .env("CARGO_PKG_NAME", package)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_used_if_it_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["home", "project"].map(|name| dir.path().join(name));
        // Nobody opens a directory for writing.
        fs::create_dir_all(dirs[0].join("lock")).unwrap();
        // The next one waits as long as this one is there.
        let in_project = |place| matches!(place, Place::Ours(dir, _) if dir == dirs[1]);
        assert!(in_project(Place::among(&dirs).unwrap()));
        assert!(Place::among(&dirs[..1]).is_err());

        let library = dirs[0].join("library");
        let built = RecordedStd {
            std: library.clone(),
            core: library.clone(),
            log: library.clone(),
            hash: String::new(),
        };
        fs::write(dirs[0].join(BUILT), serde_json::to_vec(&built).unwrap()).unwrap();
        assert!(in_project(Place::among(&dirs).unwrap()));
        fs::write(library, "").unwrap();
        let place = Place::among(&dirs).unwrap();
        assert!(matches!(place, Place::Built(found) if found == built));
    }

    const FOR_TARGET: &[&str] = &["--crate-name", "a", "--target", "t"];

    #[test]
    fn crates_of_programs_get_it() {
        let called = called("a", FOR_TARGET, None);
        assert_eq!(called[..4], *FOR_TARGET);
        assert_eq!(
            called[4..],
            [
                "-L",
                "dependency=/a b",
                "--extern",
                "std=/a b/librr_channel_std.rlib"
            ]
        );
    }

    #[test]
    fn crates_that_the_build_runs_do_not() {
        let args = &["--crate-name", "build_script_build", "--crate-type", "bin"];
        assert_eq!(called("a", args, None), args);
    }

    #[test]
    fn crates_made_of_atomics_have_the_original() {
        for package in ["tokio", "tokio-util", "once_cell", "rr-channel-parking_lot"] {
            assert!(has_original(package));
            assert_eq!(called(package, FOR_TARGET, None).len(), 6, "{package}");
        }
        assert!(!has_original("once_cell_try"));
    }

    #[test]
    fn replacements_share_its_session() {
        let called = called("rr-channel", FOR_TARGET, None);
        assert_eq!(
            called[6..],
            [
                "--extern",
                "rr_channel_core=/a b/librr_channel_core-1.rlib",
                "--extern",
                "rr_channel_log=/a b/librr_channel_log-1.rlib"
            ]
        );
    }

    #[test]
    fn the_wrapper_of_the_user_is_called() {
        let text = made().script_text(Some("/it's/sccache")).unwrap();
        assert!(
            text.ends_with("exec '/it'\\''s/sccache' \"$@\"\n"),
            "{text}"
        );
    }
}
