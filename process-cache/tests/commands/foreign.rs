//! 32-bit programs, whose system calls cannot be followed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Sandbox, copy_program};

/// The address at which the kernel maps an [`image`].
const BASE: u32 = 0x0804_8000;

/// The offset of the data in an [`image`].
const DATA: u32 = 0x200;

/// Creates a 32-bit x86 program: code to which the kernel jumps, and data.
fn image(code: &[u8], data: &[u8]) -> Vec<u8> {
    let header = 52;
    let entry = header + 32;
    let length = DATA + data.len() as u32;
    let mut bytes = b"\x7fELF\x01\x01\x01".to_vec();
    bytes.resize(16, 0);
    // An executable for the 386, version 1.
    bytes.extend([2, 0, 3, 0]);
    for word in [1, BASE + entry, header, 0, 0] {
        bytes.extend(u32::to_le_bytes(word));
    }
    for half in [header as u16, 32, 1, 40, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    // One segment to load: the whole file, readable, writable and executable.
    for word in [1, 0, BASE, BASE, length, length, 7, 0x1000] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(code);
    assert!(bytes.len() <= DATA as usize);
    bytes.resize(DATA as usize, 0);
    bytes.extend(data);
    bytes
}

/// Sets `eax`, `ebx`, `ecx` and `edx`, and makes a system call.
fn call(number: u32, first: u32, second: u32, third: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for (load, value) in [(0xb8, number), (0xbb, first), (0xb9, second), (0xba, third)] {
        code.push(load);
        code.extend(value.to_le_bytes());
    }
    code.extend([0xcd, 0x80]);
    code
}

const EXIT: u32 = 1;
const OPEN: u32 = 5;
const CLOSE: u32 = 6;
const EXECVE: u32 = 11;

fn make_program(sandbox: &Sandbox, path: &std::path::Path, bytes: &[u8]) {
    let source = sandbox.path("source");
    fs::write(&source, bytes).expect("a file");
    copy_program(&source, path);
    fs::remove_file(source).expect("a file");
}

/// Creates a sandbox with such a program as `p`; `None` if this kernel cannot run it.
fn sandbox(setup: &str, code: &[u8], data: &[u8]) -> Option<Sandbox> {
    let sandbox = Sandbox::new(setup);
    let probe = sandbox.path("probe");
    make_program(&sandbox, &probe, &image(&call(EXIT, 0, 0, 0), b""));
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).expect("a mode");
    if !sandbox.plain("./probe").status.success() {
        eprintln!("skipped: this kernel runs no 32-bit programs");
        return None;
    }
    fs::remove_file(probe).expect("a file");
    let program = sandbox.path("p");
    make_program(&sandbox, &program, &image(code, data));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    Some(sandbox)
}

#[test]
fn a_32_bit_program_runs_and_is_not_stored() {
    let Some(sandbox) = sandbox("", &call(EXIT, 7, 0, 0), b"") else {
        return;
    };
    for _ in 0..2 {
        let run = sandbox.run(sandbox.pcache().args(["--", "./p"]));
        assert_eq!(run.status.code(), Some(7));
        run.assert_uncacheable("no 64-bit x86 program");
    }
}

#[test]
fn a_32_bit_program_inside_is_named_as_the_reason() {
    let Some(mut sandbox) = sandbox("", &call(EXIT, 7, 0, 0), b"") else {
        return;
    };
    for _ in 0..2 {
        let run = sandbox.cached("echo before; ./p; echo $?");
        assert_eq!(run.out, "before\n7\n");
        run.assert_uncacheable("p is no 64-bit x86 program");
    }
    sandbox.options = vec!["--explain".into()];
    let run = sandbox.cached("./p; :");
    assert!(
        run.err
            .contains("p is no 64-bit x86 program: its system calls cannot be followed"),
        "{}",
        run.err
    );
}

#[test]
fn a_32_bit_program_runs_without_a_filter() {
    let Some(mut sandbox) = sandbox("", &call(EXIT, 7, 0, 0), b"") else {
        return;
    };
    sandbox.options = vec!["--no-seccomp".into()];
    for _ in 0..2 {
        let run = sandbox.cached("./p; echo $?");
        assert_eq!(run.out, "7\n");
        run.assert_uncacheable("no 64-bit x86 program");
    }
}

/// A program that puts the file `f` on its standard input, and becomes
/// `sh -c '/bin/cat; :'`.
fn redirecting() -> (Vec<u8>, Vec<u8>) {
    let mut data = Vec::new();
    let mut place = |text: &[u8]| {
        let at = BASE + DATA + data.len() as u32;
        data.extend(text);
        data.push(0);
        at
    };
    let (file, shell) = (place(b"f"), place(b"/bin/sh"));
    let (option, script) = (place(b"-c"), place(b"/bin/cat; :"));
    let vector = BASE + DATA + data.len() as u32;
    for word in [shell, option, script, 0] {
        data.extend(u32::to_le_bytes(word));
    }
    let code = [
        call(CLOSE, 0, 0, 0),
        call(OPEN, file, 0, 0),
        call(EXECVE, shell, vector, vector + 12),
        call(EXIT, 1, 0, 0),
    ];
    (code.concat(), data)
}

#[test]
fn children_of_a_32_bit_program_are_not_stored() {
    // The open of the program is not observed: a result of a program that it starts would hit with
    // another input.
    let (code, data) = redirecting();
    let Some(sandbox) = sandbox("", &code, &data) else {
        return;
    };
    for text in ["one", "two", "two"] {
        sandbox.edit(&format!("echo {text} > f"));
        for script in ["./p", "exec ./p"] {
            let run = sandbox.cached(script);
            assert_eq!(run.out, format!("{text}\n"), "{:#?}", run.units);
            run.assert_uncacheable("");
            assert_eq!(run.unit("cat").result, "not_stored", "{:#?}", run.units);
        }
    }
}

#[test]
fn a_64_bit_program_that_makes_32_bit_calls_is_not_stored() {
    let sandbox = Sandbox::new(
        "cat > t.c <<'END'\nint main(void) { int got; \
         __asm__ volatile(\"int $0x80\" : \"=a\"(got) : \"a\"(20)); return got > 0 ? 3 : 4; }\nEND\n\
         cc -o t t.c",
    );
    let plain = sandbox.plain("./t");
    for _ in 0..2 {
        let run = sandbox.run(sandbox.pcache().args(["--", "./t"]));
        assert_eq!(run.status, plain.status);
        if plain.status.code() == Some(3) {
            run.assert_uncacheable("32-bit system calls");
        }
    }
}
