//! The same with a stock server: bazel-remote, if there is one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{check_shared, sandbox};
use crate::support::program;

/// A bazel-remote on a port of its own; killed when it is dropped.
struct Stock {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Stock {
    /// The one in `$BAZEL_REMOTE` or on the path; `None` without.
    fn start() -> Option<Self> {
        let named = std::env::var("BAZEL_REMOTE").ok();
        let Some(binary) = named.or_else(|| program(&["bazel-remote"])) else {
            eprintln!("skipped: there is no bazel-remote on the path, nor in $BAZEL_REMOTE");
            return None;
        };
        // A port that was free a moment ago may be taken: then the next one.
        (0..5).find_map(|_| Self::start_once(&binary))
    }

    fn start_once(binary: &str) -> Option<Self> {
        let free = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let (port, other) = (free(), free());
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(binary)
            .arg("--dir")
            .arg(dir.path())
            .args(["--max_size", "1"])
            .arg(format!("--grpc_address=127.0.0.1:{port}"))
            .arg(format!("--http_address=127.0.0.1:{other}"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bazel-remote starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its lines")).lines();
        let started = lines.any(|line| line.is_ok_and(|line| line.contains("Starting gRPC")));
        // It goes on to talk, and must not find the pipe closed.
        std::thread::spawn(move || lines.count());
        let reaches = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        // Between saying so and listening there is a moment.
        while started && !reaches() {
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            std::thread::yield_now();
        }
        started.then_some(Self {
            child,
            port,
            _dir: dir,
        })
    }

    fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_stock_server_serves() {
    let Some(server) = Stock::start() else {
        return;
    };
    let sandbox = sandbox("seq 900000 > f; mkdir d; : > d/e", &server.url());
    check_shared(
        &sandbox,
        "sort -r f > g; cp f h; rm -r d; ln -s g l; cat f; echo x >&2; exit 4",
    );
}

#[test]
fn a_stock_server_may_be_killed() {
    let Some(mut server) = Stock::start() else {
        return;
    };
    let sandbox = sandbox("seq 3000 > f", &server.url());
    let plain = sandbox.plain("sort -r f > g");
    sandbox.reset();
    sandbox.cached("sort -r f > g");
    let _ = server.child.kill();
    let _ = server.child.wait();
    sandbox.elsewhere();
    let run = sandbox.cached("sort -r f > g");
    run.assert_like(&plain, "with a dead server");
    assert!(!run.is_hit());
}
