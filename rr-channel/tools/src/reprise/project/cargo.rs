//! Calls cargo on a project without leaving traces in it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use cargo_metadata::{Metadata, Package};

use super::configuration::{Configuration, Runner};
use super::coverage::Coverage;
use super::fixed;
use super::metadata;
use super::recorded_std::{Compiler, RecordedStd};
use crate::reprise::patch::crates::{self, Crate};
use crate::reprise::patch::manifest::Replaced;
use crate::reprise::patch::{self, copy};

/// Makes a stable cargo accept `-Z` options; rust-analyzer uses it for the same purpose.
/// Unlike `RUSTC_BOOTSTRAP` it means nothing to compilers and build scripts.
pub(crate) const CHANNEL: &str = "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS";

/// Those of a user's arguments that concern more than one call of cargo.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// Where the project is, its configuration, `--offline`: for every call.
    pass: Vec<String>,
    /// The project's lock file must need no change, before it is patched.
    locked: bool,
    targets: Vec<String>,
    target_dir: Option<PathBuf>,
    /// Crates that are left as they are.
    except: Vec<String>,
    /// Whether `std` is recorded.
    std: bool,
}

/// The option of our own that is kept among those of cargo's, for a replay.
pub(crate) const EXCEPT: &str = "--except";

/// The same for a `std` that records.
pub(crate) const STD: &str = "--std";

impl Shared {
    /// Takes what is shared out of the arguments of a cargo command; the rest stays.
    pub(crate) fn take(args: &mut Vec<String>) -> Shared {
        let mut shared = Shared::default();
        let mut rest = Vec::new();
        let mut given = std::mem::take(args).into_iter();
        while let Some(arg) = given.next() {
            if arg == "--" {
                rest.push(arg);
                rest.extend(given);
                break;
            }
            let (name, attached) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_owned(), Some(value.to_owned()))
                }
                _ => (arg, None),
            };
            match name.as_str() {
                "--locked" => shared.locked = true,
                "--offline" => shared.pass.push(name),
                "--frozen" => {
                    shared.locked = true;
                    shared.pass.push("--offline".to_owned());
                }
                "--manifest-path" | "--config" => {
                    shared.pass.push(name);
                    shared.pass.extend(attached.or_else(|| given.next()));
                }
                "--target-dir" => {
                    shared.target_dir = attached.or_else(|| given.next()).map(PathBuf::from);
                }
                STD => shared.std = true,
                EXCEPT => shared.except.extend(attached.or_else(|| given.next())),
                "--target" => {
                    let value = attached.or_else(|| given.next());
                    shared.targets.extend(value.clone());
                    rest.push(name);
                    rest.extend(value);
                }
                _ => rest.push(match attached {
                    Some(value) => format!("{name}={value}"),
                    None => name,
                }),
            }
        }
        *args = rest;
        shared
    }
}

/// A project, and where what is made for it is kept.
#[derive(Debug)]
pub(crate) struct Project {
    shared: Shared,
    cargo: Version,
    /// The project's own lock file, which is only read.
    lock: PathBuf,
    /// The directory of everything that is made.
    pub(crate) dir: PathBuf,
}

/// How to call cargo so that it builds the patched project.
#[derive(Debug)]
pub(crate) struct Patched {
    pub(crate) coverage: Coverage,
    options: Vec<String>,
    variables: Vec<(&'static str, OsString)>,
    runners: Vec<Runner>,
}

impl Project {
    /// Finds the project that cargo finds with the same arguments.
    ///
    /// # Errors
    /// If there is none, or no cargo that can be used.
    pub(crate) fn find(shared: Shared) -> anyhow::Result<Self> {
        let mut project = Project {
            shared,
            cargo: Version::ask()?,
            lock: PathBuf::new(),
            dir: PathBuf::new(),
        };
        let metadata = project.metadata(&["--no-deps".to_owned()])?;
        project.lock = metadata
            .workspace_root
            .join("Cargo.lock")
            .into_std_path_buf();
        let target = match &project.shared.target_dir {
            Some(dir) => std::path::absolute(dir)?,
            None => metadata.target_directory.into_std_path_buf(),
        };
        project.dir = dir_below(&target, metadata.workspace_root.as_std_path());
        Ok(project)
    }

    /// Cargo's `subcommand`, of one or more words, on the project, with `options`.
    fn command(&self, subcommand: &str, options: &[String]) -> Command {
        let mut command = cargo();
        command
            .args(subcommand.split(' '))
            .args(&self.shared.pass)
            .args(options);
        if !self.cargo.has_lockfile_path() {
            // Other programs give only a part of the cargos that they call a `-Z`, but all of
            // them the configuration.
            if subcommand.contains(' ') {
                command.args(["--config", "unstable.lockfile-path=true"]);
            } else {
                command.arg("-Zlockfile-path");
            }
            command.env(CHANNEL, "nightly");
        }
        command
    }

    fn metadata(&self, options: &[String]) -> anyhow::Result<Metadata> {
        let mut command = self.command("metadata", options);
        command.arg("--format-version=1");
        // Other platforms' packages may never have been downloaded.
        for target in self.shared.targets.iter().chain([&self.cargo.host]) {
            command.args(["--filter-platform", target]);
        }
        let output = command.output().context("cannot start cargo")?;
        ensure!(
            output.status.success(),
            "`cargo metadata` failed:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        serde_json::from_slice(&output.stdout).context("cannot read the output of `cargo metadata`")
    }

    /// Where the patch lies, as long as nobody else works there. Other patches lie elsewhere,
    /// because cargo builds one when the lock is free again.
    fn patch_dir(&self) -> anyhow::Result<(PathBuf, File)> {
        let mut name = "patch".to_owned();
        if self.shared.std {
            name += "-std";
        }
        if !self.shared.except.is_empty() {
            let hash = blake3::hash(self.shared.except.join(" ").as_bytes()).to_hex();
            name += &format!("-{}", &hash[..8]);
        }
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let guard = File::create(dir.join("lock"));
        let guard = guard.with_context(|| format!("cannot write in {}", dir.display()))?;
        guard
            .lock()
            .with_context(|| format!("cannot lock {}", dir.display()))?;
        Ok((dir, guard))
    }

    /// The project as it is, with all its features.
    ///
    /// # Errors
    /// If cargo cannot tell.
    pub(crate) fn plain(&self) -> anyhow::Result<Metadata> {
        let (dir, _guard) = self.patch_dir()?;
        self.plain_in(&dir)
    }

    /// The coverage of the project.
    pub(crate) fn coverage(&self, plain: &Metadata) -> Coverage {
        Coverage::of(plain, &self.shared.except, self.shared.std)
    }

    fn plain_in(&self, dir: &Path) -> anyhow::Result<Metadata> {
        let lock = plain_lock(dir);
        copy_if_present(&self.lock, &lock)?;
        let mut options = vec!["--all-features".to_owned()];
        options.extend(lock_options(&lock));
        if self.shared.locked {
            options.push("--locked".to_owned());
        }
        self.metadata(&options)
    }

    /// Patches the project's dependencies: makes the crates and the lock file that
    /// the returned way to call cargo uses.
    ///
    /// # Errors
    /// If there is nothing to patch, or the patch could not be made or was not used.
    pub(crate) fn patch(&self) -> anyhow::Result<Patched> {
        let (dir, _guard) = self.patch_dir()?;
        let plain = self.plain_in(&dir)?;
        let replaced = replaced(&plain, &self.shared)?;
        let made = patch::generate(&dir, &replaced, self.shared.std)?;

        let lock = dir.join("Cargo.lock");
        copy_if_changed(&plain_lock(&dir), &lock)?;
        let mut options = lock_options(&lock);
        let mut patches = Vec::new();
        for (package, made) in replaced.iter().zip(&made) {
            let key = format!("patch.crates-io.{}.path", package.of.name);
            patches.push(config(&key, &made.to_string_lossy())?);
        }
        let mut asked = options.clone();
        asked.extend(patches.iter().flatten().cloned());
        asked.push("--all-features".to_owned());
        let patched = self.metadata(&asked)?;
        for ((package, made), patch) in replaced.iter().zip(&made).zip(patches) {
            if is_used(&patched, package.of, made)? {
                options.extend(patch);
            }
        }

        // It does for every message what upstream's crates do in a few instructions, and is
        // none of what the project wants to debug.
        let ours: &[&str] = match self.shared.std {
            true if replaced.is_empty() => &[],
            true => &["rr-channel"],
            false => &["rr-channel", "rr-channel-core"],
        };
        for package in ours {
            options.push("--config".to_owned());
            options.push(format!("profile.dev.package.{package}.opt-level=3"));
        }
        let mut variables = Vec::new();
        if self.shared.std {
            variables = self.record_std(&dir, &mut options)?;
        } else if self.shared.target_dir.is_none() {
            options.push("--target-dir".to_owned());
            options.push(self.dir.join("build").to_string_lossy().into_owned());
        }
        if fixed::is_for(&self.cargo.host)
            && env::var_os(fixed::WRAPPER).is_none()
            && !self.configuration().has(fixed::KEY)
        {
            let script = fixed::script(&dir)?;
            options.extend(config(fixed::KEY, &script.to_string_lossy())?);
        }
        let mut targets: Vec<_> = self.shared.targets.iter().collect();
        targets.push(&self.cargo.host);
        targets.sort_unstable();
        targets.dedup();
        let targets = targets.into_iter();
        let runners = targets.map(|target| Runner::of(target, self.configuration()));
        Ok(Patched {
            coverage: self.coverage(&plain),
            options,
            variables,
            runners: runners.collect(),
        })
    }

    /// Has crates of the project get a `std` that records: adds options of cargo, and returns the
    /// variables of its environment.
    fn record_std(
        &self,
        dir: &Path,
        options: &mut Vec<String>,
    ) -> anyhow::Result<Vec<(&'static str, OsString)>> {
        let target = match &*self.shared.targets {
            [] => {
                options.extend(["--target".to_owned(), self.cargo.host.clone()]);
                &self.cargo.host
            }
            [target] => target,
            _ => bail!("{STD} is for one target, and there are several"),
        };
        let std = RecordedStd::get(&self.compiler()?, target, &plain_lock(dir), &self.dir)?;
        // Cargo does not know which wrapper built what: a plain build must not find it, nor one
        // with another `std`.
        let build = self.dir.join(format!("build-{}", std.name()));
        let build = build.to_string_lossy().into_owned();
        options.extend(config("build.build-dir", &build)?);
        options.extend(["--target-dir".to_owned(), build]);
        let chain = self.rustc_wrapper()?;
        let script = std.script(dir, chain.as_deref())?;
        // Tests in documentation get the same `std` as the crates that they use. The variable
        // stands for all other places of such options.
        let mut flags = self.configuration().rustdoc_flags(target);
        flags.extend(std.rustdoc_options()?);
        Ok(vec![
            ("RUSTC_WRAPPER", script.into_os_string()),
            ("CARGO_ENCODED_RUSTDOCFLAGS", flags.join("\u{1f}").into()),
        ])
    }

    /// The compiler that cargo calls.
    fn compiler(&self) -> anyhow::Result<Compiler> {
        let variables = ["RUSTC", "CARGO_BUILD_RUSTC"];
        let rustc = self.configuration().program(&variables, "build.rustc")?;
        let offline = self.shared.pass.iter().any(|option| option == "--offline");
        Compiler::ask(rustc.unwrap_or_else(|| "rustc".to_owned()), offline)
    }

    /// The user's program that cargo is to call in place of the compiler.
    fn rustc_wrapper(&self) -> anyhow::Result<Option<String>> {
        let variables = ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"];
        self.configuration()
            .program(&variables, "build.rustc-wrapper")
    }

    fn configuration(&self) -> Configuration<'_> {
        Configuration::of(&self.shared.pass)
    }

    /// A cargo command on the patched project, whose executables are run by `runner`.
    pub(crate) fn run(
        &self,
        patched: &Patched,
        subcommand: &str,
        args: &[String],
        runner: &[String],
    ) -> anyhow::Result<Command> {
        let mut command = self.plainly(patched, subcommand);
        for place in &patched.runners {
            command.arg("--config").arg(place.option(runner)?);
        }
        command.args(args);
        Ok(command)
    }

    /// Where the source of the workspace is, in a list of paths: its directory, and the directories
    /// in it whose source is not its own (`RR_CHANNEL_PROJECT`). Empty where that cannot be said.
    pub(crate) fn source(&self) -> String {
        let root = self.lock.parent().unwrap_or(Path::new("/"));
        let paths = env::join_paths([root, &self.dir]).ok();
        let text = paths.and_then(|paths| paths.into_string().ok());
        text.unwrap_or_default()
    }

    /// The same, with executables that cargo starts itself, if it does.
    pub(crate) fn plainly(&self, patched: &Patched, subcommand: &str) -> Command {
        let mut command = self.command(subcommand, &patched.options);
        if let Some(dir) = self.shared.target_dir.as_ref().filter(|_| !self.shared.std) {
            command.arg("--target-dir").arg(dir);
        }
        command.envs(patched.variables.iter().map(|(name, value)| (name, value)));
        for (name, _) in env::vars_os() {
            if is_ours(&name) {
                command.env_remove(name);
            }
        }
        command
    }
}

/// The directory below `target` of what is made for the workspace at `root`. Others may have the
/// same target directory, unless it is the workspace's own.
fn dir_below(target: &Path, root: &Path) -> PathBuf {
    let dir = target.join("reprise");
    if target.starts_with(root) {
        return dir;
    }
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    dir.join(format!("{name}-{}", &hash[..8]))
}

/// Whether a variable of the environment is set by `cargo reprise`, and is none of the user's.
fn is_ours(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"RR_CHANNEL") && name != b"RR_CHANNEL_PATIENCE"
}

/// The packages to be replaced.
fn replaced<'a>(metadata: &'a Metadata, shared: &Shared) -> anyhow::Result<Vec<Replaced<'a>>> {
    let except = &shared.except;
    let mut found = Vec::new();
    if let Some(name) = except.iter().find(|name| !crates::is_known(name)) {
        bail!("{EXCEPT} {name}: not one of {}", crates::what());
    }
    // Two of them in one program would each name its threads.
    ensure!(
        metadata
            .packages
            .iter()
            .all(|package| package.name != "rr-channel"),
        "the project depends on rr-channel itself: set RR_CHANNEL and RR_CHANNEL_LOG, and run it \
         without `cargo reprise`"
    );
    for package in &metadata.packages {
        let Some(of) = metadata::replaced_by(package, metadata, except) else {
            continue;
        };
        match package.source.as_ref().map(|source| source.repr.as_str()) {
            // Of another registry, it is not what cargo patches: that is found out later.
            Some(source) if source.starts_with("registry+") => {}
            Some(source) => bail!(
                "{} comes from {source}; only the one of crates.io can be replaced",
                of.name
            ),
            None => bail!(
                "{} is a package of this project, in {}; only the one of crates.io can be replaced",
                of.name,
                package.manifest_path
            ),
        }
        found.push(Replaced {
            of,
            version: package.version.to_string(),
            features: &package.features,
            source: package
                .manifest_path
                .parent()
                .context("a manifest has no parent directory")?
                .as_std_path(),
        });
    }
    if !shared.std && found.is_empty() {
        return Err(NothingToRecord.into());
    }
    Ok(found)
}

/// A project uses no crate that is recorded.
#[derive(Debug)]
pub struct NothingToRecord;

impl fmt::Display for NothingToRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nothing to record: this project depends on none of {}; with `{STD}`, the channels, \
             threads and locks of std are recorded",
            crates::what()
        )
    }
}

impl std::error::Error for NothingToRecord {}

/// Whether the patch was used. It is not where only crates used this one that are replaced
/// themselves: they keep upstream's.
///
/// # Errors
/// If upstream's is used as well, or instead.
fn is_used(metadata: &Metadata, of: &Crate, made: &Path) -> anyhow::Result<bool> {
    let manifest = made.join("Cargo.toml");
    let (ours, others): (Vec<_>, Vec<_>) = metadata
        .packages
        .iter()
        .filter(|package| *package.name == *of.name)
        .partition(|package| package.manifest_path == manifest);
    let is_wrong =
        |package: &&&Package| ours.is_empty() || metadata::replaceable(package) == Some(of);
    if let Some(other) = others.iter().find(is_wrong) {
        bail!(
            "cargo did not use the patch for {} {}: it uses {}",
            of.name,
            other.version,
            other.manifest_path
        );
    }
    Ok(!ours.is_empty())
}

/// Makes `to` a copy of `from`, if there is one.
fn copy_if_present(from: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::read(from) {
        Ok(bytes) => copy::write(to, &bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", from.display())),
    }
}

/// Makes `to` a copy of `from` if `from` changed since that was last done: what cargo
/// added to `to` meanwhile stays as it is.
fn copy_if_changed(from: &Path, to: &Path) -> anyhow::Result<()> {
    let origin = to.with_extension("origin");
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if to.exists() && fs::read(&origin).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    copy::write(to, &bytes)?;
    copy::write(&origin, &bytes)
}

/// A copy of the project's own lock file.
fn plain_lock(dir: &Path) -> PathBuf {
    dir.join("plain/Cargo.lock")
}

fn lock_options(lock: &Path) -> Vec<String> {
    // A string is a valid value, whatever is in it.
    config("resolver.lockfile-path", &lock.to_string_lossy()).unwrap_or_default()
}

/// Options that set a key of cargo's configuration to a string.
fn config(key: &str, value: &str) -> anyhow::Result<Vec<String>> {
    // A string in JSON is one in TOML.
    let value = serde_json::to_string(value)?;
    Ok(vec!["--config".to_owned(), format!("{key}={value}")])
}

/// The cargo that started us.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The answer of `cargo -vV`.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    minor: u32,
    host: String,
}

impl Version {
    fn ask() -> anyhow::Result<Self> {
        let output = cargo().arg("-vV").output().context("cannot start cargo")?;
        let version = Version::parse(&String::from_utf8_lossy(&output.stdout))
            .context("`cargo -vV` does not name its version")?;
        ensure!(
            version.minor >= 95,
            "cargo 1.{} is too old: rr-channel needs 1.95",
            version.minor
        );
        Ok(version)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key| text.lines().find_map(|line| line.strip_prefix(key));
        Some(Version {
            minor: value("release: 1.")?.split('.').next()?.parse().ok()?,
            host: value("host: ")?.to_owned(),
        })
    }

    /// Whether the place of the lock file can be chosen without asking for an unstable
    /// feature.
    const fn has_lockfile_path(&self) -> bool {
        self.minor >= 97
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, rest: &str) -> Shared {
        let mut args: Vec<_> = args.split(' ').map(str::to_owned).collect();
        let shared = Shared::take(&mut args);
        assert_eq!(args.join(" "), rest);
        shared
    }

    #[test]
    fn options_for_every_call_are_taken_out() {
        let shared = check(
            "--lib --manifest-path=a/Cargo.toml --frozen --config x=1 -p b -- --offline",
            "--lib -p b -- --offline",
        );
        assert_eq!(
            shared.pass,
            [
                "--manifest-path",
                "a/Cargo.toml",
                "--offline",
                "--config",
                "x=1"
            ]
        );
        assert!(shared.locked);
    }

    #[test]
    fn targets_are_known_and_stay() {
        let shared = check("--target=t --features=a=b", "--target t --features=a=b");
        assert_eq!(shared.targets, ["t"]);
        let shared = check("--except=a --lib --except b", "--lib");
        assert_eq!(shared.except, ["a", "b"]);
    }

    #[test]
    fn workspaces_with_one_target_directory_have_directories_of_their_own() {
        let dir = |target: &str, root: &str| dir_below(Path::new(target), Path::new(root));
        assert_eq!(dir("/a/target", "/a"), Path::new("/a/target/reprise"));
        let (first, second) = (dir("/target", "/x/a"), dir("/target", "/y/a"));
        assert!(first != second && first == dir("/target", "/x/a"));
        for dir in [first, second] {
            assert_eq!(dir.parent(), Some(Path::new("/target/reprise")));
            assert!(dir.file_name().unwrap().to_str().unwrap().starts_with("a-"));
        }
    }

    #[test]
    fn the_patience_of_a_replay_is_for_the_user() {
        assert!(is_ours(OsStr::new("RR_CHANNEL")) && is_ours(OsStr::new("RR_CHANNEL_LOG")));
        assert!(!is_ours(OsStr::new("RR_CHANNEL_PATIENCE")) && !is_ours(OsStr::new("PATH")));
    }

    #[test]
    fn a_version_is_read() {
        let text =
            "cargo 1.95.0 (f2d3 2026-03-21)\nrelease: 1.95.0\nhost: x86_64-unknown-linux-gnu\n";
        let version = Version::parse(text).unwrap();
        assert_eq!(
            (version.minor, version.host.as_str()),
            (95, "x86_64-unknown-linux-gnu")
        );
        assert_eq!(Version::parse("cargo"), None);
    }

    #[test]
    fn a_patch_that_was_not_used_everywhere_is_an_error() {
        let package = |path: &str| {
            serde_json::json!({
                "name": "crossbeam-channel", "version": "0.5.1", "id": path, "source": null,
                "dependencies": [], "targets": [],
                "manifest_path": path, "features": {},
            })
        };
        let check = |packages: &[serde_json::Value]| {
            let metadata = serde_json::json!({
                "packages": packages, "workspace_members": [], "resolve": null, "version": 1,
                "target_directory": "", "workspace_root": "",
            });
            let metadata: Metadata = serde_json::from_value(metadata).unwrap();
            let of = crates::replaceable("crossbeam-channel", "0.5.1").unwrap();
            is_used(&metadata, of, Path::new("made")).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[package("made/Cargo.toml")]), Ok(true));
        assert_eq!(check(&[]), Ok(false));
        assert_eq!(
            check(&[package("made/Cargo.toml"), package("other/Cargo.toml")]),
            Err("cargo did not use the patch for crossbeam-channel 0.5.1: \
                 it uses other/Cargo.toml"
                .to_owned())
        );
    }
}
