#![expect(unsafe_code, reason = "forks")]
//! Programs of several processes, each of which has a part of the recording.
//!
//! **Safety** rests on: the forking thread is the process's only one.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio, exit};

use rr_channel::crossbeam_channel::unbounded;
use rr_channel::ipc_channel::IpcError;
use rr_channel::ipc_channel::ipc::{self, IpcOneShotServer, IpcReceiver, IpcSender};
use rr_channel::thread;
use serde::{Deserialize, Serialize};

use crate::locks::pause;
use crate::programs::{Outcome, line};

const SERVER: &str = "RR_CHANNEL_TEST_SERVER";

/// The messages to the first process.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Item(String, usize, usize),
    /// In which order a process's own threads were heard.
    Heard(String, Vec<(usize, usize)>),
}

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "gathered" => gathered(),
        "forked" => forked(),
        "replaced" => replaced(),
        "behind_a_shell" => behind_a_shell(),
        "killed_child" => killed_child(),
        "hasty" => hasty(),
        "listener" => listener(),
        "worker" => worker(&welcome(), "worker"),
        "boss" => boss(),
        "changeling" => changeling(),
        "waiting" => waiting(),
        other => panic!("no program called {other}"),
    }
}

/// This executable again, as another program.
fn program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "programs::run", "--nocapture"])
        .arg("--test-threads=1")
        .env("RR_CHANNEL_TEST_PROGRAM", format!("processes {name}"))
        .stdout(Stdio::null());
    command
}

type Welcome = IpcSender<IpcSender<Said>>;

/// Starts a process, which is given a sender.
fn start(command: &mut Command, tx: &IpcSender<Said>) -> Child {
    let (server, name) = IpcOneShotServer::<Welcome>::new().unwrap();
    let child = command.env(SERVER, name).spawn().unwrap();
    let (_, welcome) = server.accept().unwrap();
    welcome.send(tx.clone()).unwrap();
    child
}

/// Connects a started process to the first one.
fn welcome() -> IpcSender<Said> {
    let (give, given) = ipc::channel().unwrap();
    let hello = IpcSender::<Welcome>::connect(std::env::var(SERVER).unwrap()).unwrap();
    hello.send(give).unwrap();
    given.recv().unwrap()
}

/// Threads that race, within the process and for the way out of it.
fn worker(tx: &IpcSender<Said>, name: &str) -> Outcome {
    let (here, heard) = unbounded();
    let threads: Vec<_> = (0..3)
        .map(|who| {
            let (tx, here, name) = (tx.clone(), here.clone(), name.to_owned());
            thread::spawn(move || {
                for n in 0..10 {
                    here.send((who, n)).unwrap();
                    pause(who, n);
                    tx.send(Said::Item(name.clone(), who, n)).unwrap();
                }
            })
        })
        .collect();
    drop(here);
    let heard: Vec<_> = heard.iter().collect();
    tx.send(Said::Heard(name.to_owned(), heard)).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    vec![name.to_owned()]
}

fn drain(rx: &IpcReceiver<Said>) -> Vec<Said> {
    let mut seen = Vec::new();
    loop {
        match rx.recv() {
            Ok(said) => seen.push(said),
            Err(IpcError::Disconnected) => return seen,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Processes that two threads start, one of which starts another one, send into one
/// channel.
fn gathered() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let starters = ["worker", "boss"].map(|name| {
        let tx = tx.clone();
        thread::spawn(move || {
            let mut children = [
                start(&mut program(name), &tx),
                start(&mut program("worker"), &tx),
            ];
            drop(tx);
            for child in &mut children {
                assert!(child.wait().unwrap().success());
            }
        })
    });
    drop(tx);
    let seen = drain(&rx);
    for starter in starters {
        starter.join().unwrap();
    }
    vec![line("main", &seen)]
}

fn boss() -> Outcome {
    let tx = welcome();
    let mut child = start(&mut program("worker"), &tx);
    worker(&tx, "boss");
    drop(tx);
    assert!(child.wait().unwrap().success());
    vec!["boss".to_owned()]
}

/// Copies of the process, which go on with its state.
fn forked() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let (before, earlier) = unbounded();
    before.send((9, 9)).unwrap();
    let mut children = Vec::new();
    for name in ["first", "second"] {
        // SAFETY: the only thread.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            assert_eq!(earlier.recv(), Ok((9, 9)));
            let more = before.clone();
            let threads = [3, 4].map(|who| {
                let more = more.clone();
                thread::spawn(move || (0..10).for_each(|n| more.send((who, n)).unwrap()))
            });
            let heard: Vec<_> = earlier.iter().take(20).collect();
            for thread in threads {
                thread.join().unwrap();
            }
            tx.send(Said::Heard(name.to_owned(), heard)).unwrap();
            worker(&tx, name);
            drop(tx);
            exit(0);
        }
        children.push(pid);
    }
    drop(tx);
    let seen = drain(&rx);
    for pid in children {
        let mut status = 0;
        // SAFETY: the status is written to a variable of this function.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
    vec![line("main", &seen)]
}

/// Programs that come after fork(2), and in place of another one.
fn replaced() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let mut command = program("worker");
    // SAFETY: does nothing. It has the process forked before it executes the program.
    unsafe { command.pre_exec(|| Ok(())) };
    let mut children = [
        start(&mut command, &tx),
        start(&mut program("changeling"), &tx),
    ];
    drop(tx);
    let seen = drain(&rx);
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    vec![line("main", &seen)]
}

fn changeling() -> Outcome {
    let (tx, rx) = unbounded();
    let threads = [0, 1].map(|who| {
        let tx = tx.clone();
        thread::spawn(move || (0..10).for_each(|n| tx.send((who, n)).unwrap()))
    });
    drop(tx);
    let seen: Vec<_> = rx.iter().collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Goes on as another one, which says so as well.
    let error = program(if seen[0].0 == 0 { "worker" } else { "boss" }).exec();
    panic!("{error}");
}

/// The shell is told its identity, and the processes that it starts are not part of the recording.
fn behind_a_shell() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let worker = program("worker");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "\"$0\" \"$@\"; exit $?"])
        .arg(worker.get_program())
        .args(worker.get_args())
        .env("RR_CHANNEL_TEST_PROGRAM", "processes worker")
        .stdout(Stdio::null());
    let mut child = start(&mut shell, &tx);
    drop(tx);
    let seen = drain(&rx);
    assert!(child.wait().unwrap().success());
    vec![line("main", &seen)]
}

/// A process that does not come to its end.
fn killed_child() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let mut child = start(&mut program("waiting"), &tx);
    drop(tx);
    // All but those of the process's threads that end only with it.
    let seen: Vec<_> = (0..31).map(|_| rx.recv().unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    vec![line("main", &seen)]
}

fn waiting() -> Outcome {
    let tx = welcome();
    worker(&tx, "waiting");
    let (_tx, never) = unbounded::<()>();
    never.recv().unwrap();
    unreachable!("killed");
}

/// A process that exits while one of its threads sends, and does not wait for the receiver.
#[expect(
    clippy::zombie_processes,
    reason = "it is gone before the other one is"
)]
fn hasty() -> Outcome {
    let (server, name) = IpcOneShotServer::<IpcSender<Welcome>>::new().unwrap();
    let mut command = program("listener");
    command.env(SERVER, name).spawn().unwrap();
    let (_, answers) = server.accept().unwrap();
    let (give, given) = ipc::channel().unwrap();
    answers.send(give).unwrap();
    let to_listener = given.recv().unwrap();
    let (heard, hear) = unbounded();
    thread::spawn(move || {
        for n in 0..30 {
            to_listener.send(Said::Item(String::new(), 0, n)).unwrap();
            pause(0, n);
            let _ = heard.send(n);
        }
    });
    let heard: Vec<_> = hear.iter().take(3).collect();
    vec![line("main", &heard)]
}

/// Hears as much as there is.
fn listener() -> Outcome {
    let (answers, answer) = ipc::channel::<Welcome>().unwrap();
    let hello = IpcSender::connect(std::env::var(SERVER).unwrap()).unwrap();
    hello.send(answers).unwrap();
    let (tx, rx) = ipc::channel().unwrap();
    answer.recv().unwrap().send(tx).unwrap();
    let heard = drain(&rx);
    vec![line("listener", &heard)]
}
