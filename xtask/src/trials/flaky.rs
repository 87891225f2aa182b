//! Published crates whose authors know that a test of theirs is flaky, tamed.
//!
//! Each was found in its project's list of issues, and its tests are in what is published.
//! `servo-harness` surveys the test, tames it and explains it; what comes of it is printed,
//! cured or not.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::support::published::{self, build, fetch};
use crate::support::tree;

/// A crate, and what is flaky in it.
struct Known {
    name: &'static str,
    version: &'static str,
    /// Where its authors say so, or those who build all crates.
    issue: &'static str,
    /// A part of the test's name.
    test: &'static str,
    cargo: &'static [&'static str],
    /// Flags of the compiler: old crates forbid what newer compilers warn of.
    flags: &'static str,
    /// Whether the test fails beside others of its executable only: it is surveyed together with
    /// them, and not tamed.
    is_disturbed: bool,
}

const KNOWN: [Known; 18] = [
    Known {
        name: "stretto",
        version: "0.8.4",
        issue: "https://github.com/al8n/stretto/issues/31",
        test: "test_cache_drop_updates",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "tracing-appender",
        version: "0.2.3",
        issue: "https://github.com/tokio-rs/tracing/issues/751",
        test: "logs_dropped_if_lossy",
        cargo: &["--lib", "--", "--ignored"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "threadpool",
        version: "1.8.1",
        issue: "https://github.com/rust-threadpool/rust-threadpool/issues/115",
        test: "test_multi_join",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "popol",
        version: "3.0.0",
        issue: "https://github.com/cloudhead/popol/pull/22",
        test: "tests::test_threaded",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "popol",
        version: "3.0.0",
        issue: "https://github.com/cloudhead/popol/issues/19",
        test: "test_waker_threaded",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "gaffer",
        version: "0.2.0",
        issue: "https://github.com/survemobility/gaffer/issues/3",
        test: "queued_resets_recurring",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "gaffer",
        version: "0.2.0",
        issue: "https://github.com/survemobility/gaffer/issues/3",
        test: "integration_1_thread_blocked",
        cargo: &["--test", "integration"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "rayon",
        version: "1.1.0",
        issue: "https://github.com/rayon-rs/rayon/issues/667",
        test: "iter_panic_fuse",
        cargo: &["--test", "iter_panic"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "tracing-appender",
        version: "0.1.0",
        issue: "https://github.com/tokio-rs/tracing/pull/737",
        test: "multi_threaded_writes",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "quanta",
        version: "0.10.1",
        issue: "https://github.com/metrics-rs/quanta/commit/a4f20550e07c571e2d3d537c72ff4970f04f0a37",
        test: "instant::tests",
        cargo: &["--lib"],
        flags: "--cap-lints=warn",
        is_disturbed: true,
    },
    Known {
        name: "crossbeam-channel",
        version: "0.4.2",
        issue: "https://github.com/crossbeam-rs/crossbeam/issues/477",
        test: "fairness2",
        cargo: &["--test", "ready"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "flexi_logger",
        version: "0.29.0",
        issue: "https://github.com/emabee/flexi_logger/commit/33bf703fba776f458a0967401dca30d83c465711",
        test: "test_multi_threaded_dates",
        cargo: &["--test", "test_multi_threaded_dates"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "update_rate",
        version: "2.0.1",
        issue: "https://github.com/rust-lang/crater/commit/9d272edd4bebfdfd2723b59788b793faf799a7f7",
        test: "test_discrete_rate_counter_immut",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "fine_grained",
        version: "0.1.2",
        issue: "https://github.com/BMeu/Fine-Grained/commit/5f6e0a8",
        test: "repetitive_measurements",
        cargo: &["--test", "repetitive_measurements"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "fine_grained",
        version: "0.1.2",
        issue: "https://github.com/BMeu/Fine-Grained/commit/5f6e0a8",
        test: "single_measurement",
        cargo: &["--test", "single_measurement"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "matecito",
        version: "0.1.6",
        issue: "https://github.com/rust-lang/crater/commit/31b9f3355cf1441c47e793a303addbbac1412c90",
        test: "test_simple",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "workpool",
        version: "0.2.1",
        issue: "https://github.com/rust-lang/crater/commit/04338d75f64cb6aefad36a0761be62546df4339f",
        test: "dynamic_pool::tests::collect_into_vec",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
    Known {
        name: "workpool",
        version: "0.2.1",
        issue: "https://github.com/rust-lang/crater/commit/04338d75f64cb6aefad36a0761be62546df4339f",
        test: "static_pool::tests::collect_into_vec",
        cargo: &["--lib"],
        flags: "",
        is_disturbed: false,
    },
];

/// Options of `cargo xtask flaky`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this crate; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Plain runs of the test, and replays.
    #[arg(short = 'n', long, default_value_t = 100)]
    runs: u32,
    /// Threads that compute beside the plain runs and the replays.
    #[arg(long, default_value_t = 3)]
    load: usize,
    /// The engine that records: `auto`, `rr-channel`, `rr-channel-std` or `reprise`.
    #[arg(long, default_value = "auto")]
    engine: String,
    /// Where the sources are, and what is built.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Tames them.
///
/// # Errors
///
/// When a source cannot be had or built.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = published::work(args.work.as_ref(), "flaky")?;
    let harness = build(&["servo-harness", "reprise"], "servo-harness")?;
    let is_wanted =
        |known: &&Known| args.only.is_empty() || args.only.iter().any(|only| only == known.name);
    for known in KNOWN.iter().filter(is_wanted) {
        let source = fetch(&work, known.name, known.version)?;
        // With today's dependencies: some published lock files hold versions that are too old for
        // what records.
        if !source.join("target").exists() {
            tree::remove(&source.join("Cargo.lock"))?;
        }
        println!("{} {}, {}", known.name, known.version, known.issue);
        let load = args.load.to_string();
        let call = |command: &str, options: &[&str]| {
            Command::new(&harness)
                .arg(command)
                .args(options)
                .args(["--timeout", "120", "--load", &load, "--state"])
                .arg(source.join(format!("target/{}", args.engine)))
                .args(["--", "cargo", "test"])
                .args(known.cargo)
                .current_dir(&source)
                .env_remove("CARGO_TARGET_DIR")
                .envs((!known.flags.is_empty()).then_some(("RUSTFLAGS", known.flags)))
                .status()
                .context("starting servo-harness")
        };
        let (runs, engine) = (args.runs.to_string(), args.engine.as_str());
        let runs = ["--only", known.test, "--precision", "0", "--runs", &runs];
        // That a test is intermittent is what is expected.
        if known.is_disturbed {
            call("survey", &runs)?;
            continue;
        }
        call("tame", &[&runs[..], &["--engine", engine]].concat())?;
        call("explain", &[known.test, "--engine", engine])?;
    }
    Ok(ExitCode::SUCCESS)
}
