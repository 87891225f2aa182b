//! A remote cache, and two hosts that share it.
//!
//! A host is a network namespace: it reaches the server by its own link, and nothing
//! else. The server is one that others wrote, started for one workload and killed
//! afterwards. Messages can be held back on their way, as a network does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::fetch::run;
use crate::support::tree;

/// Two namespaces, each with a link to ours.
#[derive(Debug)]
pub(super) struct Hosts {
    names: [String; 2],
}

/// Which host a command runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Here,
    Elsewhere,
}

impl Hosts {
    /// Makes the namespaces.
    ///
    /// # Errors
    ///
    /// When this user or this kernel cannot make them.
    pub(super) fn new() -> anyhow::Result<Self> {
        let id = std::process::id();
        remove_leftovers()?;
        let hosts = Self {
            names: ["a", "b"].map(|name| format!("reprise-{id}-{name}")),
        };
        for (number, name) in hosts.names.iter().enumerate() {
            let link = format!("rp{}{number}", id % 1_000_000);
            let ours = format!("{}/30", address(Host::of(number), 1));
            let theirs = format!("{}/30", address(Host::of(number), 2));
            ip(&["netns", "add", name])?;
            ip(&[
                "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", name,
            ])?;
            ip(&["address", "add", &ours, "dev", &link])?;
            ip(&["link", "set", &link, "up"])?;
            ip(&["-n", name, "address", "add", &theirs, "dev", "eth0"])?;
            ip(&["-n", name, "link", "set", "eth0", "up"])?;
        }
        Ok(hosts)
    }

    /// A program that is going to run on a host.
    pub(super) fn command(&self, host: Host, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let name = &self.names[usize::from(host == Host::Elsewhere)];
        command.arg(format!("--net=/run/netns/{name}"));
        command.arg("--").arg(program);
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            // Its link goes with it.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

impl Host {
    fn of(number: usize) -> Self {
        if number == 0 {
            Self::Here
        } else {
            Self::Elsewhere
        }
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run(Command::new("ip").args(arguments)).context("two hosts need the rights of root")
}

/// One of the two ends of a host's link, in a net that is this process's own.
fn address(host: Host, end: u8) -> String {
    let id = std::process::id();
    let link = (id % 128) * 2 + u32::from(host == Host::Elsewhere);
    format!("10.{}.{link}.{end}", 128 + (id / 128) % 128)
}

/// Removes the namespaces of processes that were killed.
fn remove_leftovers() -> anyhow::Result<()> {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let id = name
            .strip_prefix("reprise-")
            .and_then(|rest| rest.split('-').next());
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            ip(&["netns", "delete", &name])?;
        }
    }
    Ok(())
}

/// A server that runs; killed when it is dropped.
///
/// It is the child of a thread of its own, because [`measure`](super::measure) takes
/// those of the first one for what a command has left behind.
#[derive(Debug)]
pub(super) struct Server {
    /// The thread, and what ends it when it is dropped.
    keeper: Option<(JoinHandle<()>, Sender<()>)>,
    /// Where it can be reached.
    port: u16,
    _storage: tempfile::TempDir,
}

impl Server {
    /// Starts bazel-remote or buildbox-casd, as its name says.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(super) fn start(program: &Path, latency: Duration) -> anyhow::Result<Self> {
        let storage = tempfile::tempdir().context("a directory for the server")?;
        let port = free_port()?;
        let mut command = Command::new(program);
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("casd") {
            command.arg(format!("--bind=0.0.0.0:{port}"));
            command.arg(storage.path());
        } else {
            command.arg("--dir").arg(storage.path());
            command.args(["--max_size", "10"]);
            command.arg(format!("--grpc_address=0.0.0.0:{port}"));
            command.arg(format!("--http_address=127.0.0.1:{}", free_port()?));
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let ((stop, stopped), (report, reports)) = (channel(), channel());
        let keeper = std::thread::spawn(move || keep(command, port, &report, &stopped));
        let server = Self {
            keeper: Some((keeper, stop)),
            port: match latency.is_zero() {
                true => port,
                false => hold_back(port, latency / 2)?,
            },
            _storage: storage,
        };
        let listens = reports.recv().context("the thread of the server")?;
        listens.with_context(|| format!("starting {}", program.display()))?;
        Ok(server)
    }

    /// The value of `--remote` on a host.
    pub(super) fn url(&self, host: Host) -> String {
        format!("grpc://{}:{}", address(host, 1), self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((keeper, stop)) = self.keeper.take() {
            drop(stop);
            // Whether it panicked: that has been told.
            let _ = keeper.join();
        }
    }
}

/// Runs a server until `stopped` has no sender any more, and reports once whether it
/// listens at `port`.
fn keep(
    mut command: Command,
    port: u16,
    report: &Sender<anyhow::Result<()>>,
    stopped: &Receiver<()>,
) {
    // Who does not want to know any more stops it.
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return drop(report.send(Err(error.into()))),
    };
    let _ = report.send(listens(&mut child, port));
    let _ = stopped.recv();
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits until a server listens, or ends.
fn listens(child: &mut Child, port: u16) -> anyhow::Result<()> {
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = child.try_wait()?;
        ensure!(ended.is_none(), "it ends: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Passes on what comes in at a new port, each byte so much later, and what is
/// answered as well.
fn hold_back(to: u16, delay: Duration) -> anyhow::Result<u16> {
    let listener = TcpListener::bind("0.0.0.0:0").context("a port")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // What cannot be connected is dropped, as a network does.
            let _ = join(&client, to, delay);
        }
    });
    Ok(port)
}

fn join(client: &TcpStream, to: u16, delay: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", to))?;
    for stream in [client, &server] {
        stream.set_nodelay(true)?;
    }
    for (from, to) in [(client, &server), (&server, client)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (sender, receiver) = channel();
        std::thread::spawn(move || take(from, &sender, delay));
        std::thread::spawn(move || give(to, &receiver));
    }
    Ok(())
}

fn take(mut from: TcpStream, sender: &Sender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if sender
            .send((Instant::now() + delay, bytes[..count].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

fn give(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    for (at, bytes) in receiver {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    // Whoever is gone needs not be told.
    let _ = to.shutdown(Shutdown::Write);
}

/// Forgets what a store holds, or all of that but the digests of files: it is set `aside`.
///
/// # Errors
///
/// When something cannot be moved.
pub(super) fn empty_store(store: &Path, digests: bool, aside: &Path) -> anyhow::Result<()> {
    let kept: &[&str] = match digests {
        true => &[
            "digests",
            "digests.lock",
            "format",
            "images",
            "locks",
            "tmp",
        ],
        false => &[],
    };
    tree::set_aside(store, aside, kept).with_context(|| format!("emptying {}", store.display()))
}
