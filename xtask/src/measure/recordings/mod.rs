//! Real programs, recorded and replayed: whether each replay is the recorded run, and what
//! both cost beside the program alone.
//!
//! A round runs the command, its recording, and that recording's replays one after the
//! other, so that all see the same machine; what is printed are medians over the rounds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::support::median::median;
use crate::trials::corpus;

/// Options of `cargo xtask recordings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only programs with this in their names; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How often each program is recorded.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How often each recording is replayed.
    #[arg(long, default_value_t = 1)]
    replays: usize,
    /// The sources of Lua, as `cargo xtask workloads --fetch` leaves them.
    #[arg(long, value_name = "DIR")]
    lua: Option<PathBuf>,
    /// This `reprise`, and not the workspace's own.
    #[arg(long, value_name = "PROGRAM")]
    reprise: Option<PathBuf>,
}

/// A command line for a shell, in a directory with [`FILES`] and what it needs of what is
/// [`MADE`].
struct Program {
    name: &'static str,
    /// Programs that have to be installed.
    needs: &'static [&'static str],
    command: &'static str,
    /// The command before each run, which is not measured.
    before: &'static str,
}

const fn program(
    name: &'static str,
    needs: &'static [&'static str],
    command: &'static str,
) -> Program {
    Program {
        name,
        needs,
        command,
        before: "true",
    }
}

const REDIS: &str = "redis-server --port 7399 --save '' --appendonly no --daemonize no >/dev/null &
    until redis-cli -p 7399 ping >/dev/null 2>&1; do :; done
    redis-benchmark -p 7399 -n 20000 -q -t set,get,lpush >/dev/null
    redis-cli -p 7399 shutdown nosave; wait";
const SQLITE: &str = "rm -f db; sqlite3 db 'create table t(a integer primary key, b text);
    with recursive n(i) as (select 1 union all select i+1 from n where i < 100000)
    insert into t select i, hex(randomblob(8)) from n; create index u on t(b);
    select count(*), min(b) from t; delete from t where a % 3 = 0; vacuum; select sum(a) from t'";
const PYTHON: &str = "python3 -c '
import queue, random, subprocess, threading
q = queue.Queue()
def work(n):
    for i in range(200): q.put((n, random.random()))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
got = [q.get() for _ in range(800)]
for t in threads: t.join()
print([n for n, _ in got][::50], got[-1])
print(subprocess.run([\"date\", \"+%N\"], capture_output=True).stdout)'";
const NODE: &str = "node -e '
const {Worker, isMainThread} = require(\"worker_threads\");
let left = 3, sum = 0;
for (let n = 0; n < 3; n++) {
  const w = new Worker(\"const {parentPort} = require(\\\"worker_threads\\\"); let s = 0; for (let i = 0; i < 1e5; i++) s += Math.random(); parentPort.postMessage(s)\", {eval: true});
  w.on(\"message\", s => { sum += s; if (--left == 0) console.log(sum, Date.now()); });
}'";

const NGINX: &str = "mkdir -p logs; nginx -p . -c nginx.conf &&
    wrk -d 1s -c 8 -t 2 http://127.0.0.1:7398/ | grep -c requests; nginx -p . -c nginx.conf -s quit";
const GIT: &str =
    "cp -r /usr/share/doc repository && cd repository && git init -q . && git add . &&
    git -c user.name=a -c user.email=a@b commit -qm first && git gc -q && git log --stat | wc -l &&
    git rm -qr a* && git status | wc -l && git diff HEAD | wc -l && git fsck 2>&1";

/// Makes room for the next run without removing anything: for minutes after thousands of files
/// were removed, ext4 looks at each inode that was freed lately before it takes another
/// (`recently_deleted` in the kernel's `fs/ext4/ialloc.c`), and a copy of 0.2 s takes 4 s.
const SET_ASIDE: &str = "mkdir -p aside; for it in copy repository; do
    if [ -e $it ]; then mv $it aside/$(date +%s%N); fi; done; sync";

const PROGRAMS: &[Program] = &[
    program("gzip", &["gzip", "blob"], "gzip -c blob > out.gz"),
    program(
        "xz",
        &["xz", "blob"],
        "head -c 6000000 blob | xz -3 -c > out.xz",
    ),
    program(
        "python loop",
        &["python3"],
        "python3 -c 's = 0\nfor i in range(6000000): s += i * i\nprint(s)'",
    ),
    program(
        "dd bs=1",
        &["dd"],
        "dd if=/dev/zero of=out.dd bs=1 count=300000 2>/dev/null",
    ),
    Program {
        name: "cp -r",
        needs: &["cp"],
        command: "cp -r /usr/share/doc copy",
        before: SET_ASIDE,
    },
    program("gcc", &["gcc"], "gcc -o tiny tiny.c"),
    Program {
        name: "make -j2 lua",
        needs: &["make", "gcc", "lua"],
        command: "cd lua && make -j2 >/dev/null",
        before: "cd lua && make clean >/dev/null",
    },
    program(
        "redis",
        &["redis-server", "redis-benchmark", "redis-cli"],
        REDIS,
    ),
    program("sqlite3", &["sqlite3"], SQLITE),
    program("python threads", &["python3"], PYTHON),
    program("node", &["node"], NODE),
    program(
        "git log",
        &["git"],
        "git -C /usr/share log 2>&1 | tail -1; git --version",
    ),
    program(
        "bash",
        &["bash"],
        "for i in $(seq 20); do echo $RANDOM $$ | tr 0-9 a-j | sort; done; ls /usr/bin | wc -l",
    ),
    Program {
        name: "git add, gc",
        needs: &["git"],
        command: GIT,
        before: SET_ASIDE,
    },
    program("java", &["java", "Sums.class"], "java Sums"),
    program("nginx, wrk", &["nginx", "wrk"], NGINX),
    program("go http", &["server"], "./server"),
    program("rayon", &["sums"], "./sums"),
    Program {
        name: "cargo build",
        needs: &["cargo"],
        command: "cd small && cargo build --offline -q --target-dir target && target/debug/small",
        before: "rm -rf small/target",
    },
    program(
        "test_threading",
        &["python3", "test.support"],
        "python3 -m test -q test_threading 2>&1 | grep -c OK",
    ),
    program(
        "test_subprocess",
        &["python3", "test.support"],
        "python3 -m test -q test_subprocess 2>&1 | grep -c OK",
    ),
];

/// Files that the programs are made from, by their names.
const FILES: &[(&str, &str)] = &[
    (
        "tiny.c",
        "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
    ),
    ("Sums.java", include_str!("Sums.java")),
    ("server.go", include_str!("server.go")),
    ("nginx.conf", include_str!("nginx.conf")),
    ("rayon/src/main.rs", include_str!("sums.rs")),
    (
        "rayon/Cargo.toml",
        "[package]\nname = \"sums\"\nedition = \"2024\"\n[dependencies]\nrayon = \"1\"\n[workspace]\n",
    ),
    (
        "small/src/main.rs",
        "fn main() { println!(\"{:?}\", std::env::args().len()); }\n",
    ),
    (
        "small/Cargo.toml",
        "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n",
    ),
];

/// Files for the programs that need them, and the commands that make them.
const MADE: &[(&str, &str)] = &[
    ("blob", "head -c 60000000 /dev/urandom | base64 > blob"),
    ("Sums.class", "javac Sums.java"),
    (
        "server",
        "GO111MODULE=off GOCACHE=$PWD/cache go build -o server server.go",
    ),
    (
        "sums",
        "cd rayon && cargo build --release --offline -q --target-dir target && cp target/release/sums ..",
    ),
    (
        "test.support",
        "python3 -c 'import test.test_threading' && touch test.support",
    ),
];

/// Runs them.
///
/// # Errors
/// When something could not be started; a replay that is another run is counted.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reprise = match &args.reprise {
        Some(reprise) => {
            fs::canonicalize(reprise).with_context(|| reprise.display().to_string())?
        }
        None => corpus::build_reprise(true)?,
    };
    let directory = tempfile::tempdir()?;
    prepare(directory.path(), args.lua.as_deref())?;
    println!(
        "{:<16} {:>9} {:>8} {:>8} {:>12} {:>10}",
        "", "alone", "recorded", "replayed", "KiB a second", "replays"
    );
    let mut failures = 0;
    for program in PROGRAMS {
        let wanted = |only: &String| program.name.contains(only.as_str());
        if !args.only.is_empty() && !args.only.iter().any(wanted) {
            continue;
        }
        for (name, script) in MADE {
            if program.needs.contains(name) && !directory.path().join(name).exists() {
                // What cannot be made is said to be missing.
                let _ = shell(directory.path(), script);
            }
        }
        let is_there = |need: &&str| has(directory.path(), need);
        if let Some(missing) = program.needs.iter().find(|need| !is_there(need)) {
            println!("{:<16} {missing} is not there", program.name);
            continue;
        }
        failures += measure(program, directory.path(), &reprise, args)?;
    }
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn prepare(directory: &Path, lua: Option<&Path>) -> anyhow::Result<()> {
    for (name, content) in FILES {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        fs::write(path, content)?;
    }
    if let Some(lua) = lua {
        let copy = format!("cp -r '{}' lua", lua.display());
        shell(directory, &copy)?;
    }
    Ok(())
}

fn has(directory: &Path, need: &str) -> bool {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&on_path).any(|path| path.join(need).is_file())
        || directory.join(need).exists()
}

/// Runs an unmeasured script.
fn shell(directory: &Path, script: &str) -> anyhow::Result<()> {
    let status = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .status()
        .context("starting sh")?;
    if !status.success() {
        bail!("`{script}` fails: {status}");
    }
    Ok(())
}

fn timed(directory: &Path, command: &mut Command) -> anyhow::Result<(f64, Output)> {
    let begun = Instant::now();
    let output = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    Ok((begun.elapsed().as_secs_f64(), output))
}

/// Measures one program, and prints its line; how many of its replays were another run.
fn measure(
    program: &Program,
    directory: &Path,
    reprise: &Path,
    args: &Args,
) -> anyhow::Result<usize> {
    let trace = directory.join("trace");
    let shell_command = ["sh", "-c", program.command];
    let (mut alone, mut recorded, mut replayed, mut rates) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut right, mut all) = (0, 0);
    for _ in 0..args.rounds {
        shell(directory, program.before)?;
        let (time, _) = timed(directory, Command::new("sh").args(&shell_command[1..]))?;
        alone.push(time);
        shell(directory, program.before)?;
        let _ = fs::remove_dir_all(&trace);
        let mut command = Command::new(reprise);
        command
            .arg("record")
            .arg("-o")
            .arg(&trace)
            .arg("--")
            .args(shell_command);
        let (time, run) = timed(directory, &mut command)?;
        rates.push(fs::metadata(trace.join("events"))?.len() as f64 / 1024.0 / time);
        recorded.push(time);
        for _ in 0..args.replays {
            let (time, again) = timed(directory, Command::new(reprise).arg("replay").arg(&trace))?;
            replayed.push(time);
            all += 1;
            if (&again.stdout, again.status) == (&run.stdout, run.status) {
                right += 1;
            } else {
                eprintln!(
                    "{}: {}",
                    program.name,
                    String::from_utf8_lossy(&again.stderr)
                );
            }
        }
    }
    let [alone, recorded, replayed, rate] = [alone, recorded, replayed, rates].map(median);
    println!(
        "{:<16} {:>7.0}ms {:>7.2}x {:>7.2}x {:>12.0} {:>10}",
        program.name,
        alone * 1e3,
        recorded / alone,
        replayed / alone,
        rate,
        format!("{right}/{all}"),
    );
    Ok(all - right)
}
