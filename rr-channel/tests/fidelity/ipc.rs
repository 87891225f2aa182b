//! Programs whose nondeterminism lies in the channels of ipc-channel.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};
use std::task::Poll;
use std::time::Duration;

use futures_executor::block_on;
use futures_util::{StreamExt as _, future, stream};
use rr_channel::crossbeam_channel::unbounded;
use rr_channel::ipc_channel::ipc::{
    self, IpcOneShotServer, IpcReceiver, IpcReceiverSet, IpcSelectionResult, IpcSender,
    IpcSharedMemory, OpaqueIpcReceiver, OpaqueIpcSender,
};
use rr_channel::ipc_channel::router::{ROUTER, RouterProxy};
use rr_channel::ipc_channel::{IpcError, TryRecvError, TrySelectError};
use rr_channel::thread;

use crate::locks::pause;
use crate::programs::{Outcome, joined, line};

type Item = (usize, usize);

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "senders" => senders(),
        "try_recv" => try_recv(),
        "streams" => streams(),
        "timeouts" => timeouts(),
        "refused" => refused(),
        "bytes" => bytes(),
        "big" => big(),
        "killed" => killed(),
        "withheld" => withheld(),
        "withheld_from_set" => withheld_from_set(),
        "set" => set(),
        "try_select" => try_select(),
        "router" => router(),
        "routers" => routers(),
        "channels_in_messages" => channels_in_messages(),
        "receivers_in_messages" => receivers_in_messages(),
        "server" => server(),
        "other_process" => other_process(),
        "echo" => echo(),
        "to_another_process" => to_another_process(),
        "gather" => gather(),
        "talk" => talk(),
        "converse" => converse(),
        other => panic!("no program called {other}"),
    }
}

fn send_all(tx: &IpcSender<Item>, who: usize, count: usize) {
    for n in 0..count {
        tx.send((who, n)).unwrap();
        pause(who, n);
    }
}

fn spawn_senders(tx: IpcSender<Item>, count: usize) -> Vec<thread::JoinHandle<()>> {
    (0..4)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || send_all(&tx, who, count))
        })
        .collect()
}

fn join(handles: Vec<thread::JoinHandle<()>>) {
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
}

fn drain(rx: &IpcReceiver<Item>) -> Vec<Item> {
    let mut seen = Vec::new();
    loop {
        match rx.recv() {
            Ok(item) => seen.push(item),
            Err(IpcError::Disconnected) => return seen,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Several threads that send to one.
fn senders() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let senders = spawn_senders(tx, 100);
    let seen = drain(&rx);
    join(senders);
    vec![line("main", &seen)]
}

fn try_recv() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let senders = spawn_senders(tx, 50);
    let mut seen = Vec::new();
    loop {
        match rx.try_recv() {
            Ok(item) => seen.push(Some(item)),
            Err(TryRecvError::Empty) => seen.push(None),
            Err(TryRecvError::IpcError(IpcError::Disconnected)) => break,
            Err(error) => panic!("{error}"),
        }
        thread::yield_now();
    }
    join(senders);
    vec![line("main", &seen)]
}

/// Two streams that are polled in turn, by a task that sleeps where neither has anything.
fn streams() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let (other_tx, other_rx) = ipc::channel().unwrap();
    let senders = [spawn_senders(tx, 30), spawn_senders(other_tx, 30)];
    let mut polls = 0;
    let mut seen = Vec::new();
    let mut both = stream::select(
        rx.to_stream().map(|item| (1, item.unwrap())),
        other_rx.to_stream().map(|item| (2, item.unwrap())),
    );
    block_on(future::poll_fn(|ctx| {
        loop {
            polls += 1;
            match both.poll_next_unpin(ctx) {
                Poll::Ready(Some(item)) => seen.push(item),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }));
    senders.into_iter().for_each(join);
    vec![line("polls", &polls), line("main", &seen)]
}

/// Timeouts that race with messages.
fn timeouts() -> Outcome {
    let (tx, rx) = ipc::channel().unwrap();
    let senders: Vec<_> = (0..2)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || {
                for n in 0..40 {
                    thread::sleep(Duration::from_micros(700 + 100 * (n as u64 % 5)));
                    tx.send((who, n)).unwrap();
                }
            })
        })
        .collect();
    drop(tx);
    let mut seen = Vec::new();
    loop {
        match rx.try_recv_timeout(Duration::from_millis(1)) {
            Ok(item) => seen.push(Some(item)),
            Err(TryRecvError::Empty) => seen.push(None),
            Err(_) => break,
        }
    }
    join(senders);
    vec![line("main", &seen)]
}

/// Sends that race with the end of the receiver.
fn refused() -> Outcome {
    let (tx, rx) = ipc::channel::<Item>().unwrap();
    let handles: Vec<_> = (0..3)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || {
                let sent: Vec<_> = (0..60)
                    .map(|n| {
                        pause(who, n);
                        tx.send((who, n)).is_ok()
                    })
                    .collect();
                line(&format!("thread {who}"), &sent)
            })
        })
        .collect();
    let seen: Vec<_> = (0..50).map(|_| rx.recv().unwrap()).collect();
    drop(rx);
    let mut outcome = joined(handles);
    outcome.push(line("main", &seen));
    outcome
}

fn bytes() -> Outcome {
    let (tx, rx) = ipc::bytes_channel().unwrap();
    let handles: Vec<_> = (0..3_u8)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || {
                for n in 0..60 {
                    tx.send(&[who, n]).unwrap();
                    pause(who.into(), n.into());
                }
            })
        })
        .collect();
    drop(tx);
    let mut seen = Vec::new();
    for n in 0.. {
        let found = if n % 2 == 0 {
            rx.recv().map_err(TryRecvError::IpcError)
        } else {
            rx.try_recv()
        };
        match found {
            Ok(bytes) => seen.push(bytes),
            Err(TryRecvError::Empty) => seen.push(Vec::new()),
            Err(_) => break,
        }
    }
    join(handles);
    vec![line("main", &seen)]
}

/// Messages that upstream sends in pieces, and more of them than a channel holds.
fn big() -> Outcome {
    let (tx, rx) = ipc::channel::<(usize, Vec<u8>)>().unwrap();
    let senders: Vec<_> = (0..3)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || {
                for n in 0..250 {
                    let len = if n % 125 == who { 300_000 } else { n };
                    tx.send((who, vec![who as u8; len])).unwrap();
                }
            })
        })
        .collect();
    drop(tx);
    let mut seen = Vec::new();
    while let Ok((who, bytes)) = rx.recv() {
        assert!(bytes.iter().all(|byte| usize::from(*byte) == who));
        seen.push((who, bytes.len()));
        pause(who, bytes.len());
    }
    join(senders);
    vec![line("main", &seen)]
}

/// The process dies while its threads send.
fn killed() -> Outcome {
    let (tx, rx) = ipc::channel::<Item>().unwrap();
    let mut set = IpcReceiverSet::new().unwrap();
    for who in 0..3 {
        let tx = tx.clone();
        let (to_set, of_set) = ipc::channel::<Item>().unwrap();
        set.add(of_set).unwrap();
        // Fewer than the channel has room for: what room a sender finds is not replayed.
        thread::spawn(move || {
            for n in 0..60 {
                tx.send((who, n)).unwrap();
                to_set.send((who, n)).unwrap();
            }
            loop {
                thread::park();
            }
        });
    }
    let mut seen = Vec::new();
    let mut batches = Vec::new();
    for n in 0..100 {
        seen.push(rx.recv().unwrap());
        if n % 10 == 0 {
            let results = set.try_select().unwrap_or_default();
            batches.push(batch(results, &mut 0));
        }
    }
    println!("\noutcome: {seen:?} {batches:?}");
    let pid = std::process::id().to_string();
    let _ = Command::new("kill").args(["-9", &pid]).status();
    unreachable!("killed");
}

/// With `DIVERGE`, the recorded message never comes, and no other thread moves.
fn withheld() -> Outcome {
    let diverge = std::env::var_os("DIVERGE").is_some();
    let (tx, rx) = ipc::channel::<Item>().unwrap();
    let first = tx.clone();
    let silent = thread::spawn(move || {
        if !diverge {
            first.send((1, 1)).unwrap();
        }
    });
    silent.join().unwrap();
    let other = tx.clone();
    let other = thread::spawn(move || other.send((2, 2)).unwrap());
    other.join().unwrap();
    let seen = rx.recv().unwrap();
    drop(tx);
    vec![line("got", &seen)]
}

/// The same of a set.
fn withheld_from_set() -> Outcome {
    let diverge = std::env::var_os("DIVERGE").is_some();
    let mut set = IpcReceiverSet::new().unwrap();
    let channels: Vec<_> = (0..2).map(|_| ipc::channel::<Item>().unwrap()).collect();
    let mut senders = Vec::new();
    for (tx, rx) in channels {
        set.add(rx).unwrap();
        senders.push(tx);
    }
    let of_thread = senders.clone();
    let sender = thread::spawn(move || of_thread[usize::from(diverge)].send((3, 3)).unwrap());
    sender.join().unwrap();
    let seen = batch(set.select().unwrap(), &mut 0);
    drop(senders);
    vec![line("got", &seen)]
}

/// A set of three channels, each with its sender or senders.
fn fill_set() -> (IpcReceiverSet, Vec<thread::JoinHandle<()>>) {
    let mut set = IpcReceiverSet::new().unwrap();
    let mut handles = Vec::new();
    for channel in 0..3 {
        let (tx, rx) = ipc::channel::<Item>().unwrap();
        if channel == 0 {
            set.add_opaque(rx.to_opaque()).unwrap();
        } else {
            set.add(rx).unwrap();
        }
        for who in 0..=channel {
            let tx = tx.clone();
            handles.push(thread::spawn(move || send_all(&tx, who, 40)));
        }
    }
    (set, handles)
}

/// The results of a selection; counts closed channels.
fn batch(results: Vec<IpcSelectionResult>, closed: &mut usize) -> Vec<(u64, Option<Item>)> {
    results
        .into_iter()
        .map(|result| match result {
            IpcSelectionResult::MessageReceived(id, message) => (id, Some(message.to().unwrap())),
            IpcSelectionResult::ChannelClosed(id) => {
                *closed += 1;
                (id, None)
            }
        })
        .collect()
}

fn set() -> Outcome {
    let (mut set, handles) = fill_set();
    let mut closed = 0;
    let mut seen = Vec::new();
    while closed < 3 {
        seen.push(batch(set.select().unwrap(), &mut closed));
    }
    join(handles);
    vec![line("main", &seen)]
}

fn try_select() -> Outcome {
    let (mut set, handles) = fill_set();
    let mut closed = 0;
    let mut seen = Vec::new();
    for n in 0.. {
        let found = if n % 3 == 0 {
            set.try_select_timeout(Duration::from_micros(1500))
        } else {
            set.try_select()
        };
        match found {
            Ok(results) => seen.push(batch(results, &mut closed)),
            Err(TrySelectError::Empty) => seen.push(Vec::new()),
            Err(error) => panic!("{error}"),
        }
        if closed == 3 {
            break;
        }
        thread::yield_now();
    }
    join(handles);
    vec![line("main", &seen)]
}

/// The process's router, which threads start and use at the same time.
fn router() -> Outcome {
    let (called, calls) = unbounded();
    let handles: Vec<_> = (0..3)
        .map(|who| {
            let called = called.clone();
            thread::spawn(move || {
                for n in 0..10 {
                    let (tx, rx) = ipc::channel::<Item>().unwrap();
                    let called = called.clone();
                    let callback = move |item: Result<Item, _>| called.send(item.unwrap()).unwrap();
                    if n == 5 {
                        ROUTER.add_typed_one_shot_route(rx, Box::new(callback));
                        tx.send((who, n)).unwrap();
                    } else {
                        ROUTER.add_typed_route(rx, Box::new(callback));
                        send_all(&tx, who, n);
                    }
                    // A channel of the thread's own: its name must not depend on the router.
                    let (tx, rx) = unbounded();
                    tx.send(n).unwrap();
                    assert_eq!(rx.recv(), Ok(n));
                }
            })
        })
        .collect();
    drop(called);
    let seen: Vec<_> = calls.iter().collect();
    join(handles);
    ROUTER.shutdown();
    vec![line("calls", &seen)]
}

/// Several routers, whose callbacks send on.
fn routers() -> Outcome {
    let (tx, rx) = ipc::channel::<Item>().unwrap();
    let routers: Vec<_> = (0..2).map(|_| RouterProxy::new()).collect();
    let mut handles = Vec::new();
    for who in 0..4 {
        let (tx_of_route, rx_of_route) = ipc::channel::<Item>().unwrap();
        let tx = tx.clone();
        let callback = move |item: Result<Item, _>| tx.send(item.unwrap()).unwrap();
        routers[who % 2].add_typed_route(rx_of_route, Box::new(callback));
        handles.push(thread::spawn(move || send_all(&tx_of_route, who, 30)));
    }
    let direct = routers[0].route_ipc_receiver_to_new_crossbeam_receiver({
        let (tx, rx) = ipc::channel::<Item>().unwrap();
        handles.push(thread::spawn(move || send_all(&tx, 9, 30)));
        rx
    });
    drop(tx);
    let mut seen = drain(&rx);
    seen.extend(direct.iter());
    join(handles);
    vec![line("calls", &seen)]
}

/// Requests that bring the sender for their answer, and something else.
fn channels_in_messages() -> Outcome {
    type Answer = (IpcSender<Item>, Item);
    type Request = (OpaqueIpcSender, Item, IpcSharedMemory);
    let (tx, rx) = ipc::channel::<Request>().unwrap();
    let clients: Vec<_> = (0..3)
        .map(|who| {
            let tx = tx.clone();
            thread::spawn(move || {
                let mut seen = Vec::new();
                for n in 0..20 {
                    let (answer, answers) = ipc::channel::<Answer>().unwrap();
                    let memory = IpcSharedMemory::from_bytes(&[who as u8, n as u8][..n % 3]);
                    tx.send((answer.to_opaque(), (who, n), memory)).unwrap();
                    // The sender that comes back is of a channel that the server made.
                    let (back, item) = answers.recv().unwrap();
                    back.send((who, 100 + n)).unwrap();
                    seen.push(item);
                }
                line(&format!("client {who}"), &seen)
            })
        })
        .collect();
    drop(tx);
    let mut seen = Vec::new();
    let (back, backs) = ipc::channel::<Item>().unwrap();
    for n in 0..60 {
        let (answer, item, memory) = rx.recv().unwrap();
        assert!(memory.len() == item.1 % 3 && memory.iter().all(|b| *b < 20));
        seen.push(item);
        answer.to::<Answer>().send((back.clone(), (n, 0))).unwrap();
        if let Ok(item) = backs.try_recv() {
            seen.push(item);
        }
    }
    drop(back);
    seen.extend(drain(&backs));
    let mut outcome = joined(clients);
    outcome.push(line("server", &seen));
    outcome
}

/// Receivers that go from thread to thread while there are messages in them.
fn receivers_in_messages() -> Outcome {
    let (hand_over, taken) = ipc::channel::<OpaqueIpcReceiver>().unwrap();
    let (hand_back, taken_back) = ipc::channel::<IpcReceiver<Item>>().unwrap();
    let (tx, rx) = ipc::channel::<Item>().unwrap();
    let senders = spawn_senders(tx, 30);
    let other = thread::spawn(move || {
        let mut seen = Vec::new();
        while let Ok(rx) = taken.recv() {
            let rx: IpcReceiver<Item> = rx.to();
            seen.extend((0..10).map(|_| rx.recv().unwrap()));
            hand_back.send(rx).unwrap();
        }
        line("other", &seen)
    });
    let mut seen = Vec::new();
    let mut rx = rx;
    for _ in 0..6 {
        seen.extend((0..10).map(|_| rx.recv().unwrap()));
        hand_over.send(rx.to_opaque()).unwrap();
        rx = taken_back.recv().unwrap();
    }
    drop(hand_over);
    join(senders);
    let mut outcome = joined(vec![other]);
    outcome.push(line("main", &seen));
    outcome
}

/// Servers, and clients that send on the connection at the same time.
fn server() -> Outcome {
    let mut seen = Vec::new();
    for _ in 0..8 {
        let (server, name) = IpcOneShotServer::<Item>::new().unwrap();
        let client = thread::spawn(move || {
            let tx = IpcSender::connect(name).unwrap();
            join(spawn_senders(tx, 10));
        });
        let (rx, first) = server.accept().unwrap();
        seen.push(first);
        seen.extend(drain(&rx));
        client.join().unwrap();
    }
    vec![line("main", &seen)]
}

/// This executable again, as a process with a server's name.
fn start(program: &str, log: Option<&OsStr>, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "programs::run", "--nocapture"])
        .arg("--test-threads=1")
        .env("RR_CHANNEL_TEST_PROGRAM", format!("ipc {program}"))
        .env("RR_CHANNEL_TEST_SERVER", name)
        .env_remove("RR_CHANNEL")
        .env_remove("RR_CHANNEL_REPORT")
        .stdout(Stdio::null());
    if let Some(log) = log {
        command
            .env("RR_CHANNEL", "record")
            .env("RR_CHANNEL_LOG", log);
    }
    command.spawn().unwrap()
}

/// The channels between the two processes.
type Hello = (
    IpcSender<(usize, IpcSender<Item>)>,
    IpcReceiver<Vec<u8>>,
    IpcSender<Item>,
);

/// The other process: sends on all that it has been given, or gives.
fn echo() -> Outcome {
    let name = std::env::var("RR_CHANNEL_TEST_SERVER").unwrap();
    let (ask, asked) = ipc::channel().unwrap();
    let (tell, told) = ipc::channel::<Vec<u8>>().unwrap();
    let (items, from_parent) = ipc::channel::<Item>().unwrap();
    let hello = IpcSender::<Hello>::connect(name).unwrap();
    hello.send((ask, told, items)).unwrap();
    while let Ok((n, back)) = asked.recv() {
        let back: IpcSender<Item> = back;
        let (_, value) = from_parent.recv().unwrap();
        tell.send(vec![7; n]).unwrap();
        back.send((n, value)).unwrap();
    }
    vec!["echo".to_owned()]
}

fn greet() -> (Child, Hello, IpcReceiver<Hello>) {
    let (server, name) = IpcOneShotServer::<Hello>::new().unwrap();
    let child = start("echo", None, &name);
    let (rx, hello) = server.accept().unwrap();
    (child, hello, rx)
}

/// Messages of another process and of threads, into one channel.
fn other_process() -> Outcome {
    let (mut child, (ask, told, items), rx) = greet();
    let (back, backs) = ipc::channel::<Item>().unwrap();
    let threads = spawn_senders(back.clone(), 20);
    let mut seen = Vec::new();
    let mut set = IpcReceiverSet::new().unwrap();
    set.add(told).unwrap();
    for n in 0..20 {
        items.send((0, n)).unwrap();
        ask.send((n, back.clone())).unwrap();
        seen.push(backs.recv().unwrap());
        for result in set.select().unwrap() {
            let (_, message) = result.unwrap();
            assert_eq!(message.to::<Vec<u8>>().unwrap(), vec![7; n]);
        }
    }
    drop((ask, items, back));
    seen.extend(drain(&backs));
    assert!(matches!(rx.recv(), Err(IpcError::Disconnected)));
    join(threads);
    assert!(child.wait().unwrap().success());
    vec![line("main", &seen)]
}

/// The other process: gives each thread of its parent a sender into one channel, and reports the
/// order of the messages.
fn gather() -> Outcome {
    let name = std::env::var("RR_CHANNEL_TEST_SERVER").unwrap();
    let hello = IpcSender::<Gather>::connect(name).unwrap();
    let (items, gathered) = ipc::channel::<Item>().unwrap();
    let (tell, told) = ipc::channel::<Vec<Item>>().unwrap();
    let sender = |_| Gather::Sender(items.clone());
    for message in (0..4).map(sender).chain([Gather::Told(told)]) {
        hello.send(message).unwrap();
    }
    drop(items);
    tell.send(drain(&gathered)).unwrap();
    vec!["gather".to_owned()]
}

/// The messages that [`gather`] sends.
#[derive(serde::Serialize, serde::Deserialize)]
enum Gather {
    Sender(IpcSender<Item>),
    Told(IpcReceiver<Vec<Item>>),
}

/// Messages of threads to another process.
fn to_another_process() -> Outcome {
    let (server, name) = IpcOneShotServer::<Gather>::new().unwrap();
    let mut child = start("gather", None, &name);
    let (rx, first) = server.accept().unwrap();
    let mut next = Some(first);
    let mut threads = Vec::new();
    let told = loop {
        match next.take().unwrap_or_else(|| rx.recv().unwrap()) {
            Gather::Sender(tx) => {
                let who = threads.len();
                threads.push(thread::spawn(move || send_all(&tx, who, 20)));
            }
            Gather::Told(told) => break told,
        }
    };
    let seen = told.recv().unwrap();
    join(threads);
    assert!(child.wait().unwrap().success());
    vec![line("the other process", &seen)]
}

/// A conversation with a process that may record, while this one may, too.
fn talk() -> Outcome {
    let name = std::env::var("RR_CHANNEL_TEST_SERVER").unwrap();
    let hello = IpcSender::connect(name).unwrap();
    let (request, requests) = ipc::channel::<Talk>().unwrap();
    hello.send(request).unwrap();
    while let Ok(talk) = requests.recv() {
        answer(talk);
    }
    vec!["talk".to_owned()]
}

/// A value of each kind, and where to send each back.
type Talk = (
    (String, IpcSender<String>),
    (IpcReceiver<Item>, IpcSender<IpcReceiver<Item>>),
    (
        IpcSharedMemory,
        IpcSharedMemory,
        OpaqueIpcSender,
        OpaqueIpcReceiver,
    ),
    (ipc::IpcBytesReceiver, ipc::IpcBytesSender),
);

fn answer(talk: Talk) {
    let (
        (text, texts),
        (receiver, receivers),
        (full, empty, opaque, from_opaque),
        (bytes, byte_sender),
    ) = talk;
    texts.send(text).unwrap();
    receivers.send(receiver).unwrap();
    assert!(empty.is_empty());
    opaque.to::<IpcSharedMemory>().send(full).unwrap();
    // Selected by a set here, and routed there.
    let mut set = IpcReceiverSet::new().unwrap();
    set.add_opaque(from_opaque).unwrap();
    let (_, message) = set.select().unwrap().remove(0).unwrap();
    let (item, on): (Item, IpcSender<Item>) = message.to().unwrap();
    on.send(item).unwrap();
    byte_sender.send(&bytes.recv().unwrap()).unwrap();
}

/// The side of [`talk`] that starts the other; that one records where it is told to.
fn converse() -> Outcome {
    let log = std::env::var_os("RR_CHANNEL_TEST_CHILD_LOG");
    let (server, name) = IpcOneShotServer::<IpcSender<Talk>>::new().unwrap();
    let mut child = start("talk", log.as_deref(), &name);
    let (_rx, requests) = server.accept().unwrap();
    let router = RouterProxy::new();
    for n in 0..5 {
        let (texts, text) = ipc::channel().unwrap();
        let (items, receiver) = ipc::channel::<Item>().unwrap();
        let (receivers, received) = ipc::channel().unwrap();
        let (opaque, memory) = ipc::channel::<IpcSharedMemory>().unwrap();
        let (to_set, from_opaque) = ipc::channel::<(Item, IpcSender<Item>)>().unwrap();
        let (on, routed) = ipc::channel::<Item>().unwrap();
        let (bytes, byte_receiver) = ipc::bytes_channel().unwrap();
        let (byte_sender, bytes_back) = ipc::bytes_channel().unwrap();
        items.send((n, 1)).unwrap();
        to_set.send(((n, 2), on)).unwrap();
        bytes.send(&[n as u8; 5]).unwrap();
        let shared = IpcSharedMemory::from_byte(n as u8, 3);
        requests
            .send((
                ("hello".to_owned(), texts),
                (receiver, receivers),
                (
                    shared,
                    IpcSharedMemory::from_bytes(&[]),
                    opaque.to_opaque(),
                    from_opaque.to_opaque(),
                ),
                (byte_receiver, byte_sender),
            ))
            .unwrap();
        assert_eq!(text.recv().unwrap(), "hello");
        let back: IpcReceiver<Item> = received.recv().unwrap();
        assert_eq!(back.recv().unwrap(), (n, 1));
        assert_eq!(*memory.recv().unwrap(), [n as u8; 3]);
        let routed = router.route_ipc_receiver_to_new_crossbeam_receiver(routed);
        assert_eq!(routed.recv(), Ok((n, 2)));
        assert_eq!(bytes_back.recv().unwrap(), [n as u8; 5]);
    }
    drop(requests);
    assert!(child.wait().unwrap().success());
    vec!["understood".to_owned()]
}
