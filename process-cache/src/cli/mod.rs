//! The command line of `pcache`.

mod doctor;
pub mod formats;
mod history;
mod maintenance;
mod resources;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::engine::run::{self, Plan};
use crate::engine::session::Settings;
use crate::platform::os;
use crate::policy::base_dirs::BaseDirs;
use crate::policy::config::Config;
use crate::relocation::Relocation;
use crate::remote::settings::RemoteArgs;
use crate::store::Store;

/// Advice if ptrace is forbidden.
const ADVICE: &str = "  \
  In a container, allow it with --cap-add=SYS_PTRACE or a seccomp profile that permits ptrace;
  check that /proc/sys/kernel/yama/ptrace_scope is below 3;
  or run the command without a cache: pcache --fallback";

/// Exit status if pcache itself fails.
const OWN_FAILURE: u8 = 125;

/// Run a command, skipping every process whose inputs are unchanged.
///
/// The exit status is the command's own. Otherwise it is 127 if the command is missing, 126 if it
/// cannot be executed, 2 if an option of pcache is unknown or malformed, and 125 if pcache cannot
/// do its work.
#[derive(Debug, Parser)]
#[command(name = "pcache", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how many results the store holds and how large it is.
    Stats(StatsArgs),
    /// Remove everything from the store.
    Clear(StoreArgs),
    /// Remove what has not been used for long, and what is too much.
    Gc(maintenance::GcArgs),
    /// Tell what this machine allows, and what that means for pcache.
    Doctor(doctor::DoctorArgs),
    /// Print a configuration file with everything that can be in it.
    ExampleConfig,
    /// Run a command whatever is stored, and tell which of its units left something else
    /// than they are stored to leave.
    Verify(Box<RunArgs>),
    /// Check everything in the store.
    Fsck(maintenance::FsckArgs),
    /// Write everything in the store into a file.
    Export(maintenance::FileArgs),
    /// Take in what `export` wrote. Whoever made the file decides what is skipped.
    Import(maintenance::FileArgs),
    /// Tell why the units of a run, or one of them, were not skipped.
    Why(history::WhyArgs),
    /// List the runs that are remembered, newest first.
    Log(history::LogArgs),
    /// Show a run with all its units, or one unit: what it depends on, what it left.
    Show(history::ShowArgs),
    /// Write a page about a run for a browser: what ran and why, when, the biggest
    /// losses.
    Report(history::ReportArgs),
    /// Show a run as a tree of units: skipped or not, why, and the time saved.
    Graph(history::GraphArgs),
}

#[derive(Debug, Args)]
struct StoreArgs {
    /// Directory that holds the cached results.
    #[arg(long, value_name = "DIR", env = "PCACHE_DIR")]
    cache_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct StatsArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Tell for each unit whether it was skipped, and if not, why.
    #[arg(long)]
    explain: bool,
    /// Write a report of the run to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Say nothing at the end.
    #[arg(long, short)]
    quiet: bool,
    /// Run everything, and replace what is stored.
    #[arg(long)]
    refresh: bool,
    /// Use what is stored, and store nothing.
    #[arg(long)]
    read_only: bool,
    /// Assume nothing about programs: all times, clocks and variables count.
    #[arg(long)]
    strict: bool,
    /// Do without a seccomp filter: slower, but set-uid programs keep their
    /// rights (they run untraced).
    #[arg(long)]
    no_seccomp: bool,
    /// How lookups are seen.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Interception::Auto)]
    interception: Interception,
    /// Run the command plainly where it cannot be traced.
    #[arg(long)]
    fallback: bool,
    /// Do not store single processes that take less than this (milliseconds; 3 if
    /// nothing else is configured).
    #[arg(long, value_name = "MS")]
    min_time: Option<u64>,
    /// Find results of other places as well: a directory whose place does not count, such
    /// as `worktree` (the checkout that the working directory is in), NAME=DIR or DIR.
    #[arg(
        long,
        value_name = "PLACE",
        env = "PCACHE_ROOTS",
        value_delimiter = ':'
    )]
    root: Vec<String>,
    #[command(flatten)]
    remote: RemoteArgs,
    /// List the planted defects (builds with that feature only).
    #[arg(long, hide = true)]
    list_defects: bool,
    /// The command and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How the lookups of a traced program are seen.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Interception {
    /// Processes that make many perform and log them by themselves.
    Auto,
    /// Each stops the process.
    Stops,
}

/// Runs `pcache` with the process's own arguments.
pub fn main() -> ExitCode {
    crate::platform::os::keep_closed();
    let cli = Cli::parse();
    let result = match cli.action {
        Some(Action::Stats(args)) => stats(args),
        Some(Action::Clear(args)) => maintenance::clear(&args),
        Some(Action::Gc(args)) => maintenance::gc(&args),
        Some(Action::Export(args)) => maintenance::export(&args),
        Some(Action::Import(args)) => maintenance::import(&args),
        Some(Action::ExampleConfig) => {
            print!("{}", crate::policy::config::EXAMPLE);
            Ok(())
        }
        Some(Action::Doctor(args)) => match doctor::run(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Some(Action::Fsck(args)) => match maintenance::fsck(&args) {
            Ok(true) => Ok(()),
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Some(Action::Why(args)) => history::why(&args),
        Some(Action::Log(args)) => history::log(&args),
        Some(Action::Show(args)) => history::show(&args),
        Some(Action::Report(args)) => history::report(&args),
        Some(Action::Graph(args)) => history::graph(&args),
        Some(Action::Verify(args)) => command(*args, true),
        None => command(cli.run, false),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pcache: {error:#}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn directory(args: &StoreArgs) -> anyhow::Result<PathBuf> {
    args.cache_dir
        .clone()
        .or_else(Store::default_dir)
        .context("no directory for the store: set PCACHE_DIR, XDG_CACHE_HOME or HOME")
}

fn open(args: &StoreArgs, read_only: bool) -> anyhow::Result<Store> {
    let dir = directory(args)?;
    let opened = if read_only {
        Store::open_read_only(&dir)
    } else {
        Store::open(&dir)
    };
    opened.with_context(|| format!("cannot use the store in {}", dir.display()))
}

fn stats(args: StatsArgs) -> anyhow::Result<()> {
    let stats = open(&args.store, true)?.stats()?;
    if args.json {
        let json = serde_json::json!({
            "version": 1,
            "entries": stats.entries,
            "blobs": stats.blobs,
            "bytes": stats.bytes,
        });
        println!("{json:#}");
    } else {
        println!("programs        {}", stats.entries);
        println!("contents        {}", stats.blobs);
        println!(
            "size            {:.1} MiB",
            stats.bytes as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}

fn command(args: RunArgs, verify: bool) -> anyhow::Result<()> {
    if args.list_defects {
        if cfg!(feature = "planted-defects") {
            for (name, _) in crate::platform::defect::ALL {
                println!("{name}");
            }
        }
        return Ok(());
    }
    if args.command.is_empty() {
        Cli::command()
            .error(
                ErrorKind::MissingRequiredArgument,
                "no command: pcache [options] -- COMMAND...",
            )
            .exit();
    }
    let disabled = std::env::var_os("PCACHE_DISABLE").is_some_and(|v| !v.is_empty() && v != "0");
    if disabled || is_nested() {
        plainly(&args.command);
    }
    if args.read_only && !directory(&args.store)?.join("format").exists() {
        // A missing store has no results, and a read-only one is not created.
        plainly(&args.command);
    }
    if let Some(limit) = resources::too_small() {
        eprintln!("pcache: {limit}; the command runs without a cache");
        plainly(&args.command);
    }
    let store = match open(&args.store, args.read_only) {
        Ok(store) => store,
        Err(error) => {
            // An unusable store only costs time, and must not fail the command.
            eprintln!("pcache: {error:#}; the command runs without a cache");
            plainly(&args.command);
        }
    };
    if let Err(reason) = can_trace() {
        if args.fallback {
            eprintln!("pcache: {reason}; the command runs without a cache");
            plainly(&args.command);
        }
        anyhow::bail!("{reason}\n{ADVICE}");
    }
    let remote = args.remote.settings()?;
    let config = Config::load()?;
    let limits = config.limits().map_err(anyhow::Error::msg)?;
    let roots = [args.root, config.roots.clone()].concat();
    let base_dirs = match args.strict {
        true => BaseDirs::default(),
        false => BaseDirs::new(&roots)?,
    };
    let config = Arc::new(config);
    let plan = Plan {
        argv: args.command,
        settings: Settings {
            strict: args.strict,
            refresh: args.refresh || verify,
            verify,
            read_only: args.read_only,
            stops_only: matches!(args.interception, Interception::Stops),
            config: config.clone(),
            relocation: (!base_dirs.is_empty()).then(|| Arc::new(Relocation::new(base_dirs))),
        },
        min_us: args
            .min_time
            .or(config.min_time_ms)
            .unwrap_or(3)
            .saturating_mul(1000),
        no_seccomp: args.no_seccomp,
        fallback: args.fallback,
        quiet: args.quiet,
        at_terminal: std::io::stderr().is_terminal(),
        explain: args.explain,
        json: args.json,
        limits,
        remote,
    };
    let error = run::run(&plan, store);
    if error.is::<run::Untraced>() {
        plainly(&plan.argv);
    }
    if error.is::<run::NotStarted>() {
        eprintln!("pcache: {error}; the command runs without a cache");
        plainly(&plan.argv);
    }
    if !error.is::<run::CannotTrace>() {
        return Err(error);
    }
    if args.fallback {
        eprintln!("pcache: {error}; it runs without a cache");
        plainly(&plan.argv);
    }
    anyhow::bail!("{error}\n{ADVICE}")
}

/// Executes the command in this process, and exits where that is impossible.
fn plainly(command: &[OsString]) -> ! {
    os::ignore(libc::SIGPIPE, os::pipe_was_ignored());
    let error = os::execute(command);
    os::exit_for_missing(&command[0], &error)
}

/// Whether another pcache traces this process, and so observes the whole command.
fn is_nested() -> bool {
    let status = ptrace_async::process::read_proc("/proc/self/status").unwrap_or_default();
    let tracer = String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| Some(line.strip_prefix("TracerPid:")?.trim().to_owned()));
    let Some(tracer) = tracer.filter(|pid| pid != "0") else {
        return false;
    };
    std::fs::read(format!("/proc/{tracer}/comm")).is_ok_and(|name| name.starts_with(b"pcache"))
}

/// Whether ptrace can work here.
fn can_trace() -> Result<(), String> {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if scope.trim() == "3" {
        return Err("ptrace is switched off on this machine (yama)".to_owned());
    }
    Ok(())
}
