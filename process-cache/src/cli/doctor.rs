//! `doctor`: checks what this machine supports.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{StoreArgs, directory, open};
use crate::policy::config::Config;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The state of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Good,
    /// It works, but could work better.
    Fair,
    /// pcache cannot work.
    Bad,
}

/// One checked item.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    /// The consequence, if the state is not good.
    meaning: String,
}

/// Checks everything; returns whether no item is bad.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<bool> {
    let findings = [
        kernel(),
        tracing(),
        privileges(),
        skipping(),
        configuration(),
        store(&args.store),
        file_system(&args.store),
    ];
    if args.json {
        println!("{:#}", json!({ "version": 1, "findings": findings }));
    } else {
        for finding in &findings {
            let mark = match finding.state {
                State::Good => "ok  ",
                State::Fair => "note",
                State::Bad => "BAD ",
            };
            println!("{mark} {:<13} {}", finding.what, finding.found);
            if !finding.meaning.is_empty() {
                println!("                   {}", finding.meaning);
            }
        }
    }
    Ok(findings.iter().all(|finding| finding.state != State::Bad))
}

fn finding(what: &'static str, state: State, found: impl Into<String>, meaning: &str) -> Finding {
    Finding {
        what,
        state,
        found: found.into(),
        meaning: meaning.to_owned(),
    }
}

fn kernel() -> Finding {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {release}, {}", uname.machine().to_string_lossy());
    if version >= (5, 3) {
        finding("kernel", State::Good, found, "")
    } else {
        finding(
            "kernel",
            State::Bad,
            found,
            "pcache needs Linux 5.3 or later",
        )
    }
}

fn tracing() -> Finding {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        Ok("3") => finding(
            "ptrace",
            State::Bad,
            "switched off (kernel.yama.ptrace_scope is 3)",
            "commands cannot be traced; pcache --fallback runs them plainly",
        ),
        Ok(scope) => finding(
            "ptrace",
            State::Good,
            format!("allowed (yama scope {scope})"),
            "",
        ),
        Err(_) => finding("ptrace", State::Good, "allowed (no yama)", ""),
    }
}

fn privileges() -> Finding {
    if rustix::process::geteuid().is_root() {
        return finding(
            "set-uid",
            State::Good,
            "run as root: set-uid programs keep their rights",
            "",
        );
    }
    finding(
        "set-uid",
        State::Fair,
        "set-uid programs (sudo, ping) lose their rights in a traced command",
        "--no-seccomp lets them run as usual, and makes the first run slower",
    )
}

/// Traces, stores and skips a program in a temporary store.
fn skipping() -> Finding {
    let bad = |found: String| {
        let meaning = "in a container, allow ptrace: --cap-add=SYS_PTRACE, or a seccomp profile \
                       that permits it";
        finding("skipping", State::Bad, found, meaning)
    };
    let (Ok(own), Ok(dir)) = (std::env::current_exe(), tempfile::tempdir()) else {
        return bad("there is no place for a test".to_owned());
    };
    let report = dir.path().join("report.json");
    let mut last = String::new();
    for _ in 0..2 {
        let output = Command::new(&own)
            .args(["--quiet", "--min-time", "0", "--cache-dir"])
            .arg(dir.path().join("store"))
            .arg("--json")
            .arg(&report)
            .args(["--", "sh", "-c", "cat /etc/passwd > copy"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => return bad(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => return bad(error.to_string()),
        }
        last = std::fs::read_to_string(&report).unwrap_or_default();
        // The second run makes it again.
        let _ = std::fs::remove_file(dir.path().join("copy"));
    }
    let json: serde_json::Value = serde_json::from_str(&last).unwrap_or_default();
    let unit = &json["units"][0];
    if unit["result"] == "hit" {
        finding(
            "skipping",
            State::Good,
            "a program was traced, stored and skipped",
            "",
        )
    } else if let Some(limit) = super::resources::too_small() {
        finding(
            "skipping",
            State::Fair,
            format!("not tried: {limit}"),
            "commands run without a cache",
        )
    } else if last.is_empty() {
        finding(
            "skipping",
            State::Fair,
            "not tried: pcache is switched off here, or runs inside of another pcache",
            "",
        )
    } else {
        let why = unit["reason"]
            .as_str()
            .or(unit["miss"].as_str())
            .unwrap_or_default();
        finding(
            "skipping",
            State::Bad,
            format!("a program was traced, and not skipped: {why}"),
            "something here makes all programs differ, or uncacheable",
        )
    }
}

fn configuration() -> Finding {
    let path = Config::path();
    let there = path.as_deref().is_some_and(Path::exists);
    let shown = path.map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string());
    match Config::load() {
        Ok(_) if !there => finding(
            "configuration",
            State::Good,
            format!("none (it would be {shown}; pcache example-config prints one)"),
            "",
        ),
        Ok(config) => finding(
            "configuration",
            State::Good,
            format!(
                "{shown}: {} variables ignored, {} programs always run, {} constant places",
                config.ignore_variables.len(),
                config.uncacheable.len(),
                config.constant_paths.len()
            ),
            "",
        ),
        Err(error) => finding(
            "configuration",
            State::Bad,
            error.to_string(),
            "pcache refuses to run with it",
        ),
    }
}

fn store(args: &StoreArgs) -> Finding {
    let Ok(dir) = directory(args) else {
        return finding(
            "store",
            State::Bad,
            "nowhere",
            "set PCACHE_DIR, XDG_CACHE_HOME or HOME",
        );
    };
    if !dir.exists() {
        return finding(
            "store",
            State::Good,
            format!("{} (not there yet)", dir.display()),
            "",
        );
    }
    match open(args, false) {
        Ok(store) if store.is_read_only() => finding(
            "store",
            State::Fair,
            format!("{} cannot be written", dir.display()),
            "what is there is used, nothing is added",
        ),
        Ok(store) => match store.stats() {
            Ok(stats) => finding(
                "store",
                State::Good,
                format!("{}: {} MiB", dir.display(), stats.bytes >> 20),
                "",
            ),
            Err(error) => finding("store", State::Bad, error.to_string(), ""),
        },
        Err(error) => finding(
            "store",
            State::Bad,
            format!("{error:#}"),
            "commands run without a cache",
        ),
    }
}

fn file_system(args: &StoreArgs) -> Finding {
    const NETWORK: [(u64, &str); 4] = [
        (0x6969, "NFS"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x6573_5546, "FUSE"),
    ];
    let dir = directory(args).unwrap_or_default();
    let place = dir.ancestors().find(|place| place.exists());
    let Some(Ok(found)) = place.map(rustix::fs::statvfs) else {
        return finding("file system", State::Fair, "cannot be examined", "");
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    if free < 512 {
        return finding(
            "file system",
            State::Fair,
            format!("{free} MiB are free"),
            "when nothing is left, commands run and are not stored",
        );
    }
    let kind = place.and_then(|place| rustix::fs::statfs(place).ok());
    let kind = kind.map_or(0, |kind| kind.f_type as u64 & 0xffff_ffff);
    if let Some((_, name)) = NETWORK.iter().find(|(magic, _)| *magic == kind) {
        return finding(
            "file system",
            State::Fair,
            format!("{name}, {free} MiB free"),
            "a local disk is faster: PCACHE_DIR",
        );
    }
    if found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        return finding(
            "file system",
            State::Fair,
            format!("{free} MiB free, mounted noexec"),
            "first runs are slower: patched copies of the C library cannot be kept there",
        );
    }
    finding("file system", State::Good, format!("{free} MiB free"), "")
}
