//! Sockets, System V and POSIX inter-process communication, futexes, keys.

use super::{Case, args, case, sockets, sys};

const PRIVATE: u64 = 0;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = network();
    cases.extend(system_v());
    cases.extend(others());
    cases
}

fn network() -> Vec<Case> {
    const UNIX: u64 = libc::AF_UNIX as u64;
    const STREAM: u64 = libc::SOCK_STREAM as u64;
    vec![
        case("socket", |_| args([UNIX, STREAM, 0])),
        case("socketpair", |a| args([UNIX, STREAM, 0, a.out(8)])),
        case("bind", |a| {
            args([
                sys("socket", [UNIX, STREAM, 0]),
                a.bytes(b"\x01\0sock\0"),
                7,
            ])
        }),
        case("listen", |a| args([listener(a), 1])),
        case("connect", |a| {
            listener(a);
            args([
                sys("socket", [UNIX, STREAM, 0]),
                a.bytes(b"\x01\0sock\0"),
                7,
            ])
        }),
        case("accept", |a| {
            let listener = named_peer(a);
            args([listener, a.out(128), a.ints(&[128])])
        }),
        case("accept", |a| {
            let listener = named_peer(a);
            args([listener, a.out(128), a.ints(&[4])])
        })
        .note("address cut"),
        case("accept4", |a| {
            let listener = named_peer(a);
            args([listener, a.out(128), a.ints(&[128]), 0])
        }),
        case("getsockname", |a| {
            args([listener(a), a.out(128), a.ints(&[128])])
        }),
        case("getpeername", |a| {
            args([connected(a), a.out(128), a.ints(&[128])])
        }),
        case("getpeername", |a| {
            args([connected(a), a.out(128), a.ints(&[3])])
        })
        .note("cut"),
        case("sendto", |a| {
            args([sockets(a, libc::SOCK_DGRAM).0, a.bytes(b"hi"), 2, 0, 0, 0])
        }),
        case("recvfrom", |a| {
            let socket = filled(a);
            args([socket, a.out(64), 64, 0, a.out(128), a.ints(&[128])])
        }),
        case("recvfrom", |a| {
            let socket = filled(a);
            args([socket, a.out(2), 2, libc::MSG_TRUNC as u64, 0, 0])
        })
        .note("longer than the buffer"),
        case("recvfrom", |a| {
            args([
                filled_by_name(a),
                a.out(64),
                64,
                0,
                a.out(128),
                a.ints(&[4]),
            ])
        })
        .note("address cut"),
        case("sendmsg", |a| {
            let data = a.bytes(b"hello");
            let vectors = a.words(&[data, 5]);
            let header = a.words(&[0, 0, vectors, 1, 0, 0, 0]);
            args([sockets(a, libc::SOCK_STREAM).0, header, 0])
        }),
        case("recvmsg", |a| {
            let socket = filled(a);
            args([socket, header(a, 64), 0])
        }),
        case("recvmsg", |a| {
            let socket = filled_by_name(a);
            args([socket, header(a, 64), 0])
        })
        .note("with a name"),
        case("recvmsg", |a| {
            let socket = with_descriptor(a);
            args([socket, header(a, 64), 0])
        })
        .note("with a descriptor"),
        case("recvmsg", |a| {
            let socket = with_descriptor(a);
            args([socket, header(a, 4), 0])
        })
        .note("control data cut"),
        case("recvmmsg", |a| {
            let (one, two) = sockets(a, libc::SOCK_DGRAM);
            let data = a.bytes(b"hello");
            for len in [5, 3] {
                sys("sendto", [one, data, len, 0, 0, 0]);
            }
            let (first, second, third) = (a.out(8), a.out(8), a.out(8));
            let vectors = [first, second, third].map(|buffer| a.words(&[buffer, 8]));
            let messages: Vec<u64> = vectors
                .iter()
                .flat_map(|&vector| [0, 0, vector, 1, 0, 0, 0, 0])
                .collect();
            args([
                two,
                a.words(&messages),
                3,
                libc::MSG_DONTWAIT as u64,
                a.words(&[1, 0]),
            ])
        }),
        case("sendmmsg", |a| {
            let data = a.bytes(b"hello");
            let vectors = a.words(&[data, 5]);
            let message = [0, 0, vectors, 1, 0, 0, 0, 0x7777_7777_7777_7777];
            let messages = a.words(&[message, message].concat());
            args([sockets(a, libc::SOCK_DGRAM).0, messages, 2, 0])
        }),
        case("setsockopt", |a| {
            args([
                sys("socket", [UNIX, STREAM, 0]),
                1,
                libc::SO_PASSCRED as u64,
                a.ints(&[1]),
                4,
            ])
        }),
        case("getsockopt", |a| {
            let socket = sys("socket", [UNIX, STREAM, 0]);
            args([socket, 1, libc::SO_TYPE as u64, a.out(16), a.ints(&[16])])
        }),
        case("getsockopt", |a| {
            let socket = sockets(a, libc::SOCK_STREAM).0;
            args([socket, 1, libc::SO_PEERCRED as u64, a.out(16), a.ints(&[6])])
        })
        .note("cut"),
    ]
}

type Arena = super::Arena;

const FAMILY: u64 = libc::AF_UNIX as u64;

/// A listening socket with the name `sock`.
fn listener(arena: &mut Arena) -> u64 {
    let socket = sys("socket", [FAMILY, libc::SOCK_STREAM as u64, 0]);
    sys("bind", [socket, arena.bytes(b"\x01\0sock\0"), 7]);
    sys("listen", [socket, 4]);
    socket
}

/// A socket that is connected to `sock`.
fn connected(arena: &mut Arena) -> u64 {
    listener(arena);
    let socket = sys("socket", [FAMILY, libc::SOCK_STREAM as u64, 0]);
    sys("connect", [socket, arena.bytes(b"\x01\0sock\0"), 7]);
    socket
}

/// A listening socket with a connection from a socket that has a name.
fn named_peer(arena: &mut Arena) -> u64 {
    let listener = listener(arena);
    let socket = sys("socket", [FAMILY, libc::SOCK_STREAM as u64, 0]);
    sys("bind", [socket, arena.bytes(b"\x01\0peer-name\0"), 12]);
    sys("connect", [socket, arena.bytes(b"\x01\0sock\0"), 7]);
    listener
}

/// A socket with a message of five bytes.
fn filled(arena: &mut Arena) -> u64 {
    let (one, two) = sockets(arena, libc::SOCK_DGRAM);
    sys("sendto", [one, arena.bytes(b"hello"), 5, 0, 0, 0]);
    two
}

/// A socket with a message from a socket that has a name.
fn filled_by_name(arena: &mut Arena) -> u64 {
    let [from, to] = [0, 1].map(|_| sys("socket", [FAMILY, libc::SOCK_DGRAM as u64, 0]));
    let address = arena.bytes(b"\x01\0sock\0");
    sys("bind", [to, address, 7]);
    sys("bind", [from, arena.bytes(b"\x01\0peer-name\0"), 12]);
    sys("sendto", [from, arena.bytes(b"hello"), 5, 0, address, 7]);
    to
}

/// A socket with a message that carries a descriptor.
fn with_descriptor(arena: &mut Arena) -> u64 {
    let (one, two) = sockets(arena, libc::SOCK_STREAM);
    let data = arena.bytes(b"hello");
    let vectors = arena.words(&[data, 5]);
    // A cmsghdr of 20 bytes: SOL_SOCKET, SCM_RIGHTS, one descriptor.
    let control = arena.words(&[20, 1 | 1 << 32, one]);
    let header = arena.words(&[0, 0, vectors, 1, control, 24, 0]);
    sys("sendmsg", [one, header, 0]);
    two
}

/// A header for receiving, with room for a name and some control data.
fn header(arena: &mut Arena, control_len: u64) -> u64 {
    let (name, data, more, control) = (arena.out(128), arena.out(3), arena.out(64), arena.out(64));
    let vectors = arena.words(&[data, 3, more, 64]);
    arena.words(&[name, 128, vectors, 2, control, control_len, 0])
}

fn system_v() -> Vec<Case> {
    const ALL: u64 = 0o600;
    vec![
        case("shmget", |_| args([PRIVATE, 4096, ALL])),
        case("shmat", |_| {
            args([sys("shmget", [PRIVATE, 4096, ALL]), 0, 0])
        }),
        case("shmdt", |_| {
            let id = sys("shmget", [PRIVATE, 4096, ALL]);
            let at = sys("shmat", [id, 0, 0]);
            sys("shmctl", [id, 0, 0]);
            args([at])
        }),
        case("shmctl", |a| {
            args([sys("shmget", [PRIVATE, 4096, ALL]), 2, a.out(128)])
        })
        .note("IPC_STAT"),
        case("shmctl", |a| args([0, 3, a.out(128)])).note("IPC_INFO"),
        case("shmctl", |a| args([0, 14, a.out(128)])).note("SHM_INFO"),
        case("shmctl", |_| {
            args([sys("shmget", [PRIVATE, 4096, ALL]), 0, 0])
        })
        .note("IPC_RMID"),
        case("semget", |_| args([PRIVATE, 2, ALL])),
        case("semop", |a| {
            args([
                sys("semget", [PRIVATE, 2, ALL]),
                a.bytes(&[0, 0, 1, 0, 0, 0]),
                1,
            ])
        }),
        case("semtimedop", |a| {
            let id = sys("semget", [PRIVATE, 2, ALL]);
            args([id, a.bytes(&[0, 0, 1, 0, 0, 0]), 1, a.words(&[1, 0])])
        }),
        case("semctl", |a| {
            args([sys("semget", [PRIVATE, 2, ALL]), 0, 2, a.out(128)])
        })
        .note("IPC_STAT"),
        case("semctl", |a| args([0, 0, 3, a.out(128)])).note("IPC_INFO"),
        case("semctl", |_| {
            args([sys("semget", [PRIVATE, 2, ALL]), 0, 12])
        })
        .note("GETVAL"),
        case("msgget", |_| args([PRIVATE, ALL])),
        case("msgsnd", |a| {
            args([
                sys("msgget", [PRIVATE, ALL]),
                a.bytes(b"\x01\0\0\0\0\0\0\0hello"),
                5,
                0,
            ])
        }),
        case("msgrcv", |a| {
            let id = sys("msgget", [PRIVATE, ALL]);
            sys("msgsnd", [id, a.bytes(b"\x01\0\0\0\0\0\0\0hello"), 5, 0]);
            args([id, a.out(72), 64, 0, 0])
        }),
        case("msgctl", |a| {
            args([sys("msgget", [PRIVATE, ALL]), 2, a.out(128)])
        })
        .note("IPC_STAT"),
        case("msgctl", |a| args([0, 3, a.out(128)])).note("IPC_INFO"),
    ]
}

fn others() -> Vec<Case> {
    const RDWR_CREATE: u64 = (libc::O_RDWR | libc::O_CREAT) as u64;
    vec![
        case("mq_open", |a| {
            let name = queue_name(a);
            args([name, RDWR_CREATE, 0o600, 0])
        }),
        case("mq_unlink", |a| {
            let name = queue_name(a);
            sys("mq_open", [name, RDWR_CREATE, 0o600, 0]);
            args([name])
        }),
        case("mq_timedsend", |a| {
            args([queue(a), a.bytes(b"hello"), 5, 1, 0])
        }),
        case("mq_timedreceive", |a| {
            let queue = queue(a);
            sys("mq_timedsend", [queue, a.bytes(b"hello"), 5, 1, 0]);
            args([queue, a.out(8192), 8192, a.out(4), 0])
        }),
        case("mq_notify", |a| {
            let mut event = [0; 64];
            event[12] = 1; // SIGEV_NONE
            args([queue(a), a.bytes(&event)])
        }),
        case("mq_getsetattr", |a| {
            args([queue(a), a.bytes(&[0; 64]), a.out(64)])
        }),
        case("futex", |a| {
            args([a.ints(&[0]), libc::FUTEX_WAKE as u64, 1])
        })
        .note("wake"),
        case("futex", |a| {
            args([a.ints(&[1]), libc::FUTEX_WAIT as u64, 0])
        })
        .note("wait")
        .fails(libc::EAGAIN),
        case("futex", |a| {
            args([
                a.ints(&[0]),
                libc::FUTEX_WAIT as u64,
                0,
                a.words(&[0, 1000]),
            ])
        })
        .note("timeout")
        .fails(libc::ETIMEDOUT),
        case("futex", |a| {
            // Sets the second word to 7, and wakes no waiter.
            args([
                a.ints(&[0]),
                libc::FUTEX_WAKE_OP as u64,
                1,
                1,
                a.ints(&[1]),
                7 << 12,
            ])
        })
        .note("wake and change"),
        case("futex", |a| {
            args([a.ints(&[0]), libc::FUTEX_LOCK_PI as u64])
        })
        .note("lock"),
        case("futex_waitv", |a| {
            let word = a.ints(&[1]);
            args([a.words(&[0, word, 2]), 1, 0, 0, 0])
        })
        .fails(libc::EAGAIN),
        case("futex_wake", |a| args([a.ints(&[0]), 0xffff_ffff, 1, 2])),
        case("futex_wait", |a| {
            args([a.ints(&[1]), 0, 0xffff_ffff, 2, 0, 0])
        })
        .fails(libc::EAGAIN),
        case("futex_requeue", |a| {
            let (one, two) = (a.ints(&[0]), a.ints(&[0]));
            args([a.words(&[0, one, 2, 0, two, 2]), 0, 1, 1])
        }),
        case("add_key", |a| {
            let process_keyring = (-2_i64).cast_unsigned();
            args([
                a.text("user"),
                a.text("name"),
                a.bytes(b"secret"),
                6,
                process_keyring,
            ])
        })
        .anything(),
    ]
}

/// A name for a message queue that no other process uses.
fn queue_name(arena: &mut Arena) -> u64 {
    let name = format!("reprise-test-{}-{:x}", sys("getpid", []), arena.start());
    arena.text(&name)
}

/// A message queue that has no name any more.
fn queue(arena: &mut Arena) -> u64 {
    let name = queue_name(arena);
    let queue = sys(
        "mq_open",
        [name, (libc::O_RDWR | libc::O_CREAT) as u64, 0o600, 0],
    );
    sys("mq_unlink", [name]);
    queue
}
