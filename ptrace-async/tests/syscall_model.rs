//! Decoding, printing and the memory effects of calls, on memory made of bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ptrace_async::memory::Memory;
use ptrace_async::syscall::decode::{Limits, Value};
use ptrace_async::syscall::effects::{self, Before};
use ptrace_async::syscall::spans::{Span, Start, spans};
use ptrace_async::syscall::{Decoded, Invocation, Support, Syscall, table};

/// Memory with content at a few addresses.
#[derive(Debug, Clone, Default)]
struct Fake(BTreeMap<u64, Vec<u8>>);

impl Fake {
    fn with(mut self, address: u64, bytes: &[u8]) -> Self {
        self.0.insert(address, bytes.to_vec());
        self
    }

    fn words(self, address: u64, words: &[u64]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.with(address, &bytes)
    }
}

impl Memory for Fake {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Some((start, bytes)) = self.0.range(..=address).next_back() else {
            return 0;
        };
        let Some(rest) = usize::try_from(address - start)
            .ok()
            .and_then(|at| bytes.get(at..))
        else {
            return 0;
        };
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        len
    }
}

fn call<const N: usize>(name: &str, given: [u64; N]) -> Invocation {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    Invocation {
        nr: u64::from(table::by_name(name).unwrap().number),
        args,
    }
}

#[track_caller]
fn prints<const N: usize>(name: &str, given: [u64; N], result: i64, memory: &Fake, want: &str) {
    assert_eq!(
        Decoded::at_exit(call(name, given), result, memory).to_string(),
        want
    );
}

const CWD: u64 = libc::AT_FDCWD as i64 as u64;

#[test]
fn paths_flags_and_modes_are_symbolic() {
    let memory = Fake::default().with(0x1000, b"/etc/passwd\0");
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let want = r#"openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3"#;
    prints("openat", [CWD, 0x1000, flags], 3, &memory, want);
    let flags = (libc::O_WRONLY | libc::O_CREAT) as u64;
    let want = r#"open("/etc/passwd", O_WRONLY|O_CREAT, 0644) = 3"#;
    prints("open", [0x1000, flags, 0o644], 3, &memory, want);
}

#[test]
fn errors_have_names() {
    let memory = Fake::default().with(0x1000, b"x\0");
    prints("chdir", [0x1000], -2, &memory, r#"chdir("x") = -1 ENOENT"#);
    prints("chdir", [0], -14, &memory, "chdir(NULL) = -1 EFAULT");
    prints("getpid", [], -512, &memory, "getpid() = ? ERESTARTSYS");
    prints("getpid", [], -4000, &memory, "getpid() = -1 errno 4000");
}

#[test]
fn data_shows_the_transferred_bytes() {
    let memory = Fake::default().with(
        0x1000,
        b"hello\n\0\x011\xff, and more than that it shall be",
    );
    prints(
        "read",
        [3, 0x1000, 512],
        6,
        &memory,
        r#"read(3, "hello\n", 512) = 6"#,
    );
    prints(
        "read",
        [3, 0x1000, 512],
        10,
        &memory,
        r#"read(3, "hello\n\0\0011\377", 512) = 10"#,
    );
    prints(
        "read",
        [3, 0x1000, 512],
        0,
        &memory,
        r#"read(3, "", 512) = 0"#,
    );
    prints(
        "read",
        [3, 0x1000, 512],
        -9,
        &memory,
        "read(3, 0x1000, 512) = -1 EBADF",
    );
    let want = r#"write(1, "hello\n\0\0011\377, and more than that i"..., 40) = 40"#;
    prints("write", [1, 0x1000, 40], 40, &memory, want);
}

#[test]
fn outputs_are_addresses_before_the_call() {
    let decoded = Decoded::at_entry(call("read", [3, 0x1000, 512]), &Fake::default());
    assert_eq!(decoded.to_string(), "read(3, 0x1000, 512)");
}

#[test]
fn structures_show_their_fields() {
    let memory = Fake::default()
        .words(0x1000, &[1, 500])
        .words(0x2000, &[2, u64::MAX]);
    let want = "nanosleep({tv_sec=1, tv_nsec=500}, NULL) = 0";
    prints("nanosleep", [0x1000, 0], 0, &memory, want);
    let want = "getrlimit(RLIMIT_NOFILE, {rlim_cur=2, rlim_max=RLIM64_INFINITY}) = 0";
    prints("getrlimit", [7, 0x2000], 0, &memory, want);
    let memory = Fake::default().words(0x1000, &[0x0000_0004_0000_0003]);
    prints(
        "pipe2",
        [0x1000, 0x8_0000],
        0,
        &memory,
        "pipe2([3, 4], O_CLOEXEC) = 0",
    );
    let memory = Fake::default().words(0x1000, &[0x0001_0001_0000_0003, 0x0000_0004_0000_0004]);
    let want = "poll([{fd=3, events=POLLIN, revents=POLLIN}, {fd=4, events=POLLOUT, revents=0}], 2, \
                -1) = 1";
    prints("poll", [0x1000, 2, 0xffff_ffff], 1, &memory, want);
}

#[test]
fn ends_of_children_are_explained() {
    let memory = Fake::default().words(0x1000, &[0x0700]).words(0x2000, &[9]);
    let want = "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 7}], WNOHANG, NULL) = 42";
    prints("wait4", [u64::MAX, 0x1000, 1, 0], 42, &memory, want);
    let want = "wait4(-1, [{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}], 0, NULL) = 42";
    prints("wait4", [u64::MAX, 0x2000, 0, 0], 42, &memory, want);
    let want = "wait4(-1, 0x1000, WNOHANG, NULL) = 0";
    prints("wait4", [u64::MAX, 0x1000, 1, 0], 0, &memory, want);
}

#[test]
fn arguments_of_programs_are_listed() {
    let memory = Fake::default()
        .with(0x1000, b"/bin/echo\0")
        .with(0x1100, b"echo\0")
        .with(0x1200, b"hi\0")
        .words(0x2000, &[0x1100, 0x1200, 0])
        .words(0x3000, &[0]);
    let want = r#"execve("/bin/echo", ["echo", "hi"], []) = 0"#;
    prints("execve", [0x1000, 0x2000, 0x3000], 0, &memory, want);
}

#[test]
fn socket_addresses_are_readable() {
    let memory = Fake::default()
        .with(0x1000, b"\x02\0\0\x50\x7f\0\0\x01\0\0\0\0\0\0\0\0")
        .with(0x2000, b"\x01\0/run/x\0junk");
    let want = r#"connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}, 16) = 0"#;
    prints("connect", [3, 0x1000, 16], 0, &memory, want);
    let want = r#"bind(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 13) = 0"#;
    prints("bind", [3, 0x2000, 13], 0, &memory, want);
}

#[test]
fn arguments_that_the_kernel_ignores_are_not_shown() {
    let memory = Fake::default().words(0x1000, &[1, 0]);
    let want = "futex(0x2000, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 1) = 0";
    prints("futex", [0x2000, 129, 1, 7, 7, 7], 0, &memory, want);
    let want = "futex(0x2000, FUTEX_WAIT, 1, {tv_sec=1, tv_nsec=0}) = -1 ETIMEDOUT";
    prints("futex", [0x2000, 0, 1, 0x1000, 7, 7], -110, &memory, want);
    prints("fcntl", [3, 1, 7], 1, &memory, "fcntl(3, F_GETFD) = 1");
}

#[test]
fn vectors_show_each_buffer() {
    let memory = Fake::default()
        .with(0x1000, b"hello")
        .with(0x1100, b"world")
        .words(0x2000, &[0x1000, 5, 0x1100, 5]);
    let want =
        r#"writev(1, [{iov_base="hello", iov_len=5}, {iov_base="wor"..., iov_len=5}], 2) = 8"#;
    prints("writev", [1, 0x2000, 2], 8, &memory, want);
}

#[test]
fn an_unknown_number_is_a_value() {
    let invocation = Invocation {
        nr: 4711,
        args: [1, 2, 3, 4, 5, 6],
    };
    let decoded = Decoded::at_exit(invocation, -38, &Fake::default());
    assert_eq!(
        decoded.to_string(),
        "syscall_0x1267(0x1, 0x2, 0x3, 0x4, 0x5, 0x6) = -1 ENOSYS"
    );
    assert!(matches!(Syscall::of(4711), Syscall::Unknown(4711)));
    assert!(matches!(
        Syscall::of(4711).support(),
        Support::Unsupported(_)
    ));
    assert!(effects::writes(&invocation, 0, &Fake::default()).is_err());
}

#[test]
fn numbers_of_the_x32_interface_are_unknown() {
    assert!(Syscall::of(0x4000_0000).spec().is_none());
}

#[test]
fn paths_come_with_their_base_directory() {
    let memory = Fake::default().with(0x1000, b"a\0").with(0x2000, b"b\0");
    let call = call("renameat2", [7, 0x1000, CWD, 0x2000, 0]);
    let decoded = Decoded::at_entry(call, &memory);
    let paths: Vec<_> = decoded.paths().collect();
    assert_eq!(paths, [(7, &b"a"[..]), (libc::AT_FDCWD, &b"b"[..])]);
    assert!(matches!(
        decoded.value("oldpath"),
        Some(Value::Text { complete: true, .. })
    ));
}

#[test]
fn lengths_at_entry_bound_the_written_ranges() {
    let accept = call("accept", [3, 0x1000, 0x2000]);
    let before = Before::capture(&accept, &Fake::default().words(0x2000, &[4]));
    let after = Fake::default().words(0x2000, &[110]);
    let lens = |ranges: Vec<effects::Range>| ranges.iter().map(|r| r.len).collect::<Vec<_>>();
    assert_eq!(
        lens(effects::writes_since(&before, &accept, 5, &after).unwrap()),
        [4, 4]
    );
    assert_eq!(lens(effects::writes(&accept, 5, &after).unwrap()), [110, 4]);
    assert_eq!(lens(effects::writes(&accept, -11, &after).unwrap()), [0; 0]);
}

#[test]
fn outputs_name_the_place_of_their_address() {
    use effects::Pointer::{Argument, Word};
    let memory = Fake::default()
        .words(0x1000, &[0x2000, 16, 0x3000, 2, 0, 0, 0])
        .words(0x3000, &[0x4000, 10, 0x5000, 20]);
    let outputs = effects::outputs(&call("recvmsg", [3, 0x1000, 0]), &memory);
    let outputs: Vec<_> = outputs
        .iter()
        .map(|output| (output.pointer, output.range.start, output.range.len))
        .collect();
    assert_eq!(
        outputs,
        [
            (Argument(1), 0x1000, 56),
            (Word(0x1000), 0x2000, 16),
            (Word(0x1010), 0x3000, 32),
            (Word(0x3000), 0x4000, 10),
            (Word(0x3010), 0x5000, 20),
        ]
    );
    let outputs = effects::outputs(&call("poll", [0x1000, 3, 0]), &memory);
    assert_eq!((outputs[0].range.len, outputs[0].is_read), (24, true));
}

#[test]
fn spans_are_the_touched_bytes_of_a_file() {
    let span = |arg, store, from, len| Span {
        arg,
        store,
        from,
        len,
    };
    let check = |call: Invocation, result, memory: &Fake, want: &[Span]| {
        assert_eq!(spans(&call, result, memory).as_slice(), want);
    };
    let none = Fake::default();
    let read = call("read", [3, 0x1000, 512]);
    check(
        read,
        None,
        &none,
        &[span(0, false, Start::Position, Some(512))],
    );
    check(
        read,
        Some(100),
        &none,
        &[span(0, false, Start::Position, Some(100))],
    );
    check(read, Some(-9), &none, &[]);
    let pwrite = call("pwrite64", [3, 0x1000, 10, 4096]);
    check(
        pwrite,
        Some(10),
        &none,
        &[span(0, true, Start::Offset(4096), Some(10))],
    );
    let truncate = call("ftruncate", [3, 7]);
    check(
        truncate,
        Some(0),
        &none,
        &[span(0, true, Start::Offset(7), None)],
    );
    // The offset behind the pointer has moved by what was sent.
    let sent = Fake::default().words(0x1000, &[106]);
    let want = [
        span(1, false, Start::Offset(100), Some(6)),
        span(0, true, Start::Position, Some(6)),
    ];
    check(call("sendfile", [4, 3, 0x1000, 50]), Some(6), &sent, &want);
}

#[test]
fn an_unknown_ioctl_has_unknown_effects_unless_the_kernel_refuses_it() {
    let ioctl = call("ioctl", [3, 0xdead_beef, 0x1000]);
    assert!(effects::writes(&ioctl, 0, &Fake::default()).is_err());
    assert!(effects::reads(&ioctl, None, &Fake::default()).is_err());
    assert_eq!(effects::writes(&ioctl, -25, &Fake::default()), Ok(vec![]));
}

#[test]
fn every_row_is_complete() {
    for spec in table::all() {
        assert_eq!(Syscall::of(u64::from(spec.number)).name(), spec.name);
        assert!(
            spec.errors().iter().all(|error| (1..134).contains(error)),
            "{}",
            spec.name
        );
        let mut names: Vec<_> = spec.args.iter().map(|arg| arg.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(
            names.len(),
            spec.args.len(),
            "{}: two arguments have one name",
            spec.name
        );
    }
}

#[test]
fn objects_of_a_row_name_arguments_that_exist() {
    use ptrace_async::syscall::{Object, Type};
    for spec in table::all() {
        for object in spec.loads.iter().chain(spec.stores) {
            let (&Object::File(at) | &Object::Content(at) | &Object::Name(at) | &Object::Node(at)) =
                object
            else {
                continue;
            };
            let ty = spec.args[usize::from(at)].ty;
            let fits = match object {
                Object::Name(_) | Object::Node(_) => matches!(ty, Type::Path),
                _ => matches!(ty, Type::Fd),
            };
            assert!(fits, "{}: {object:?} is {ty:?}", spec.name);
        }
    }
}

/// Addresses and lengths that are more interesting than any 64-bit number.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..4096,
        (0_u64..0x400).prop_map(|at| 0x1000 + at),
        (0_u64..0x400).prop_map(|at| u64::MAX - at),
        Just(CWD),
    ]
}

/// Memory around 0x1000 whose words point into it, and at its very end.
fn memory() -> impl Strategy<Value = Fake> {
    (
        prop::collection::vec(word(), 0..160),
        prop::collection::vec(any::<u8>(), 0..64),
    )
        .prop_map(|(words, bytes)| {
            let end = u64::MAX - bytes.len() as u64;
            Fake::default().words(0x1000, &words).with(end, &bytes)
        })
}

fn exercise(invocation: Invocation, result: i64, memory: &Fake) {
    let limits = Limits {
        bytes: 8,
        text: 64,
        items: 3,
    };
    let _ = Decoded::with_limits(invocation, None, memory, &limits).to_string();
    let _ = Decoded::at_entry(invocation, memory).to_string();
    let decoded = Decoded::at_exit(invocation, result, memory);
    let _ = (decoded.to_string(), decoded.paths().count());
    let before = Before::capture(&invocation, memory);
    let ranges = [
        effects::writes(&invocation, result, memory),
        effects::writes_since(&before, &invocation, result, memory),
        effects::reads(&invocation, None, memory),
        effects::reads(&invocation, Some(result), memory),
    ];
    let _ = (
        spans(&invocation, None, memory),
        spans(&invocation, Some(result), memory),
    );
    compare_outputs(invocation, result, memory);
    for range in ranges.into_iter().flatten().flatten() {
        assert!(range.len > 0 && range.start.checked_add(range.len).is_some());
    }
}

/// For calls that may block, the written ranges lie in the declared outputs.
fn compare_outputs(invocation: Invocation, result: i64, memory: &Fake) {
    use ptrace_async::syscall::model::{Effects, Rule};
    let Some(spec) = invocation.syscall().spec() else {
        return;
    };
    let is_known = matches!(
        spec.effects,
        Effects::Typed | Effects::Rule(Rule::Poll | Rule::Pselect | Rule::WaitId)
    );
    let is_at_the_end = |range: &effects::Range| range.end() > u64::MAX - 0x1_0000;
    if !spec.blocks || !is_known || spec.name == "sendmmsg" {
        return;
    }
    let before = Before::capture(&invocation, memory);
    let written = effects::writes_since(&before, &invocation, result, memory).unwrap();
    let outputs = effects::outputs(&invocation, memory);
    for range in written.iter().filter(|range| !is_at_the_end(range)) {
        let in_one = |output: &effects::Output| {
            output.range.contains(range.start) && range.end() <= output.range.end()
        };
        assert!(
            outputs.iter().any(in_one),
            "{}: {range:x?} is not in {outputs:x?}",
            spec.name
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_call_makes_the_model_panic(
        nr in prop_oneof![0_u64..480, any::<u64>()],
        args in prop::array::uniform6(word()),
        result in prop_oneof![any::<i64>(), -600_i64..0, 0_i64..5000],
        memory in memory(),
    ) {
        exercise(Invocation { nr, args }, result, &memory);
    }
}

#[test]
fn random_bytes_do_not_make_the_model_panic() {
    // Every syscall, with registers and memory from a small generator.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20 {
        let bytes: Vec<u8> = (0..2048).map(|_| next() as u8).collect();
        let memory = Fake::default().with(0x1000, &bytes);
        for spec in table::all() {
            let mut args = [0; 6];
            for arg in &mut args {
                *arg = match next() % 4 {
                    0 => next(),
                    1 => next() % 256,
                    _ => 0x1000 + next() % 2048,
                };
            }
            let result = [0, -1, 1, 100, -4, i64::MIN, i64::MAX][round % 7];
            exercise(
                Invocation {
                    nr: u64::from(spec.number),
                    args,
                },
                result,
                &memory,
            );
        }
    }
}
