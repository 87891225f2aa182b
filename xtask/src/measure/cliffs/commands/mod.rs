//! Common commands, and programs of some ecosystems, plainly and under pcache.
//!
//! Each runs in a directory with a tree of files that is the same on each machine. What it
//! writes lies in `out/`, which is empty before each run.

mod catalog;
mod material;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use self::catalog::{COMMANDS, Command};
use super::results::{CommandCost, Results};
use crate::measure::workloads::measure::measure as measure_command;

/// After this time, a command gets no further rounds.
const ENOUGH: Duration = Duration::from_secs(4);

/// Measures all commands that are asked for and there.
///
/// # Errors
///
/// When the files cannot be made, or a command does not run.
pub(super) fn measure(
    pcache: &Path,
    dir: &Path,
    rounds: usize,
    is_asked: impl Fn(&str) -> bool,
    results: &mut Results,
) -> anyhow::Result<()> {
    let place = Place {
        pcache: pcache.to_owned(),
        dir: dir.join("commands"),
        path: path(),
    };
    material::lay_out(&place.dir)?;
    place.plainly(material::PREPARE)?;
    for command in COMMANDS.iter().filter(|command| is_asked(command.name)) {
        let missing = command.needs.iter().find(|name| find(name).is_none());
        if let Some(name) = missing {
            let why = format!("{name} is not installed");
            results.absent.push((command.name.into(), why));
            continue;
        }
        match place.measure(command, rounds) {
            Ok(cost) => {
                eprintln!("{:5.2}x  {}", cost.ratio(), cost.name);
                results.commands.push(cost);
            }
            Err(error) => {
                let why = format!("{error:#}");
                eprintln!("{}: {why}", command.name);
                results.absent.push((command.name.into(), why));
            }
        }
    }
    Ok(())
}

struct Place {
    pcache: PathBuf,
    dir: PathBuf,
    path: OsString,
}

impl Place {
    fn measure(&self, command: &Command, rounds: usize) -> anyhow::Result<CommandCost> {
        let mut cost = CommandCost {
            name: command.name.to_owned(),
            ecosystem: command.ecosystem,
            plain: Vec::new(),
            pcache: Vec::new(),
            plain_cpu: Vec::new(),
            pcache_cpu: Vec::new(),
        };
        if !command.once.is_empty() {
            self.plainly(command.once)?;
        }
        let start = Instant::now();
        // The first run brings files into memory.
        self.run(command, false)?;
        for _ in 0..rounds {
            let plain = self.run(command, false)?;
            let pcache = self.run(command, true)?;
            cost.plain.push(plain.wall);
            cost.pcache.push(pcache.wall);
            cost.plain_cpu.push(plain.cpu);
            cost.pcache_cpu.push(pcache.cpu);
            if start.elapsed() > ENOUGH {
                break;
            }
        }
        Ok(cost)
    }

    fn run(
        &self,
        command: &Command,
        traced: bool,
    ) -> anyhow::Result<crate::measure::workloads::measure::Cost> {
        let out = self.dir.join("out");
        let store = self.dir.join("store");
        crate::support::tree::remove(&out)?;
        crate::support::tree::remove(&store)?;
        std::fs::create_dir(&out)?;
        if !command.before.is_empty() {
            self.plainly(command.before)?;
        }
        let mut process = match traced {
            false => Process::new("/bin/sh"),
            true => {
                let with_store = |program| {
                    let mut process = Process::new(&self.pcache);
                    process.arg("--cache-dir").arg(&store);
                    process.args(["--quiet", "--", program]);
                    process
                };
                // The first use of a store copies the loader and the C library.
                let status = self
                    .with_environment(&mut with_store("/bin/true"))
                    .status()?;
                ensure!(status.success(), "pcache failed");
                with_store("/bin/sh")
            }
        };
        process.args(["-c", command.line]);
        let (cost, succeeded) = measure_command(self.with_environment(&mut process))?;
        ensure!(
            succeeded,
            "`{}` failed{}",
            command.line,
            if traced { " under pcache" } else { "" }
        );
        Ok(cost)
    }

    /// Runs lines of a shell that are not measured.
    fn plainly(&self, lines: &str) -> anyhow::Result<()> {
        let mut shell = Process::new("/bin/sh");
        shell.args(["-ec", lines]);
        let status = self
            .with_environment(&mut shell)
            .status()
            .context("starting sh")?;
        ensure!(status.success(), "`{lines}` failed");
        Ok(())
    }

    fn with_environment<'a>(&self, process: &'a mut Process) -> &'a mut Process {
        let python = find("/usr/bin/python3").map_or("python3", |_| "/usr/bin/python3");
        process
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .env("PATH", &self.path)
            .env("LC_ALL", "C")
            .env("PYTHON", python)
            .env("GOFLAGS", "-mod=mod")
            .env("GOCACHE", self.dir.join("gocache"))
            .env("GOPATH", self.dir.join("gopath"))
            .env("GOTOOLCHAIN", "local")
            .env("GIT_CONFIG_GLOBAL", self.dir.join("gitconfig"))
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
    }
}

/// Where programs are looked for; Go's own place is where its archive puts it.
fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/go/bin");
    path
}

/// The program of this name in the path, or with this path.
fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let path = path();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(is_program)
}
