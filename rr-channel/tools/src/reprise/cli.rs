//! The command line of `cargo reprise`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use super::commands::{minimize, record, replay};
use super::project::coverage;
use super::runner;
use super::store::Store;

/// Records the order of messages and locks in a project's tests and programs, and replays it.
///
/// The project is left as it is: crossbeam-channel, parking_lot, ipc-channel, rayon-core and tokio are
/// replaced on cargo's command line, and everything that is made is in `target/reprise`.
#[derive(Debug, Parser)]
#[command(name = "cargo-reprise", bin_name = "cargo reprise", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run `cargo test` and record the executables that it runs
    Test(record::Args),
    /// Run `cargo run` and record the program
    Run(record::Args),
    /// Replay a recording
    Replay(replay::Args),
    /// Find the decisions that make one recording of a test fail and another one pass
    Minimize(minimize::Args),
    /// List which crates of this project are recorded, and which uses of std are not
    Coverage(coverage::Args),
    /// List the recordings of this project
    List {
        /// Manifest of the project [default: that of the current directory]
        #[arg(long, value_name = "PATH")]
        manifest_path: Option<String>,
    },
    /// Run an executable for cargo
    #[command(hide = true)]
    Runner(runner::Runner),
    /// Become the executable, for the runner
    #[command(hide = true)]
    Execute {
        executable: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Runs the command line.
///
/// # Errors
/// If it could not be done.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    // Cargo calls `cargo-reprise reprise ARGS`.
    let args = std::env::args_os().enumerate();
    let args = args.filter(|(at, arg)| !(*at == 1 && arg == "reprise"));
    let ending = match parse(args.map(|(_, arg)| arg).collect()).command {
        Command::Test(args) => record::run("test", &args)?,
        Command::Run(args) => record::run("run", &args)?,
        Command::Replay(args) => replay::run(&args)?,
        Command::Minimize(args) => minimize::run(&args)?,
        Command::Coverage(args) => {
            coverage::run(&args)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::List { manifest_path } => {
            list(manifest_path.as_ref())?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Runner(runner) => runner::run(&runner)?,
        Command::Execute { executable, args } => runner::execute(&executable, &args)?,
    };
    Ok(ExitCode::from(runner::end_as(ending)))
}

/// Reads the command line. What follows `--` is cargo's, with the `--`, which clap would take
/// for its own where it comes right after our options.
fn parse(mut args: Vec<OsString>) -> Cli {
    let end = match args.get(1).map(|word| word == "test" || word == "run") {
        Some(true) => args.iter().position(|arg| arg == "--"),
        _ => None,
    };
    let rest = args.split_off(end.unwrap_or(args.len()));
    let mut cli = Cli::parse_from(args);
    if let Command::Test(args) | Command::Run(args) = &mut cli.command {
        for word in rest {
            match word.into_string() {
                Ok(word) => args.cargo.push(word),
                Err(word) => Cli::command()
                    .error(
                        ErrorKind::InvalidUtf8,
                        format!("no text: {}", word.display()),
                    )
                    .exit(),
            }
        }
    }
    cli
}

fn list(manifest_path: Option<&String>) -> anyhow::Result<()> {
    let project = replay::project_of(manifest_path)?;
    for entry in Store::below(&project.dir).list()? {
        let line = match (entry.call(), entry.size()) {
            (Ok(call), Ok(size)) => format!(
                "{:>4}  {:14}  {:>8} events  cargo {} {}",
                entry.number,
                call.ending
                    .map_or_else(|| "cut off".to_owned(), |ending| ending.to_string()),
                size.events,
                call.subcommand,
                call.args.join(" ")
            ),
            (Err(error), _) | (_, Err(error)) => format!("{:>4}  {error:#}", entry.number),
        };
        println!("{}", line.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::iter;
    use std::path::Path;

    use super::*;
    use crate::reprise::runner::RunnerOptions;

    /// The words that `cargo reprise` with these words passes to cargo.
    fn handed_on(words: &str) -> Vec<String> {
        let words = ["cargo-reprise"].into_iter().chain(words.split(' '));
        match parse(words.map(OsString::from).collect()).command {
            Command::Test(args) | Command::Run(args) => args.cargo,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_after_two_dashes_belong_to_the_program() {
        assert_eq!(
            handed_on("test --until failure -- --exact a"),
            ["--", "--exact", "a"]
        );
        assert_eq!(handed_on("test -- --exact"), ["--", "--exact"]);
        assert_eq!(
            handed_on("test --places --lib -q -- a -- b"),
            ["--lib", "-q", "--", "a", "--", "b"]
        );
        assert_eq!(handed_on("run --chaos --release"), ["--release"]);
    }

    #[test]
    fn every_argument_of_a_program_reaches_it() {
        let options = RunnerOptions {
            stop: true,
            ..RunnerOptions::default()
        };
        let (dir, scratch) = (Path::new("r"), Path::new("s"));
        let words = runner::arguments(runner::Mode::Record, dir, scratch, 1, options).unwrap();
        for args in [
            &["--stop"][..],
            &["-h"],
            &["--help", "x"],
            &["--chaos=3", "--places"],
            &["--", "ls"],
            &["a", "--", "--", "b"],
        ] {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let called = words.iter().cloned().chain(["exe".to_owned()]);
            let called = called.chain(args.clone()).map(OsString::from).collect();
            let Command::Runner(runner) = parse(called).command else {
                panic!("no runner");
            };
            let command = runner.meant("record", Path::new("log"));
            let called = iter::once(OsStr::new("reprise")).chain(command.get_args());
            let called = called.map(OsStr::to_owned).collect();
            let Command::Execute {
                executable,
                args: got,
            } = parse(called).command
            else {
                panic!("nothing is executed");
            };
            assert_eq!((executable, got), ("exe".into(), args));
        }
    }
}
