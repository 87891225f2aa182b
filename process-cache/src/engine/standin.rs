//! Builds the program that runs in place of a skipped program.
//!
//! A program cannot tell a hit from a run. So the process itself must write the program's output
//! (a full pipe must block it, and SIGPIPE must end it) and end as the program ended. Its execve
//! is therefore redirected to a stand-in: a static ELF image in memory that performs a list of
//! system calls and nothing else. The stand-in is executed like the program, so close-on-exec
//! descriptors close, a vfork parent wakes, and the old image is gone.
#![expect(
    unsafe_code,
    reason = "memfd_create with MFD_EXEC, which no wrapper offers; reading our own text"
)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::model::outcome::Ending;

/// Where the image is mapped.
const BASE: u64 = 0x1000_0000;
const HEADER: usize = 64 + 56;

// Performs operations of 32 bytes each (number, three arguments), which follow the code. Number 1,
// `write`, continues until all bytes are written, and waits if the descriptor would block. After
// another error (no space, for example) the process moves the positions of the descriptors back
// and executes the program after all: the program decides what the error means. A pipe that
// nobody reads is an exception if something has been written: the rest is left out. Number -1
// ends the process by the given signal. Number -2, which comes first, does nothing and has the
// path of the program. The code is copied from this process's own text and never runs here.
//
// rbx: the stack at the start, with the arguments and the environment. rbp: bytes written so far.
// r12: the next operation.
std::arch::global_asm!(
    ".pushsection .text.pcache_stand_in,\"ax\",@progbits",
    ".globl pcache_stand_in_start",
    ".globl pcache_stand_in_end",
    ".balign 16",
    "pcache_stand_in_start:",
    "mov rbx, rsp",
    "xor ebp, ebp",
    "lea r12, [rip + pcache_stand_in_end]",
    "2:",
    "mov rax, [r12]",
    "mov rdi, [r12 + 8]",
    "mov rsi, [r12 + 16]",
    "mov rdx, [r12 + 24]",
    "add r12, 32",
    "cmp rax, 1",
    "je 4f",
    "cmp rax, -1",
    "je 7f",
    "cmp rax, -2",
    "je 2b",
    "xor r10d, r10d",
    "cmp rax, 13", // rt_sigaction and rt_sigprocmask take the size of a set
    "je 3f",
    "cmp rax, 14",
    "jne 31f",
    "3:",
    "mov r10d, 8",
    "31:",
    "syscall",
    "jmp 2b",
    // write
    "4:",
    "test rdx, rdx",
    "jz 2b",
    "mov eax, 1",
    "syscall",
    "test rax, rax",
    "js 5f",
    "add rsi, rax",
    "sub rdx, rax",
    "add rbp, rax",
    "jmp 4b",
    "5:",
    "cmp rax, -4", // EINTR
    "je 4b",
    "cmp rax, -11", // EAGAIN: poll for POLLOUT, as long as it takes
    "jne 6f",
    "mov r13, rdi",
    "mov r14, rsi",
    "mov r15, rdx",
    "mov [rsp - 16], edi",
    "mov dword ptr [rsp - 12], 4",
    "lea rdi, [rsp - 16]",
    "mov esi, 1",
    "mov rdx, -1",
    "mov eax, 7",
    "syscall",
    "mov rdi, r13",
    "mov rsi, r14",
    "mov rdx, r15",
    "jmp 4b",
    "6:",
    "cmp rax, -32", // EPIPE
    "jne 61f",
    "test rbp, rbp",
    "jnz 2b",
    // lseek(fd, rest - length, SEEK_CUR) for this write, and lseek(fd, -length, SEEK_CUR) for
    // each before it. It fails for pipes and terminals.
    "61:",
    "lea r13, [r12 - 32]",
    "lea r15, [rip + pcache_stand_in_end]",
    "mov rsi, rdx",
    "jmp 63f",
    "62:",
    "xor esi, esi",
    "63:",
    "cmp qword ptr [r13], 1",
    "jne 64f",
    "mov rdi, [r13 + 8]",
    "sub rsi, [r13 + 24]",
    "mov edx, 1",
    "mov eax, 8",
    "syscall",
    "64:",
    "sub r13, 32",
    "cmp r13, r15",
    "jae 62b",
    // execve(path, argv, envp)
    "mov rdi, [r15 + 16]",
    "lea rsi, [rbx + 8]",
    "mov rax, [rbx]",
    "lea rdx, [rbx + rax*8 + 16]",
    "mov eax, 59",
    "syscall",
    "mov edi, 126",
    "mov eax, 231",
    "syscall",
    // kill
    "7:",
    "mov r13, rdi",
    "mov eax, 39", // getpid
    "syscall",
    "mov rdi, rax",
    "mov rsi, r13",
    "mov eax, 62", // kill
    "syscall",
    "jmp 2b",
    ".balign 16",
    "pcache_stand_in_end:",
    ".popsection",
);

unsafe extern "C" {
    static pcache_stand_in_start: u8;
    static pcache_stand_in_end: u8;
}

fn code() -> &'static [u8] {
    let (start, end) = (
        &raw const pcache_stand_in_start,
        &raw const pcache_stand_in_end,
    );
    // SAFETY: both labels are in one section of this program's text, the second after the first,
    // and text is never written.
    unsafe { std::slice::from_raw_parts(start, end as usize - start as usize) }
}

const WRITE: u64 = 1;
const KILL: u64 = u64::MAX;
const PROGRAM: u64 = u64::MAX - 1;

/// The actions of a stand-in, in order.
#[derive(Debug)]
pub struct Script {
    operations: Vec<[u64; 4]>,
    data: Vec<u8>,
    /// Operations whose second argument is an offset into `data`.
    relocations: Vec<usize>,
}

impl Script {
    /// Begins the script of a stand-in for the program at a path. If a write fails, the stand-in
    /// executes it.
    pub fn new(program: &[u8]) -> Self {
        let mut script = Self {
            operations: Vec::new(),
            data: Vec::new(),
            relocations: Vec::new(),
        };
        let path = [program, b"\0"].concat();
        script.with_data(PROGRAM, 0, &path, 0);
        script
    }

    /// Writes bytes.
    pub fn write(&mut self, fd: i32, bytes: &[u8]) {
        self.with_data(WRITE, fd as u64, bytes, bytes.len() as u64);
    }

    /// Moves the position of a descriptor forward.
    pub fn advance(&mut self, fd: i32, by: u64) {
        self.operations
            .push([libc::SYS_lseek as u64, fd as u64, by, libc::SEEK_CUR as u64]);
    }

    /// Sets the status flags of a descriptor.
    pub fn set_flags(&mut self, fd: i32, flags: i32) {
        let request = libc::F_SETFL as u64;
        self.operations
            .push([libc::SYS_fcntl as u64, fd as u64, request, flags as u64]);
    }

    /// Ends the process.
    pub fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Exited(status) => self.exit(status),
            Ending::Killed(signal) => {
                // No core dump: the program's memory is not available.
                self.operations
                    .push([libc::SYS_prctl as u64, libc::PR_SET_DUMPABLE as u64, 0, 0]);
                let signal = signal as u64;
                // The default action (a zeroed kernel sigaction), unblocked.
                self.with_data(libc::SYS_rt_sigaction as u64, signal, &[0; 32], 0);
                let set = 1_u64 << (signal.saturating_sub(1) & 63);
                let unblock = libc::SIG_UNBLOCK as u64;
                self.with_data(
                    libc::SYS_rt_sigprocmask as u64,
                    unblock,
                    &set.to_le_bytes(),
                    0,
                );
                self.operations.push([KILL, signal, 0, 0]);
                self.exit(128 + signal as i32);
            }
        }
    }

    fn exit(&mut self, status: i32) {
        self.operations
            .push([libc::SYS_exit_group as u64, status as u64, 0, 0]);
    }

    fn with_data(&mut self, number: u64, first: u64, bytes: &[u8], third: u64) {
        self.relocations.push(self.operations.len());
        self.operations
            .push([number, first, self.data.len() as u64, third]);
        self.data.extend_from_slice(bytes);
    }

    /// Returns the ELF image.
    fn image(&self) -> Vec<u8> {
        let code = code();
        let operations_at = HEADER + code.len();
        let data_at = operations_at + self.operations.len() * 32;
        let total = data_at + self.data.len();
        let mut image = Vec::with_capacity(total);
        let mut put = |bytes: &[u8]| image.extend_from_slice(bytes);
        put(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        put(&2_u16.to_le_bytes()); // ET_EXEC
        put(&62_u16.to_le_bytes()); // EM_X86_64
        put(&1_u32.to_le_bytes());
        put(&(BASE + HEADER as u64).to_le_bytes()); // entry
        put(&64_u64.to_le_bytes()); // program headers
        put(&0_u64.to_le_bytes());
        put(&0_u32.to_le_bytes());
        for field in [64_u16, 56, 1, 0, 0, 0] {
            put(&field.to_le_bytes());
        }
        put(&1_u32.to_le_bytes()); // PT_LOAD
        put(&5_u32.to_le_bytes()); // read and execute
        for field in [0, BASE, BASE, total as u64, total as u64, 4096] {
            put(&field.to_le_bytes());
        }
        put(code);
        for (index, operation) in self.operations.iter().enumerate() {
            let mut operation = *operation;
            if self.relocations.contains(&index) {
                operation[2] += BASE + data_at as u64;
            }
            for word in operation {
                image.extend_from_slice(&word.to_le_bytes());
            }
        }
        image.extend_from_slice(&self.data);
        image
    }

    /// Puts the image into memory that can be executed as `/proc/PID/fd/N`.
    ///
    /// # Errors
    /// When the kernel refuses (no memory, or executable memory files are
    /// forbidden by `vm.memfd_noexec`).
    pub fn build(&self) -> io::Result<File> {
        const MFD_EXEC: libc::c_uint = 0x10;
        let make = |flags| {
            // SAFETY: the name is a C string, and the result is checked.
            unsafe { libc::memfd_create(c"pcache-stand-in".as_ptr(), flags) }
        };
        let mut fd = make(libc::MFD_CLOEXEC | MFD_EXEC);
        if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
            // Kernels before 6.3 do not know the flag and need none.
            fd = make(libc::MFD_CLOEXEC);
        }
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.write_all(&self.image())?;
        // A file that is open for writing cannot be executed.
        File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn run(script: &Script) -> std::process::Output {
        let file = script.build().expect("an image");
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Command::new(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .expect("it runs")
    }

    #[test]
    fn the_stand_in_writes_and_exits() {
        let mut script = Script::new(b"/bin/false");
        script.write(1, b"out");
        script.write(2, b"err");
        script.write(1, b"put\n");
        script.end(Ending::Exited(7));
        let output = run(&script);
        assert_eq!(output.stdout, b"output\n");
        assert_eq!(output.stderr, b"err");
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn the_program_runs_after_all_if_a_write_fails() {
        use std::io::{Read, Seek};
        let mut script = Script::new(b"/bin/sh");
        script.write(1, b"abc");
        script.write(9, b"no such descriptor");
        script.write(1, b"def");
        script.end(Ending::Exited(0));
        let file = script.build().expect("an image");
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut out = tempfile::tempfile().expect("a file");
        let status = Command::new(path)
            .args(["-c", "printf $A; exit $1", "sh", "5"])
            .env("A", "x")
            .stdout(out.try_clone().expect("a descriptor"))
            .status()
            .expect("it runs");
        assert_eq!(status.code(), Some(5));
        out.rewind().expect("a file");
        let mut text = String::new();
        out.read_to_string(&mut text).expect("text");
        assert_eq!(text, "xbc");
    }

    #[test]
    fn the_stand_in_writes_more_than_a_pipe_holds() {
        let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut script = Script::new(b"/bin/false");
        script.write(1, &bytes);
        script.end(Ending::Exited(0));
        assert!(run(&script).stdout == bytes);
    }

    #[test]
    fn the_stand_in_ends_by_a_signal_without_a_core() {
        use std::os::unix::process::ExitStatusExt;
        for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL] {
            let mut script = Script::new(b"/bin/false");
            script.end(Ending::Killed(signal));
            let status = run(&script).status;
            assert_eq!(status.signal(), Some(signal));
            assert!(!status.core_dumped());
        }
    }
}
