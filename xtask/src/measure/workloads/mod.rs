//! Real projects, built plainly and under pcache, compared and measured.
//!
//! For each workload of the [`catalog`], a round takes all [scenarios](scenario)
//! on every side: plainly, under pcache, and, for C and C++, with ccache. The
//! sides take turns within a scenario, so a change of the machine's speed
//! touches them alike. After each scenario the tree that pcache left is compared with the one
//! the plain run left, and so is what the build tool concludes.
//!
//! With a remote cache, one host builds first, and another one with an empty store
//! afterwards.
//!
//! Sources come from the registries into a directory outside the repository.

mod catalog;
mod compare;
mod fetch;
mod hosts;
pub(crate) mod measure;
mod report;
mod scenario;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::support::tree;
use crate::support::tree::arena::{Arena, Side};
use crate::support::tree::unstable::Unstable;
use catalog::{CATALOG, Workload};
use fetch::Yard;
use hosts::{Host, Hosts, Server};
use report::{Measurement, Report, Runner, Verdict};
use scenario::{ALL, Scenario};

/// Options of `cargo xtask workloads`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run these workloads only.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Take these scenarios only; `cold` always comes first.
    #[arg(long, value_name = "NAME")]
    scenario: Vec<Scenario>,
    /// How many rounds.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Write all measurements to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The pcache to test; built from the workspace when absent.
    #[arg(long, value_name = "PATH")]
    pcache: Option<PathBuf>,
    /// Where sources, trees and caches live.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Run everything as this user, with a work directory of its own.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Leave ccache out.
    #[arg(long)]
    no_ccache: bool,
    /// Share results through this server between two hosts (network namespaces): the
    /// program of bazel-remote or of buildbox-casd.
    #[arg(long, value_name = "PROGRAM")]
    remote: Option<PathBuf>,
    /// How much longer a round trip to the server takes (ms).
    #[arg(long, value_name = "MS", default_value_t = 0.0, requires = "remote")]
    latency: f64,
    /// Fetch the sources and stop.
    #[arg(long)]
    fetch: bool,
    /// List the workloads and stop.
    #[arg(long)]
    list: bool,
}

/// Runs the workloads and prints the tables.
///
/// # Errors
///
/// When a source cannot be had or a plain build fails; a tree that differs is
/// printed and answered with a failing exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list {
        CATALOG
            .iter()
            .for_each(|workload| println!("{}: {}", workload.name, workload.build));
        return Ok(ExitCode::SUCCESS);
    }
    let pcache = match &args.pcache {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("looking for {}", path.display()))?,
        None if args.fetch => PathBuf::new(),
        None => crate::support::pcache::build(crate::support::pcache::Build::Release)?,
    };
    let work = args
        .work
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join("reprise-workloads"));
    if let Some(user) = &args.user {
        return as_user(user, args, &pcache, &work);
    }
    std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    let yard = Yard {
        work: work.canonicalize()?,
    };
    let mut report = Report::new(args.repeat);
    let hosts = args.remote.as_ref().map(|_| Hosts::new()).transpose()?;
    for workload in selected(args)? {
        if let Some(missing) = workload.needs.iter().find(|program| !installed(program)) {
            report
                .skipped
                .push((workload.name.into(), format!("{missing} is not installed")));
            continue;
        }
        let pristine = match yard.pristine(workload) {
            Ok(pristine) => pristine,
            Err(error) => {
                report.failed(workload.name, &error.context("fetching it"));
                continue;
            }
        };
        if args.fetch {
            continue;
        }
        let bench = Bench {
            args,
            yard: &yard,
            pcache: &pcache,
            workload,
            pristine,
            hosts: hosts.as_ref(),
        };
        for round in 1..=args.repeat {
            if let Err(error) = bench.round(round, &mut report) {
                report.failed(workload.name, &error);
                break;
            }
        }
    }
    if args.fetch {
        return Ok(if report.failed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    print!("{}", report.markdown());
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
    }
    tree::remove(&yard.aside())?;
    Ok(if report.all_equal() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn selected(args: &Args) -> anyhow::Result<Vec<&'static Workload>> {
    if let Some(unknown) = args
        .only
        .iter()
        .find(|name| CATALOG.iter().all(|workload| workload.name != **name))
    {
        bail!("no workload is called `{unknown}`; `--list` names them");
    }
    Ok(CATALOG
        .iter()
        .filter(|workload| {
            args.only.is_empty() || args.only.iter().any(|name| name == workload.name)
        })
        .collect())
}

/// Becomes `xtask workloads` again as another user, with a work directory that
/// belongs to them.
fn as_user(user: &str, args: &Args, pcache: &Path, work: &Path) -> anyhow::Result<ExitCode> {
    let work = work.with_file_name(format!(
        "{}-{user}",
        work.file_name().unwrap_or_default().to_string_lossy()
    ));
    std::fs::create_dir_all(&work)?;
    fetch::run(Command::new("chown").arg(user).arg(&work))?;
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={user}"),
        "--regid=nogroup",
        "--clear-groups",
        "--bounding-set=-all",
        "--",
    ]);
    command
        .arg(std::env::current_exe()?)
        .arg("workloads")
        .arg("--pcache")
        .arg(pcache)
        .arg("--work")
        .arg(&work);
    command.args(["--repeat", &args.repeat.to_string()]);
    for name in &args.only {
        command.args(["--only", name]);
    }
    for scenario in &args.scenario {
        if let Some(value) = clap::ValueEnum::to_possible_value(scenario) {
            command.args(["--scenario", value.get_name()]);
        }
    }
    if let Some(json) = &args.json {
        command.arg("--json").arg(json);
    }
    if args.no_ccache {
        command.arg("--no-ccache");
    }
    command
        .env("HOME", &work)
        .env_remove("XDG_CACHE_HOME")
        .current_dir(&work);
    Err(command.exec()).context("starting setpriv")
}

fn installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// One workload with all it needs.
struct Bench<'a> {
    args: &'a Args,
    yard: &'a Yard,
    pcache: &'a Path,
    workload: &'static Workload,
    pristine: PathBuf,
    hosts: Option<&'a Hosts>,
}

impl Bench<'_> {
    /// Takes all scenarios on all sides once.
    fn round(&self, round: usize, report: &mut Report) -> anyhow::Result<()> {
        let aside = self.yard.aside();
        let base = self.yard.work.join("trees").join(self.workload.name);
        tree::set_aside(&base, &aside, &[])?;
        let arena = Arena::new(base)?;
        let mut sides = vec![(Side::Plain, Runner::Plain), (Side::Cached, Runner::Pcache)];
        if self.workload.compiles && !self.args.no_ccache && Path::new(CCACHE_LINKS).is_dir() {
            sides.push((Side::Other, Runner::Ccache));
            std::fs::create_dir_all(arena.parked(Side::Other))?;
        }
        let mut unstable = Unstable::default();
        let latency = Duration::try_from_secs_f64(self.args.latency / 1000.0)?;
        let server = self.args.remote.as_deref();
        let server = server
            .map(|program| Server::start(program, latency))
            .transpose()?;
        for scenario in ALL {
            let wanted = scenario == Scenario::Cold
                || self.args.scenario.is_empty()
                || self.args.scenario.contains(&scenario);
            let possible = server.is_some() || !scenario.needs_remote();
            if !wanted || !possible || !scenario.applies(self.workload) {
                continue;
            }
            // Another side goes first in each round.
            for turn in 0..sides.len() {
                let (side, runner) = sides[(turn + round) % sides.len()];
                // It would build once more what it has built already.
                if scenario.needs_remote() && runner == Runner::Ccache {
                    continue;
                }
                let measurement =
                    self.take(&arena, scenario, round, side, runner, server.as_ref())?;
                eprintln!(
                    "{} {scenario:?} {runner:?}: {:.2} s wall, {:.2} s CPU, {} of {} units skipped",
                    self.workload.name,
                    measurement.cost.wall,
                    measurement.cost.cpu,
                    measurement.hits,
                    measurement.units
                );
                if let Some(remote) = &measurement.remote {
                    eprintln!("  remote cache: {remote}");
                }
                if let Some(reason) = &measurement.not_stored {
                    eprintln!("  the whole is not stored: {reason}");
                }
                report.measurements.push(measurement);
            }
            let differences = self.compare(&arena, &mut unstable)?;
            // At once: the tables come at the end, if it comes to that.
            for line in &differences {
                eprintln!("{} {scenario:?} differs: {line}", self.workload.name);
            }
            report.verdicts.push(Verdict {
                workload: self.workload.name,
                scenario,
                round,
                differences,
                unstable: unstable.lines(),
            });
        }
        Ok(())
    }

    fn take(
        &self,
        arena: &Arena,
        scenario: Scenario,
        round: usize,
        side: Side,
        runner: Runner,
        server: Option<&Server>,
    ) -> anyhow::Result<Measurement> {
        // A new file on a disk takes up to a millisecond, and nobody asks for a
        // report who is in a hurry: it goes into memory.
        let reports =
            tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir_in(arena.io()))?;
        let json = reports.path().join("report.json");
        let (cost, succeeded) = arena.live(side, |tree| {
            let shell = |script: &str| self.shell(arena, tree, runner, script);
            let aside = self.yard.aside();
            scenario.apply(self.workload, &self.pristine, tree, &aside, &shell)?;
            if scenario.needs_remote() && runner == Runner::Pcache {
                let keeps_digests = scenario == Scenario::OtherStore;
                hosts::empty_store(&arena.store(), keeps_digests, &aside)?;
            }
            measure::settle(match runner {
                Runner::Plain => vec![tree.into()],
                Runner::Pcache => vec![tree.into(), arena.store(), self.pcache.into()],
                Runner::Ccache => vec![tree.into(), arena.io().join("ccache"), CCACHE.into()],
            });
            let log = std::fs::File::create(arena.io().join("log"))?;
            let mut command = match runner {
                Runner::Pcache => {
                    let mut command = self.pcache(scenario, server);
                    command.args(["--quiet", "--json"]).arg(&json).args([
                        "--",
                        "sh",
                        "-c",
                        self.workload.build,
                    ]);
                    self.surround(&mut command, arena, tree, runner);
                    command
                }
                Runner::Plain | Runner::Ccache => shell(self.workload.build),
            };
            measure::measure(
                command
                    .stdin(Stdio::null())
                    .stdout(log.try_clone()?)
                    .stderr(log),
            )
        })?;
        if !succeeded {
            let log = std::fs::read_to_string(arena.io().join("log")).unwrap_or_default();
            let end: Vec<_> = log.lines().rev().take(15).collect();
            bail!(
                "{scenario:?} {runner:?}: the build failed:\n{}",
                end.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
        let counts = crate::support::pcache::Report::read(&json);
        Ok(Measurement {
            workload: self.workload.name,
            scenario,
            round,
            runner,
            cost,
            units: counts.units,
            hits: counts.hits,
            not_stored: counts.not_stored,
            remote: counts.remote,
        })
    }

    /// pcache on the host that a scenario takes place on.
    fn pcache(&self, scenario: Scenario, server: Option<&Server>) -> Command {
        let (Some(hosts), Some(server)) = (self.hosts, server) else {
            return Command::new(self.pcache);
        };
        let host = match scenario {
            Scenario::OtherHost => Host::Elsewhere,
            _ => Host::Here,
        };
        let mut command = hosts.command(host, self.pcache);
        command.args(["--remote", &server.url(host)]);
        if self.args.latency == 0.0 {
            // It is about what is shared; the machine may be busy.
            for option in ["--remote-patience", "--remote-wait", "--remote-timeout"] {
                command.args([option, "300"]);
            }
            command.args(["--remote-keep", "now"]);
        }
        command
    }

    fn shell(&self, arena: &Arena, tree: &Path, runner: Runner, script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        self.surround(&mut command, arena, tree, runner);
        command
    }

    /// The directory and environment of every command, the same on all sides
    /// but for what ccache needs.
    fn surround(&self, command: &mut Command, arena: &Arena, tree: &Path, runner: Runner) {
        let inherited = std::env::var("PATH").unwrap_or_default();
        let path = if runner == Runner::Ccache {
            format!("{CCACHE_LINKS}:{inherited}")
        } else {
            inherited
        };
        command.current_dir(tree).env_clear();
        command
            .env("PATH", path)
            .env("HOME", arena.home())
            .env("LC_ALL", "C.UTF-8");
        command.env("TOOLS", self.yard.tools());
        command
            .env("PCACHE_DIR", arena.store())
            .env("CCACHE_DIR", arena.io().join("ccache"));
        if self.workload.compiles {
            command.env("CPATH", tree.join("early"));
        }
        // Where a toolchain manager keeps its toolchains.
        for name in ["RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if std::env::var_os("RUSTUP_HOME").is_none()
            && let Some(home) = std::env::var_os("HOME")
        {
            command.env("RUSTUP_HOME", Path::new(&home).join(".rustup"));
        }
    }
}

/// Where distributions keep links from compiler names to ccache.
const CCACHE_LINKS: &str = "/usr/lib/ccache";
const CCACHE: &str = "/usr/bin/ccache";
