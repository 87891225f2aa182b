//! The programs: each has one source of nondeterminism, and prints the observed order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rr_channel::crossbeam_channel::{
    Receiver, Select, Sender, TryRecvError, after, bounded, select, tick, unbounded,
};
use rr_channel::thread;

/// The test that a child process runs; nothing where no program is asked for.
#[test]
fn run() {
    let Ok(program) = std::env::var("RR_CHANNEL_TEST_PROGRAM") else {
        return;
    };
    let outcome = match program.as_str() {
        "many_senders" => many_senders(),
        "many_consumers" => consumers(unbounded()),
        "bounded_consumers" => consumers(bounded(2)),
        "rendezvous" => consumers(bounded(0)),
        "channel_mutex" => channel_mutex(),
        "channel_semaphore" => channel_semaphore(),
        "try_recv" => try_recv(),
        "try_send" => try_send(),
        "select_recv" => select_recv(),
        "select_send" => select_send(),
        "select_nested" => select_nested(),
        "ready" => ready(),
        "timeouts" => timeouts(),
        "timers" => timers(),
        "disconnect" => disconnect(),
        "refused" => refused(),
        "lengths" => lengths(),
        "scoped_tree" => scoped_tree(),
        "foreign_threads" => foreign_threads(),
        "destructors" => destructors(),
        "panics" => panics(),
        "mpsc" => mpsc(),
        "killed" => killed(),
        "diverging" => diverging(),
        "withheld" => withheld(),
        "long_timeouts" => long_timeouts(),
        "withheld_ticking" => withheld_beside(|| thread::sleep(Duration::from_millis(1))),
        "withheld_computing" => withheld_beside(std::hint::spin_loop),
        other => match other.split_once(' ') {
            Some(("random", seed)) => crate::random::run(seed.parse().unwrap()),
            Some(("parking_lot", program)) => crate::parking_lots::v12::programs::run(program),
            Some(("parking_lot_13", "once_wait")) => crate::parking_lots::v13::once_wait(),
            Some(("parking_lot_13", "upgrades_for")) => crate::parking_lots::v13::upgrades_for(),
            Some(("parking_lot_13", program)) => crate::parking_lots::v13::programs::run(program),
            Some(("input", program)) => crate::inputs::run(program),
            Some(("ipc", program)) => crate::ipc::run(program),
            Some(("processes", program)) => crate::processes::run(program),
            Some(("lock_diverging", program)) => crate::lock_diverging::run(program),
            Some(("random_locks", seed)) => crate::random_locks::run(seed.parse().unwrap()),
            _ => crate::locks::run(other),
        },
    };
    for line in outcome {
        println!("outcome: {line}");
    }
    if let Some(report) = rr_channel::replay_report() {
        if report.is_faithful() {
            println!("report: faithful");
        } else {
            println!("report: unfaithful");
            eprintln!("{report:#?}");
        }
    }
}

pub(crate) type Outcome = Vec<String>;
type Pair = (Sender<(usize, usize)>, Receiver<(usize, usize)>);

pub(crate) fn line(name: &str, seen: &impl std::fmt::Debug) -> String {
    format!("{name} {seen:?}")
}

pub(crate) fn joined(handles: Vec<thread::JoinHandle<String>>) -> Outcome {
    handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect()
}

fn send_all(s: Sender<(usize, usize)>, who: usize, count: usize) {
    for n in 0..count {
        s.send((who, n)).unwrap();
        if n % 7 == who {
            thread::yield_now();
        }
    }
}

fn many_senders() -> Outcome {
    let (s, r) = unbounded();
    let senders: Vec<_> = (0..4)
        .map(|who| {
            let s = s.clone();
            thread::spawn(move || send_all(s, who, 200))
        })
        .collect();
    drop(s);
    let seen: Vec<_> = r.iter().collect();
    senders
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("main", &seen)]
}

fn consumers((s, r): Pair) -> Outcome {
    let senders: Vec<_> = (0..3)
        .map(|who| {
            let s = s.clone();
            thread::spawn(move || send_all(s, who, 60))
        })
        .collect();
    drop(s);
    let consumers: Vec<_> = (0..3)
        .map(|who| {
            let r = r.clone();
            thread::spawn(move || line(&format!("consumer {who}"), &r.iter().collect::<Vec<_>>()))
        })
        .collect();
    drop(r);
    senders
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    joined(consumers)
}

/// The order in which threads enter a critical section that a `bounded(1)` guards.
fn channel_mutex() -> Outcome {
    let (lock, unlock) = bounded(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let (lock, unlock) = (lock.clone(), unlock.clone());
            let (order, inside) = (Arc::clone(&order), Arc::clone(&inside));
            thread::spawn(move || {
                for _ in 0..40 {
                    lock.send(()).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    order.lock().unwrap().push(who);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    unlock.recv().unwrap();
                }
            })
        })
        .collect();
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("order", &order.lock().unwrap())]
}

/// Two tokens that four threads pass around.
fn channel_semaphore() -> Outcome {
    let (give, take) = bounded(2);
    give.send("red").unwrap();
    give.send("blue").unwrap();
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let (give, take) = (give.clone(), take.clone());
            thread::spawn(move || {
                let mut seen = Vec::new();
                for _ in 0..30 {
                    let token = take.recv().unwrap();
                    seen.push(token);
                    give.send(token).unwrap();
                }
                line(&format!("thread {who}"), &seen)
            })
        })
        .collect();
    joined(handles)
}

fn try_recv() -> Outcome {
    let (s, r) = unbounded();
    let sender = thread::spawn(move || send_all(s, 1, 300));
    let mut seen = Vec::new();
    loop {
        match r.try_recv() {
            Err(TryRecvError::Disconnected) => break,
            other => seen.push(other),
        }
        thread::yield_now();
    }
    sender.join().unwrap();
    vec![line("main", &seen)]
}

fn try_send() -> Outcome {
    let (s, r) = bounded(3);
    let handles: Vec<_> = (0..2)
        .map(|who| {
            let s = s.clone();
            thread::spawn(move || {
                let mut seen = Vec::new();
                for n in 0..150 {
                    seen.push(s.try_send((who, n)).is_ok());
                    thread::yield_now();
                }
                line(&format!("sender {who}"), &seen)
            })
        })
        .collect();
    drop(s);
    let mut seen = Vec::new();
    while let Ok(message) = r.recv() {
        seen.push(message);
        thread::yield_now();
    }
    let mut outcome = joined(handles);
    outcome.push(line("main", &seen));
    outcome
}

fn select_recv() -> Outcome {
    let (s1, r1) = unbounded();
    let (s2, r2) = bounded(1);
    let (s3, r3) = bounded(0);
    let handles =
        [(0, s1), (1, s2), (2, s3)].map(|(who, s)| thread::spawn(move || send_all(s, who, 80)));
    let mut seen = Vec::new();
    let mut open = [true; 3];
    let never = rr_channel::crossbeam_channel::never();
    while open != [false; 3] {
        let pick = |open: bool, r| if open { r } else { &never };
        let (who, message) = select! {
            recv(pick(open[0], &r1)) -> message => (0, message),
            recv(pick(open[1], &r2)) -> message => (1, message),
            recv(pick(open[2], &r3)) -> message => (2, message),
        };
        seen.push((who, message));
        if message.is_err() {
            open[who] = false;
        }
    }
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("main", &seen)]
}

/// Two threads choose between two bounded channels and a rendezvous to send into.
fn select_send() -> Outcome {
    let (s1, r1) = bounded(1);
    let (s2, r2) = bounded(2);
    let (s3, r3) = bounded(0);
    let senders: Vec<_> = (0..2)
        .map(|who| {
            let (s1, s2, s3) = (s1.clone(), s2.clone(), s3.clone());
            thread::spawn(move || {
                let mut seen = Vec::new();
                for n in 0..60 {
                    select! {
                        send(s1, (who, n)) -> sent => seen.push((1, sent.is_ok())),
                        send(s2, (who, n)) -> sent => seen.push((2, sent.is_ok())),
                        send(s3, (who, n)) -> sent => seen.push((3, sent.is_ok())),
                    }
                }
                line(&format!("sender {who}"), &seen)
            })
        })
        .collect();
    drop((s1, s2, s3));
    let receivers: Vec<_> = [r1, r2, r3]
        .into_iter()
        .map(|r| thread::spawn(move || line("receiver", &r.iter().collect::<Vec<_>>())))
        .collect();
    let mut outcome = joined(senders);
    outcome.extend(joined(receivers));
    outcome
}

/// A message that is itself received, between the selection and its completion.
fn select_nested() -> Outcome {
    let (s, r) = unbounded();
    let (out1, in1) = bounded(1);
    let (out2, in2) = bounded(1);
    let senders: Vec<_> = (0..2)
        .map(|who| {
            let s = s.clone();
            thread::spawn(move || send_all(s, who, 50))
        })
        .collect();
    drop(s);
    let forwarder = thread::spawn(move || {
        for _ in 0..100 {
            select! {
                send(out1, select! { recv(r) -> message => message.unwrap() }) -> sent => sent.unwrap(),
                send(out2, r.recv().unwrap()) -> sent => sent.unwrap(),
            }
        }
    });
    let receivers: Vec<_> = [in1, in2]
        .into_iter()
        .map(|r| thread::spawn(move || line("receiver", &r.iter().collect::<Vec<_>>())))
        .collect();
    senders
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    forwarder.join().unwrap();
    joined(receivers)
}

fn ready() -> Outcome {
    let (s1, r1) = unbounded();
    let (s2, r2) = unbounded();
    let handles = [(0, s1), (1, s2)].map(|(who, s)| thread::spawn(move || send_all(s, who, 80)));
    let mut seen = Vec::new();
    let mut select = Select::new();
    select.recv(&r1);
    select.recv(&r2);
    let mut open = 2;
    while open > 0 {
        let index = select.ready();
        let message = [&r1, &r2][index].try_recv();
        if message == Err(TryRecvError::Disconnected) {
            select.remove(index);
            open -= 1;
        }
        seen.push((index, message));
    }
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("main", &seen)]
}

fn timeouts() -> Outcome {
    let (s, r) = bounded(1);
    let sender = thread::spawn(move || {
        let mut seen = Vec::new();
        for n in 0..60 {
            if n % 9 == 0 {
                thread::sleep(Duration::from_micros(300));
            }
            seen.push(s.send_timeout(n, Duration::from_micros(200)).is_ok());
        }
        line("sender", &seen)
    });
    let mut seen = Vec::new();
    loop {
        let received = r.recv_timeout(Duration::from_micros(150));
        seen.push(received);
        if seen.len() % 11 == 0 {
            thread::sleep(Duration::from_micros(400));
        }
        if received.is_err_and(|error| error.is_disconnected()) {
            break;
        }
    }
    vec![sender.join().unwrap(), line("main", &seen)]
}

fn timers() -> Outcome {
    let (s, r) = unbounded();
    let sender = thread::spawn(move || {
        for n in 0..20 {
            s.send(n).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
    });
    let ticks = tick(Duration::from_micros(500));
    let end = after(Duration::from_millis(200));
    let mut seen = Vec::new();
    loop {
        select! {
            recv(ticks) -> _ => seen.push("tick".to_owned()),
            recv(end) -> _ => break,
            recv(r) -> message => match message {
                Ok(n) => seen.push(n.to_string()),
                Err(_) => break,
            },
            default(Duration::from_micros(100)) => seen.push("timeout".to_owned()),
        }
    }
    sender.join().unwrap();
    vec![line("main", &seen)]
}

fn disconnect() -> Outcome {
    let mut seen = Vec::new();
    for round in 0..40 {
        let (s, r) = unbounded::<usize>();
        let sender = thread::spawn(move || {
            if round % 2 == 0 {
                s.send(round).unwrap();
            }
        });
        for _ in 0..3 {
            seen.push(r.try_recv());
        }
        sender.join().unwrap();
        seen.push(r.try_recv());
    }
    vec![line("main", &seen)]
}

fn refused() -> Outcome {
    let mut outcome = Vec::new();
    for capacity in [None, Some(2), Some(0)] {
        for _ in 0..10 {
            let (s, r) = capacity.map_or_else(unbounded, bounded);
            let receiver = thread::spawn(move || {
                let got: Vec<_> = r.iter().take(2).collect();
                drop(r);
                got
            });
            let mut sent = 0;
            while sent < 5000 && s.send(sent).is_ok() {
                sent += 1;
            }
            outcome.push(line("main", &(sent, receiver.join().unwrap())));
        }
    }
    outcome
}

fn lengths() -> Outcome {
    let (s, r) = bounded(4);
    let sender = thread::spawn(move || send_all(s, 0, 200));
    let mut seen = Vec::new();
    for _ in 0..200 {
        seen.push((r.len(), r.is_empty(), r.is_full()));
        r.recv().unwrap();
    }
    sender.join().unwrap();
    vec![line("main", &seen)]
}

/// Threads that spawn threads, racing; all send to one receiver.
fn scoped_tree() -> Outcome {
    let (s, r) = unbounded();
    let (s, mut seen) = (&s, Vec::new());
    thread::scope(|scope| {
        for a in 0..3 {
            scope.spawn(move || {
                s.send((a, 0)).unwrap();
                thread::scope(|inner| {
                    for b in 1..4 {
                        inner.spawn(move || s.send((a, b)).unwrap());
                    }
                });
            });
        }
        seen.extend(r.iter().take(12));
    });
    vec![line("main", &seen)]
}

/// Threads from `std` itself, unnamed, that spawn threads in turn.
fn foreign_threads() -> Outcome {
    let (s, r) = unbounded();
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let s = s.clone();
            std::thread::spawn(move || {
                std::thread::scope(|scope| {
                    scope.spawn(|| send_all(s.clone(), who + 10, 50));
                    send_all(s.clone(), who, 50);
                });
            })
        })
        .collect();
    drop(s);
    let seen: Vec<_> = r.iter().collect();
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("main", &seen)]
}

struct Farewell(Sender<usize>, Receiver<usize>, usize);

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.1.try_recv();
        self.0.send(self.2).unwrap();
    }
}

thread_local! {
    static FAREWELL: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

fn destructors() -> Outcome {
    let (s, r) = unbounded();
    let (junk, trash) = unbounded();
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let (s, trash) = (s.clone(), trash.clone());
            thread::spawn(move || {
                FAREWELL.with_borrow_mut(|farewell| *farewell = Some(Farewell(s, trash, who)));
            })
        })
        .collect();
    drop(s);
    junk.send(9).unwrap();
    let seen: Vec<_> = r.iter().collect();
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    vec![line("main", &seen), line("left", &trash.try_recv())]
}

fn panics() -> Outcome {
    let (s, r) = unbounded();
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let s = s.clone();
            thread::spawn(move || {
                s.send(who).unwrap();
                assert!(who % 2 == 0, "as planned");
                s.send(who + 10).unwrap();
            })
        })
        .collect();
    drop(s);
    let seen: Vec<_> = r.iter().collect();
    let ends: Vec<_> = handles
        .into_iter()
        .map(|handle| handle.join().is_ok())
        .collect();
    vec![line("main", &seen), line("ends", &ends)]
}

/// `std`'s face: both kinds of channels, polled and waited for.
fn mpsc() -> Outcome {
    use rr_channel::mpsc::{channel, sync_channel};
    let (tx, rx) = channel();
    let (sync_tx, sync_rx) = sync_channel(2);
    let handles: Vec<_> = (0..3)
        .map(|who| {
            let (tx, sync_tx) = (tx.clone(), sync_tx.clone());
            thread::spawn(move || {
                let mut full = 0;
                for n in 0..60 {
                    tx.send((who, n)).unwrap();
                    if sync_tx.try_send((who, n)).is_err() {
                        full += 1;
                        sync_tx.send((who, n)).unwrap();
                    }
                }
                line(&format!("thread {who}"), &full)
            })
        })
        .collect();
    drop((tx, sync_tx));
    let seen: Vec<_> = sync_rx
        .iter()
        .map(|message| (message, rx.try_recv()))
        .collect();
    let mut outcome = joined(handles);
    outcome.push(line("main", &seen));
    outcome
}

/// Kills itself in the midst of things, once the main thread has seen enough.
fn killed() -> Outcome {
    let (s, r) = unbounded();
    for who in 0..3 {
        let s = s.clone();
        thread::spawn(move || (0..).try_for_each(|n| s.send((who, n))));
    }
    let seen: Vec<_> = r.iter().take(500).collect();
    println!("\noutcome: {seen:?}");
    // A crash that nothing can catch or clean up after.
    let pid = std::process::id().to_string();
    let _ = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status();
    unreachable!("killed");
}

/// With `DIVERGE`, one of two independent pairs does something else in replay.
fn diverging() -> Outcome {
    let diverge = std::env::var_os("DIVERGE").is_some();
    let (s1, r1) = unbounded();
    let (s2, r2) = unbounded();
    let faithful = thread::spawn(move || line("faithful", &r1.iter().collect::<Vec<_>>()));
    let other = thread::spawn(move || {
        if diverge {
            while r2.try_recv().is_err() {}
        } else {
            r2.recv().unwrap();
        }
        "other".to_owned()
    });
    let senders: Vec<_> = (0..3)
        .map(|who| {
            let s = s1.clone();
            thread::spawn(move || send_all(s, who, 50))
        })
        .collect();
    drop(s1);
    s2.send(()).unwrap();
    senders
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
    joined(vec![faithful, other])
}

/// With `DIVERGE`, the first message is not sent, and the second one is for any thread that still
/// wants a message.
fn withheld() -> Outcome {
    let diverge = std::env::var_os("DIVERGE").is_some();
    let (s, r) = unbounded();
    let first = s.clone();
    let silent = thread::spawn(move || {
        if !diverge {
            first.send("the recorded message").unwrap();
        }
    });
    silent.join().unwrap();
    let other = thread::spawn(move || s.send("the other message").unwrap());
    other.join().unwrap();
    vec![format!("got {}", r.recv().unwrap())]
}

/// The same while a thread that is not recorded does something without end.
fn withheld_beside(something: fn()) -> Outcome {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                something();
            }
        });
        let outcome = withheld();
        done.store(true, Ordering::Relaxed);
        outcome
    })
}

/// Waits for what never comes, each for a moment; with `DIVERGE`, for an hour.
fn long_timeouts() -> Outcome {
    use rr_channel::crossbeam_channel::SendTimeoutError;
    use rr_channel::{ipc_channel, parking_lot, parking_lot_13, sync};

    let limit = match std::env::var_os("DIVERGE") {
        Some(_) => Duration::from_secs(3600),
        None => Duration::from_millis(1),
    };
    let (s, r) = bounded::<u8>(1);
    let mut seen = vec![r.recv_timeout(limit).is_err()];
    let mut select = Select::new();
    select.recv(&r);
    seen.push(select.select_timeout(limit).is_err());
    seen.push(select.ready_timeout(limit).is_err());
    s.send(1).unwrap();
    seen.push(s.send_timeout(2, limit) == Err(SendTimeoutError::Timeout(2)));

    let (_sender, receiver) = rr_channel::mpsc::channel::<u8>();
    seen.push(receiver.recv_timeout(limit).is_err());
    thread::park_timeout(limit);

    let mutex = sync::Mutex::new(0);
    let changed = sync::Condvar::new();
    let (guard, result) = changed.wait_timeout(mutex.lock().unwrap(), limit).unwrap();
    drop(guard);
    seen.push(result.timed_out());

    let mutex = parking_lot::Mutex::new(0);
    let changed = parking_lot::Condvar::new();
    let mut guard = mutex.lock();
    seen.push(changed.wait_for(&mut guard, limit).timed_out());
    seen.push(mutex.try_lock_for(limit).is_none());

    let lock = parking_lot_13::RwLock::new(0);
    let guard = lock.write();
    seen.push(lock.try_read_for(limit).is_none());
    drop(guard);

    let (_sender, receiver) = ipc_channel::ipc::channel::<u8>().unwrap();
    seen.push(receiver.try_recv_timeout(limit).is_err());
    let (_sender, receiver) = ipc_channel::ipc::channel::<u8>().unwrap();
    let mut set = ipc_channel::ipc::IpcReceiverSet::new().unwrap();
    set.add(receiver).unwrap();
    seen.push(set.try_select_timeout(limit).is_err());
    vec![line("timed out", &seen)]
}
