//! The code that runs in the tracee, and where it lies.
//!
//! A patched site jumps to a trampoline of its own near by, which says where
//! it came from in `rcx` (a syscall destroys `rcx` and `r11`, so they are free)
//! and jumps to the code here, at a fixed address, so that the seccomp filter
//! can know the one instruction whose calls it lets pass. The code uses no
//! stack: red zone, alternate stacks and their limits do not concern it. What
//! it must remember it keeps in the log's header, under a lock that is tried
//! once. Whoever does not get it (another thread) makes the call at its
//! trampoline, where it stops as ever. So does every call that needs more than
//! a line in the log: the path taken in doubt is the stop.
//!
//! What is performed here: readlink, readlinkat, access, faccessat,
//! faccessat2, stat, lstat, newfstatat; opening for reading, except
//! directories; close. A call is made again only if it failed, which is
//! harmless. A site may make other calls as well (`syscall` of libc makes any): they are made there.
#![expect(unsafe_code, reason = "assembly, and the symbols around it")]

use super::log::Header;

/// Where the code is mapped; no sanitizer's shadow, no allocator's arena and
/// no stack lies here.
pub(super) const BASE: u64 = 0x6fe0_0000_0000;
/// Room for the code.
pub(super) const CODE_LEN: u64 = 4096;
/// Where the address space has the address of its log: at the end of the code,
/// of which each has a copy of its own.
pub(super) const LOG: u64 = BASE + CODE_LEN - 8;
/// Where the logs begin. What the first of them holds says that nothing is logged.
pub(super) const LOGS: u64 = BASE + CODE_LEN;

/// Flags of an open that is more than reading what a path leads to.
const NOT_PLAIN: i32 = libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | libc::O_NOFOLLOW
    | libc::O_PATH
    | libc::O_DIRECTORY
    | 0x40_0000; // __O_TMPFILE

std::arch::global_asm!(
    r#"
    .pushsection .rodata.ptrace_async_in_process, "a", @progbits
    .balign 16
    .globl ptrace_async_in_process_begin
    .globl ptrace_async_in_process_taken
    .globl ptrace_async_in_process_saved
    .globl ptrace_async_in_process_performed
    .globl ptrace_async_in_process_noted
    .globl ptrace_async_in_process_published
    .globl ptrace_async_in_process_released
    .globl ptrace_async_in_process_again
    .globl ptrace_async_in_process_left
    .globl ptrace_async_in_process_end
ptrace_async_in_process_begin:
    endbr64
    // A site may make any call: syscall(2) is one.
    cmp $257, %eax
    je 10f
    cmp $262, %eax
    je 10f
    cmp $3, %eax
    je 10f
    cmp $89, %eax
    je 10f
    cmp $21, %eax
    je 10f
    cmp $2, %eax
    je 10f
    cmp $4, %eax
    je 10f
    cmp $6, %eax
    je 10f
    cmp $267, %eax
    je 10f
    cmp $269, %eax
    je 10f
    cmp $439, %eax
    jne 90f
10: movabs ${log}, %r11
    mov (%r11), %r11
    lock btsl $0, {lock}(%r11)
ptrace_async_in_process_taken:
    jc 90f
    mov %rcx, {from}(%r11)
    mov %rax, {nr}(%r11)
ptrace_async_in_process_saved:
    mov %rdi, {rdi}(%r11)
    mov %rsi, {rsi}(%r11)
    mov %rdx, {rdx}(%r11)
    mov {head}(%r11), %rcx
    cmp {limit}(%r11), %rcx
    ja 70f
    mov {sharing}(%r11), %ecx
    test %ecx, %ecx
    jz 20f
    // With threads all but close, whose order with their opens matters.
    cmp $1, %ecx
    jne 70f
    cmp $3, %eax
    je 70f
20: cmp $2, %eax
    je 25f
    cmp $257, %eax
    jne 30f
    // openat and open: only for reading, following links
    test ${not_plain}, %edx
    jnz 70f
    jmp 30f
25: test ${not_plain}, %esi
    jnz 70f

30: // perform it
    syscall
ptrace_async_in_process_performed:
    movabs ${log}, %r11
    mov (%r11), %r11
    mov %rax, {value}(%r11)
ptrace_async_in_process_noted:
    mov {nr}(%r11), %rcx
    // A descriptor is gone whatever close returns.
    cmp $3, %ecx
    je 40f
    // What does not exist is the same for all.
    cmp $-2, %rax
    je 40f
    cmp $-20, %rax
    je 40f
    cmp $2, %ecx
    je 35f
    cmp $257, %ecx
    je 35f
    cmp $4, %ecx
    je 37f
    cmp $6, %ecx
    je 37f
    cmp $262, %ecx
    je 38f
    // Links and permissions.
    test %rax, %rax
    jns 40f
    cmp $-22, %rax
    jne 70f
    // No link, unless the call was nonsense: then it has not read its path.
    cmp $89, %ecx
    je 36f
    cmp $267, %ecx
    jne 70f
    test %r10d, %r10d
    jg 40f
    jmp 70f
36: test %edx, %edx
    jg 40f
    jmp 70f

35: // An interrupted open has observed nothing.
    cmp $-4, %rax
    je 55f
    test %rax, %rax
    js 70f
    // A file of /proc may show its affinity: that stops first, see `placement`.
    cmp $2, %ecx
    mov %rsi, %rcx
    cmove %rdi, %rcx
    cmpb $'/', (%rcx)
    jne 40f
    cmpb $'p', 1(%rcx)
    jne 40f
    cmpb $'r', 2(%rcx)
    jne 40f
    cmpb $'o', 3(%rcx)
    jne 40f
    cmpb $'c', 4(%rcx)
    jne 40f
    // dup2 of a descriptor onto itself
    mov %rax, %rdi
    mov %rax, %rsi
    mov $33, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {value}(%r11), %rax
    jmp 40f

37: // Metadata.
    test %rax, %rax
    jnz 70f
    jmp 40f

38: // Of a descriptor too, whose path may be NULL.
    test %rax, %rax
    jnz 70f
    test $0x1000, %r10d
    jz 40f
    test %rsi, %rsi
    jz 70f
    cmpb $0, (%rsi)
    jne 70f

40: // log it: rcx is the entry
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    mov %rax, 8(%rcx)
    mov %rdi, 16(%rcx)
    mov %rsi, 24(%rcx)
    mov %rdx, 32(%rcx)
    mov %r10, 40(%rcx)
    mov {nr}(%r11), %rax
    mov %eax, 4(%rcx)
    // The path is the second argument of the calls ending in `at`; close has
    // none.
    cmp $257, %eax
    jae 41f
    mov %rdi, %rsi
    cmp $3, %eax
    jne 41f
    lea 43f(%rip), %rsi
41: lea {path}(%rcx), %rdi
    // The kernel has read the path, so it can be read, and has an end.
    mov ${path_max}, %edx
42: movb (%rsi), %al
    movb %al, (%rdi)
    inc %rsi
    inc %rdi
    dec %edx
    jz 44f
    test %al, %al
    jnz 42b
    jmp 44f
43: .byte 0
44: sub %rcx, %rdi
    add $7, %rdi
    and $-8, %rdi
    mov %edi, (%rcx)
    add %rdi, {head}(%r11)
ptrace_async_in_process_published:
55: // go on after the call with the result
    mov {value}(%r11), %rax
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    mov {from}(%r11), %rcx
    add $2, %rcx
    movl $0, {lock}(%r11)
ptrace_async_in_process_released:
    jmp *%rcx

ptrace_async_in_process_again:
70: // it is made (again) where it stops
    mov {nr}(%r11), %rax
    mov {from}(%r11), %rcx
    movl $0, {lock}(%r11)
ptrace_async_in_process_left:
90: jmp *%rcx
ptrace_async_in_process_end:
    .popsection
    "#,
    log = const LOG,
    lock = const std::mem::offset_of!(Header, lock),
    sharing = const std::mem::offset_of!(Header, sharing),
    head = const std::mem::offset_of!(Header, head),
    limit = const std::mem::offset_of!(Header, limit),
    from = const std::mem::offset_of!(Header, from),
    nr = const std::mem::offset_of!(Header, nr),
    rdi = const std::mem::offset_of!(Header, rdi),
    rsi = const std::mem::offset_of!(Header, rsi),
    rdx = const std::mem::offset_of!(Header, rdx),
    value = const std::mem::offset_of!(Header, value),
    data = const super::log::DATA,
    path = const super::log::ENTRY,
    path_max = const super::log::PATH_MAX,
    not_plain = const NOT_PLAIN,
    options(att_syntax)
);

unsafe extern "C" {
    safe static ptrace_async_in_process_begin: [u8; 0];
    safe static ptrace_async_in_process_taken: [u8; 0];
    safe static ptrace_async_in_process_saved: [u8; 0];
    safe static ptrace_async_in_process_performed: [u8; 0];
    safe static ptrace_async_in_process_noted: [u8; 0];
    safe static ptrace_async_in_process_published: [u8; 0];
    safe static ptrace_async_in_process_released: [u8; 0];
    safe static ptrace_async_in_process_again: [u8; 0];
    safe static ptrace_async_in_process_left: [u8; 0];
    safe static ptrace_async_in_process_end: [u8; 0];
}

/// The code, as it is to lie at [`BASE`].
pub(super) fn bytes() -> &'static [u8] {
    let begin = (&raw const ptrace_async_in_process_begin).cast::<u8>();
    let len = offset(&raw const ptrace_async_in_process_end);
    // SAFETY: the bytes between the two symbols are the assembly above, in a
    // read-only section.
    unsafe { std::slice::from_raw_parts(begin, len) }
}

fn offset(symbol: *const [u8; 0]) -> usize {
    symbol.addr() - (&raw const ptrace_async_in_process_begin).addr()
}

/// Where calls come from that the filter lets pass, as it sees it: the address
/// after the syscall instruction.
pub(crate) fn performed_at() -> u64 {
    BASE + offset(&raw const ptrace_async_in_process_performed) as u64
}

/// How far a task has come in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It holds no lock, and `rcx` says where it goes on.
    Outside,
    /// It has just tried the lock: the carry flag says whether it had been
    /// taken.
    Tried,
    /// It holds the lock; `rcx` and `rax` still have the origin and the number.
    Locked,
    /// The header has them; the call was not made, or is to be made again.
    Saved,
    /// The call was made, and `rax` has its result.
    Performed,
    /// The result is in the header, the call not in the log.
    Noted,
    /// All is done but going back.
    Published,
}

/// How far somebody at this address has come; `None` outside of the code.
pub(super) fn progress(address: u64) -> Option<Progress> {
    let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
    let borders = [
        (&raw const ptrace_async_in_process_taken, Progress::Outside),
        (&raw const ptrace_async_in_process_saved, Progress::Locked),
        (
            &raw const ptrace_async_in_process_performed,
            Progress::Saved,
        ),
        (
            &raw const ptrace_async_in_process_noted,
            Progress::Performed,
        ),
        (
            &raw const ptrace_async_in_process_published,
            Progress::Noted,
        ),
        (
            &raw const ptrace_async_in_process_released,
            Progress::Published,
        ),
        (&raw const ptrace_async_in_process_again, Progress::Outside),
        (&raw const ptrace_async_in_process_left, Progress::Saved),
        (&raw const ptrace_async_in_process_end, Progress::Outside),
    ];
    if at == offset(&raw const ptrace_async_in_process_taken) {
        return Some(Progress::Tried);
    }
    let before = borders.iter().find(|(end, _)| at < offset(*end));
    before.map(|(_, progress)| *progress)
}

/// The calls that are performed: what a filter must let pass from there.
pub(crate) const PERFORMED: [i64; 11] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
];

/// Whether a site that makes this call is worth a patch.
pub(super) fn handles(nr: u64) -> bool {
    PERFORMED.contains(&nr.cast_signed())
}

/// A syscall instruction and the comparison after it, in a tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    /// Where the syscall instruction is.
    pub(super) address: u64,
    /// The instruction and the comparison.
    bytes: [u8; SITE_MAX],
    len: usize,
}

/// Bytes to look at to recognise a site.
pub(super) const SITE_MAX: usize = 8;
/// Bytes that a patch replaces.
pub(super) const PATCH_LEN: usize = 5;
/// Room for one trampoline.
pub(super) const TRAMPOLINE_LEN: u64 = 48;
/// Where in a trampoline its own syscall instruction is.
pub(super) const TAIL: u64 = 20;

impl Site {
    /// Recognises `syscall; cmp $imm32, %rax` or `... %eax`, which is how C
    /// libraries make calls and check for errors. The comparison is moved along,
    /// since a jump needs the room; nobody jumps to it from elsewhere, because
    /// it makes sense only after the call.
    pub(super) fn recognise(address: u64, bytes: [u8; SITE_MAX]) -> Option<Self> {
        let len = match bytes {
            [0x0f, 0x05, 0x48, 0x3d, ..] => 8,
            [0x0f, 0x05, 0x3d, ..] => 7,
            _ => return None,
        };
        Some(Self {
            address,
            bytes,
            len,
        })
    }

    /// What stood where the patch is.
    pub(super) fn original(&self) -> [u8; PATCH_LEN] {
        let mut original = [0; PATCH_LEN];
        original.copy_from_slice(&self.bytes[..PATCH_LEN]);
        original
    }

    /// Whether an address lies within.
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.address..self.address + self.len as u64).contains(&address)
    }

    /// The jump to its trampoline; `None` if that is too far.
    pub(super) fn patch(&self, trampoline: u64) -> Option<[u8; PATCH_LEN]> {
        jump(self.address, trampoline)
    }

    /// Where a call that the site was stopped at goes on.
    pub(super) fn after_call(trampoline: u64) -> u64 {
        trampoline + TAIL + 2
    }

    /// The code at `trampoline`; `None` if the way back is too far.
    pub(super) fn trampoline(&self, trampoline: u64) -> Option<Vec<u8>> {
        let mut code = vec![0x48, 0x8d, 0x0d];
        // lea tail(%rip), %rcx
        code.extend((TAIL as u32 - 7).to_le_bytes());
        // movabs $BASE, %r11; jmp *%r11
        code.extend([0x49, 0xbb]);
        code.extend(BASE.to_le_bytes());
        code.extend([0x41, 0xff, 0xe3]);
        debug_assert_eq!(code.len() as u64, TAIL);
        // syscall and the comparison, then back.
        code.extend(&self.bytes[..self.len]);
        let back = trampoline + code.len() as u64;
        code.extend(jump(back, self.address + self.len as u64)?);
        Some(code)
    }
}

/// `jmp rel32` at `from`.
fn jump(from: u64, to: u64) -> Option<[u8; PATCH_LEN]> {
    let distance = to.wrapping_sub(from + PATCH_LEN as u64).cast_signed();
    let distance = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, distance[0], distance[1], distance[2], distance[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_fits_and_its_syscall_is_where_it_is_said_to_be() {
        let code = bytes();
        assert!(code.len() as u64 <= LOG - BASE);
        let after = (performed_at() - BASE) as usize;
        assert_eq!(code[after - 2..after], [0x0f, 0x05]);
        // The filter lets the first pass, the other is to stop.
        let calls: Vec<usize> = (2..=code.len())
            .filter(|end| code[end - 2..*end] == [0x0f, 0x05])
            .collect();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0], after);
    }

    #[test]
    fn every_address_of_the_code_has_its_progress() {
        let mut seen = Vec::new();
        for at in BASE..BASE + bytes().len() as u64 {
            let progress = progress(at).expect("within");
            if seen.last() != Some(&progress) {
                seen.push(progress);
            }
        }
        use Progress::*;
        let all = [
            Outside, Tried, Locked, Saved, Performed, Noted, Published, Outside, Saved, Outside,
        ];
        assert_eq!(seen, all);
        assert_eq!(progress(performed_at()), Some(Progress::Performed));
        assert_eq!(progress(BASE - 1), None);
        assert_eq!(progress(BASE + bytes().len() as u64), None);
    }

    #[test]
    fn sites_are_recognised_by_the_comparison() {
        let libc = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let site = Site::recognise(0x1000, libc).expect("a site");
        assert!(site.contains(0x1007) && !site.contains(0x1008));
        let short = [0x0f, 0x05, 0x3d, 0, 0xf0, 0xff, 0xff, 0x90];
        let site = Site::recognise(0x1000, short).expect("a site");
        assert!(site.contains(0x1006) && !site.contains(0x1007));
        assert_eq!(Site::recognise(0, [0x0f, 0x05, 0xc3, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn trampolines_come_back() {
        let libc = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let site = Site::recognise(0x7000_0000, libc).expect("a site");
        let code = site.trampoline(0x6000_0000).expect("near");
        assert!(code.len() as u64 <= TRAMPOLINE_LEN);
        let back = code.len() - PATCH_LEN;
        assert_eq!(code[TAIL as usize..back], libc);
        let rel = i32::from_le_bytes(code[back + 1..].try_into().expect("4 bytes"));
        let to = 0x6000_0000 + code.len() as i64 + i64::from(rel);
        assert_eq!(to, 0x7000_0008);
        assert_eq!(site.trampoline(0x7fff_0000_0000), None);
        assert_eq!(site.patch(0x7fff_0000_0000), None);
    }
}
