//! The text of the code that performs calls inside a tracee (see [`code`](super::code)).
#![expect(unsafe_code, reason = "assembly")]

use super::layout::{
    ARENA_LEN, CLASSES, CODE_LEN, DATA, DESCRIPTORS, ENTRY, Header, LIBRARIES, LIBRARY_LEN, LOG,
    LOGS, OUTPUTS, OWN, PAGE, READS, START_WORDS, WITHOUT_BYTES,
};
use crate::unstopped::{
    ATTRIBUTE, COMMAND, COUNT, EPOLL, FACT, KIND, LINK, MAY_WAIT, METADATA, METADATA_AT,
    MOST_NAMED, MOST_WRITTEN, OPEN, OUTPUT, PAIR, PASSING, PATH_IN, PATH_MAX, READ, RESULT, SEEK,
    STATX, WHATEVER, WRITE,
};

/// How often the lock is tried.
const ATTEMPTS: u32 = 16;

/// Flags of an open that does more than read the file behind a path.
const NOT_PLAIN: i32 =
    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH | 0x40_0000; // __O_TMPFILE

std::arch::global_asm!(
    r#"
    .pushsection .rodata.ptrace_async_in_process, "a", @progbits
    .balign 16
    .globl ptrace_async_in_process_begin
    .globl ptrace_async_in_process_trying
    .globl ptrace_async_in_process_taken
    .globl ptrace_async_in_process_saved
    .globl ptrace_async_in_process_loader
    .globl ptrace_async_in_process_loader_taken
    .globl ptrace_async_in_process_loader_saved
    .globl ptrace_async_in_process_asking
    .globl ptrace_async_in_process_asked
    .globl ptrace_async_in_process_performed
    .globl ptrace_async_in_process_noted
    .globl ptrace_async_in_process_logged
    .globl ptrace_async_in_process_logged_nonsense
    .globl ptrace_async_in_process_published
    .globl ptrace_async_in_process_released
    .globl ptrace_async_in_process_again
    .globl ptrace_async_in_process_left
    .globl ptrace_async_in_process_spinning
    .globl ptrace_async_in_process_start
    .globl ptrace_async_in_process_started
    .globl ptrace_async_in_process_stopping
    .globl ptrace_async_in_process_end
    .globl ptrace_async_in_process_entry
    .globl ptrace_async_in_process_entry_end
ptrace_async_in_process_begin:
    endbr64
    // A site may make any call: syscall(2) is such a site.
    cmp $({count} - 1), %rax
    ja 90f
    movabs ${classes}, %r11
    cmpb $0, (%r11, %rax)
    je 90f
    // Reads of 3 to 5 and 255 pass everywhere.
    test %eax, %eax
    jne 16f
    cmp $255, %edi
    je 90f
    cmp $6, %edi
    jae 16f
    cmp $3, %edi
    jae 90f
16: movabs ${log}, %r11
    mov (%r11), %r11
    // The first log stands for "no log": nothing is logged in it.
    cmp ${nobodys}, %r11d
    je 90f
ptrace_async_in_process_trying:
17: lock btsl $0, {lock}(%r11)
ptrace_async_in_process_taken:
    jc 57f
    movzwl %ax, %eax
    mov %rcx, {from}(%r11)
    mov %rax, {nr}(%r11)
ptrace_async_in_process_saved:
    movl $0, {loader}(%r11)
    jmp 15f

ptrace_async_in_process_loader:
    // The loader's opens come here, and its questions about what it opened.
    endbr64
    movabs ${log}, %r11
    mov (%r11), %r11
    // The first log stands for "no log": nothing is logged in it.
    cmp ${nobodys}, %r11d
    je 90f
    lock btsl $0, {lock}(%r11)
ptrace_async_in_process_loader_taken:
    jc 90f
    mov %rcx, {from}(%r11)
    mov %rax, {nr}(%r11)
ptrace_async_in_process_loader_saved:
    movl $1, {loader}(%r11)

15: mov %rdi, {rdi}(%r11)
    mov %rsi, {rsi}(%r11)
    mov %rdx, {rdx}(%r11)
    mov {head}(%r11), %rcx
    cmp {limit}(%r11), %rcx
    ja 70f
    movabs ${classes}, %rcx
    movzbl (%rcx, %rax), %ecx
    mov %ecx, {class}(%r11)
    // The knowledge of the descriptor, if the first argument is one.
    xor %ecx, %ecx
    cmp ${descriptors}, %edi
    jae 10f
    mov %edi, %ecx
    movzbl {known}(%r11, %rcx), %ecx
10: mov %ecx, {known_here}(%r11)
    // The first read of a standard stream stops, since what is there is asked for
    // before it is read.
    cmp $3, %edi
    jae 11f
    test ${own_or_reads}, %ecx
    jnz 11f
    test %eax, %eax
    jz 70f
    cmp ${readv_nr}, %eax
    je 70f
11: mov {class}(%r11), %ecx
    cmpl $0, {sharing}(%r11)
    je 67f
    // With threads nothing waits here: it is asked first whether it would.
    cmpl $1, {sharing}(%r11)
    jne 70f
    test ${may_wait}, %ecx
    jnz 69f
67: and ${kind}, %ecx
    cmp ${epoll}, %ecx
    je 12f
    cmp ${getdents_nr}, %eax
    jne 20f
    testl ${reads}, {known_here}(%r11)
    jnz 20f
    jmp 13f
12:
ptrace_async_in_process_asking:
    // Only files and directories, which cannot be registered.
    mov %edx, %edi
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {stat}+{mode_at}(%r11), %ecx
    test %eax, %eax
    mov {nr}(%r11), %rax
    jnz 70f
    and ${format}, %ecx
    cmp ${regular}, %ecx
    je 20f
    cmp ${directory}, %ecx
    je 20f
    jmp 70f
13: // The names in a directory that has not changed since the process began can be
    // asked for later.
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rsi}(%r11), %rsi
    test %eax, %eax
    mov {nr}(%r11), %rax
    jnz 70f
    mov {stat}+{changed_at}(%r11), %rcx
    imul $1000000000, %rcx, %rcx
    add {stat}+{changed_at}+8(%r11), %rcx
    mov %rcx, {changed}(%r11)
    cmp {begun}(%r11), %rcx
    jge 70f
    jmp 20f
69: mov %edi, {stat}(%r11)
    mov ${pollout}, %edi
    mov ${pollin}, %esi
    and ${kind}, %ecx
    cmp ${write_kind}, %ecx
    cmovne %esi, %edi
    mov %edi, {stat}+4(%r11)
    lea {stat}(%r11), %rdi
    mov $1, %esi
    xor %edx, %edx
    mov $7, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    cmp $1, %eax
    mov {nr}(%r11), %rax
ptrace_async_in_process_asked:
    jne 70f
20: mov $1, %ecx
    movabs ${clock}, %r11
    lock xadd %rcx, (%r11)
    movabs ${log}, %r11
    mov (%r11), %r11
    mov %rcx, {stamp}(%r11)
    mov {class}(%r11), %ecx
    movq $0, {result}(%r11)
    test ${has_result}, %ecx
    jz 24f
    // The result must not overwrite the path, which is logged afterwards.
    and ${path_in}, %ecx
    cmp $1, %ecx
    jne 22f
    mov %rdi, %rcx
    mov %rsi, %rax
    jmp 23f
22: mov %rsi, %rcx
    mov %rdx, %rax
    cmpl ${statx_nr}, {nr}(%r11)
    cmove %r8, %rax
23: mov %rax, {result}(%r11)
    sub %rax, %rcx
    cmpl $89, {nr}(%r11)
    je 28f
    cmpl $267, {nr}(%r11)
    je 29f
    cmpl ${statx_nr}, {nr}(%r11)
    je 56f
    cmp ${stat_len}, %rcx
    jmp 31f
28: mov %edx, %eax
    cmp %rax, %rcx
    jmp 31f
29: mov %r10d, %eax
    cmp %rax, %rcx
    jmp 31f
56: cmp ${statx_len}, %rcx
31: mov {nr}(%r11), %rax
    jb 70f
24: mov {class}(%r11), %ecx
    and ${kind}, %ecx
    cmp ${command}, %ecx
    je 26f
    cmp ${write_kind}, %ecx
    je 21f
    cmp ${seek_kind}, %ecx
    je 19f
    cmp ${output}, %ecx
    je 14f
    cmp ${open}, %ecx
    jne 30f
    // openat and open: only for reading
    cmp $2, %eax
    je 25f
    test ${not_plain}, %edx
    jnz 70f
    jmp 30f
25: test ${not_plain}, %esi
    jnz 70f
    jmp 30f
14: // Of files that the process made, it does not matter what is written.
    testl ${outputs}, {known_here}(%r11)
    jz 70f
    jmp 30f
21: testl ${outputs}, {known_here}(%r11)
    jnz 30f
    // Observations of a file are told before the process may change it.
    cmpl $0, {observed}(%r11)
    jne 70f
    cmp ${most_written}, %rdx
    ja 70f
    jmp 30f
19: // Positions in other files pass everywhere.
    cmp $3, %edi
    jae 70f
    jmp 30f
26: cmp $16, %eax
    je 27f
    test %esi, %esi
    jz 30f
    cmp ${set_fd}, %esi
    je 30f
    cmp ${set_fl}, %esi
    je 30f
    cmp ${dup_fd_cloexec}, %esi
    je 30f
    jmp 70f
27: cmp ${getpgrp}, %esi
    je 30f
    cmp $3, %edi
    jae 70f
    cmp ${winsize}, %esi
    je 30f
    cmp ${tcgets}, %esi
    jne 70f

30: // perform it; of a close that is in progress others know
    mov %esi, %ecx
    cmp $33, %eax
    je 18f
    cmp ${dup3_nr}, %eax
    je 18f
    cmp $3, %eax
    jne 32f
    lea 1(%rdi), %ecx
    mov %ecx, {closing}(%r11)
    mov %edi, %ecx
18: // The descriptor becomes another one.
    cmp ${descriptors}, %ecx
    jae 32f
    movb $0, {known}(%r11, %rcx)
32: syscall
ptrace_async_in_process_performed:
    movabs ${log}, %r11
    mov (%r11), %r11
    mov %rax, {value}(%r11)
ptrace_async_in_process_noted:
    mov {class}(%r11), %ecx
    and ${kind}, %ecx
    cmpl $0, {unneeded}(%r11)
    je 59f
    cmpl $0, {loader}(%r11)
    jne 59f
    // Calls that only look at something are not logged.
    cmp ${link}, %ecx
    je 55f
    cmp ${metadata}, %ecx
    je 55f
    cmp ${metadata_at}, %ecx
    je 55f
    cmp ${statx}, %ecx
    je 55f
    cmp ${fact}, %ecx
    je 55f
    cmp ${attribute}, %ecx
    je 55f
59: cmp ${whatever}, %ecx
    je 50f
    cmp ${fact}, %ecx
    je 40f
    cmp ${command}, %ecx
    je 50f
    cmp ${read_kind}, %ecx
    je 52f
    cmp ${write_kind}, %ecx
    je 60f
    cmp ${output}, %ecx
    je 75f
    cmp ${attribute}, %ecx
    je 77f
    cmp ${seek_kind}, %ecx
    je 34f
    // That a name does not exist is logged for all kinds.
    cmp $-2, %rax
    je 40f
    cmp $-20, %rax
    je 87f
    cmp ${open}, %ecx
    je 35f
    cmp ${metadata}, %ecx
    je 37f
    cmp ${pair}, %ecx
    je 37f
    cmp ${metadata_at}, %ecx
    je 38f
    cmp ${statx}, %ecx
    je 58f
    cmp ${epoll}, %ecx
    je 68f
    // Links and permissions.
    test %rax, %rax
    jns 40f
    cmp $-22, %rax
    jne 70f
    // No link, unless the call was nonsense: then it has not read its path.
    mov {nr}(%r11), %rcx
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

50: // Of a duplicate the same is known.
    cmp ${descriptors}, %rax
    jae 40f
    mov {nr}(%r11), %rcx
    cmp $32, %ecx
    je 51f
    cmp $33, %ecx
    je 51f
    cmp ${dup3_nr}, %ecx
    je 51f
    cmp ${fcntl_nr}, %ecx
    jne 40f
    test %esi, %esi
    jz 51f
    cmp ${dup_fd_cloexec}, %esi
    jne 40f
51: mov {known_here}(%r11), %ecx
    movb %cl, {known}(%r11, %rax)
    jmp 40f

52: // A read that says nothing new is not logged, unless it fails.
    test %rax, %rax
    js 40f
    mov {known_here}(%r11), %ecx
    cmpl ${getdents_nr}, {nr}(%r11)
    je 53f
    test ${own_or_reads}, %ecx
    jnz 55f
    jmp 39f
53: test ${reads}, %ecx
    jnz 55f
    // The names are asked for once.
    cmp ${descriptors}, %edi
    jae 40f
    mov %edi, %ecx
    orb ${reads}, {known}(%r11, %rcx)
    jmp 40f

77: // That there is no such attribute.
    cmp $-61, %rax
    je 40f
    cmp $-95, %rax
    je 40f
    jmp 70f

87: // A part of the path is no directory, or all of it is none and should be one.
    cmp ${open}, %ecx
    jne 40f
    cmpl $2, {nr}(%r11)
    mov %edx, %ecx
    cmove %esi, %ecx
    test ${only_directories}, %ecx
    jnz 70f
    jmp 40f

35: // An interrupted open has observed nothing.
    cmp $-4, %rax
    je 55f
    test %rax, %rax
    js 70f
    cmpl $0, {loader}(%r11)
    jne 80f
    // A file of /proc may show its affinity: that stops first, see `placement`.
    cmpl $2, {nr}(%r11)
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
    // Two files do not: /proc/filesystems, which every sed, cp and mv reads, and a
    // program's own maps, which it reads to find the end of its stack.
    cmpb $'/', 5(%rcx)
    jne 45f
    cmpb $'f', 6(%rcx)
    je 47f
    cmpb $'s', 6(%rcx)
    jne 45f
    cmpb $'e', 7(%rcx)
    jne 45f
    cmpb $'l', 8(%rcx)
    jne 45f
    cmpb $'f', 9(%rcx)
    jne 45f
    cmpb $'/', 10(%rcx)
    jne 45f
    cmpb $'m', 11(%rcx)
    jne 45f
    cmpb $'a', 12(%rcx)
    jne 45f
    cmpb $'p', 13(%rcx)
    jne 45f
    cmpb $'s', 14(%rcx)
    je 40f
    jmp 45f
47: cmpb $'i', 7(%rcx)
    je 40f
    jmp 45f

37: // Metadata, pipes.
    test %rax, %rax
    jnz 70f
    cmp ${pair}, %ecx
    je 40f
    cmpl $0, {loader}(%r11)
    jne 92f
    cmpl $5, {nr}(%r11)
    jne 54f
    testl ${own}, {known_here}(%r11)
    jnz 55f
54: mov %rsi, %rcx
33: mov {mode_at}(%rcx), %ecx
65: and ${format}, %ecx
    cmp ${regular}, %ecx
    jne 40f
39: cmpl $0, {unneeded}(%r11)
    jne 40f
    movl $1, {observed}(%r11)
    jmp 40f

34: // A position.
    test %rax, %rax
    js 70f
    jmp 39b

38: // Of a descriptor too, whose path may be NULL.
    test %rax, %rax
    jnz 70f
    mov %rdx, %rcx
    test $0x1000, %r10d
    jz 33b
    test %rsi, %rsi
    jz 70f
    cmpb $0, (%rsi)
    jne 70f
    cmpl $0, {loader}(%r11)
    jne 92f
    testl ${own}, {known_here}(%r11)
    jnz 55f
    jmp 33b

68: // That says nothing.
    cmp $-1, %rax
    je 55f
    test %rax, %rax
    jnz 70f
    // The descriptor has become another one meanwhile.
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    jmp 48f

58: // Extended metadata, of a descriptor too.
    test %rax, %rax
    jnz 70f
    test $0x1000, %edx
    jz 66f
    test %rsi, %rsi
    jz 70f
    cmpb $0, (%rsi)
    jne 70f
    testl ${own}, {known_here}(%r11)
    jnz 55f
66: movzwl {statx_mode_at}(%r8), %ecx
    jmp 65b

40: // log it: rcx is the entry
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    mov %rax, 8(%rcx)
    mov %rdi, 16(%rcx)
    mov %rsi, 24(%rcx)
    mov %rdx, 32(%rcx)
    mov %r10, 40(%rcx)
    mov {class}(%r11), %eax
    and ${kind}, %eax
    cmp ${pair}, %eax
    jne 71f
    mov (%rdi), %rax
    mov %rax, 40(%rcx)
    jmp 46f
71: cmp ${open}, %eax
    jne 72f
    // Its reads and its metadata say nothing new.
    mov {value}(%r11), %rax
    cmp ${descriptors}, %rax
    jae 46f
    movb ${own}, {known}(%r11, %rax)
    jmp 46f
72: cmpl ${getdents_nr}, {nr}(%r11)
    jne 46f
    mov {changed}(%r11), %rax
    mov %rax, 40(%rcx)
46: mov {stamp}(%r11), %rax
    mov %rax, 48(%rcx)
    mov {nr}(%r11), %rax
    mov %eax, 4(%rcx)
    mov {loader}(%r11), %eax
    shl $31, %eax
    or %eax, 4(%rcx)
    mov {class}(%r11), %eax
    and ${path_in}, %eax
    cmp $1, %eax
    ja 41f
    mov %rdi, %rsi
    je 41f
    lea 43f(%rip), %rsi
41: lea {path}(%rcx), %rdi
    // The kernel has read the path, so it can be read, and has an end.
    mov ${path_max}, %edx
42: cmp {result}(%r11), %rsi
    je 48f
    movb (%rsi), %al
    movb %al, (%rdi)
    inc %rsi
    inc %rdi
    dec %edx
    jz 44f
    test %al, %al
    jnz 42b
    jmp 44f
43: .byte 0
44: mov {class}(%r11), %eax
    and ${kind}, %eax
    cmp ${attribute}, %eax
    je 78f
79: sub %rcx, %rdi
    add $7, %rdi
    and $-8, %rdi
    mov %edi, (%rcx)
    add %rdi, {head}(%r11)
ptrace_async_in_process_logged:
    jmp 55f
48: // The result has overwritten the end of the path, so what was asked is not
    // known: an entry that makes no sense says so.
    movl $0, (%rcx)
    addq $64, {head}(%r11)
ptrace_async_in_process_logged_nonsense:
    jmp 55f

78: // The name of the attribute, which the kernel has read too.
    mov {rsi}(%r11), %rsi
    mov ${most_named}, %edx
73: movb (%rsi), %al
    movb %al, (%rdi)
    inc %rsi
    inc %rdi
    dec %edx
    jz 79b
    test %al, %al
    jnz 73b
    jmp 79b

60: // A write, which has failed (where it stops, it does so again), or is logged
    // with what it wrote.
    test %rax, %rax
    js 70f
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    movl $1, 4(%rcx)
    mov %rax, 8(%rcx)
    mov %rdi, 16(%rcx)
    mov %rsi, 24(%rcx)
    mov %rdx, 32(%rcx)
    mov %r10, 40(%rcx)
    mov {stamp}(%r11), %rdx
    mov %rdx, 48(%rcx)
    lea {path}(%rcx), %rdi
    testl ${outputs}, {known_here}(%r11)
    jz 61f
    // Without the bytes.
    movl $(1 | {without_bytes}), 4(%rcx)
    jmp 64f
61: sub $8, %rax
    jb 62f
    mov (%rsi), %rdx
    mov %rdx, (%rdi)
    add $8, %rsi
    add $8, %rdi
    jmp 61b
62: add $8, %rax
63: jz 64f
    movb (%rsi), %dl
    movb %dl, (%rdi)
    inc %rsi
    inc %rdi
    dec %rax
    jmp 63b
64: inc %rdi
    jmp 79b

75: // Another write to a file that the process made.
    test %rax, %rax
    js 70f
    cmpl ${writev_nr}, {nr}(%r11)
    jne 40b
    // Its buffers, which the kernel has read.
    xor %ecx, %ecx
    test %edx, %edx
    jz 40b
76: add 8(%rsi), %rcx
    add $16, %rsi
    dec %edx
    jnz 76b
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    cmp %rax, %rcx
    je 40b
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    jmp 48b

92: // To the loader a copy is what it is a copy of, for it loads nothing twice.
    mov %rdx, %rax
    cmpl $5, {nr}(%r11)
    cmove %rsi, %rax
    movabs ${libraries}, %rcx
93: cmpq $0, (%rcx)
    je 95f
    mov (%rax), %rdi
    cmp 64(%rcx), %rdi
    jne 94f
    mov 8(%rax), %rdi
    cmp 72(%rcx), %rdi
    jne 94f
    mov 8(%rcx), %rdi
    mov %rdi, (%rax)
    mov 16(%rcx), %rdi
    mov %rdi, 8(%rax)
    jmp 95f
94: add ${library}, %rcx
    jmp 93b
95: mov {rdi}(%r11), %rdi
    mov {value}(%r11), %rax
    jmp 40b

80: // The loader opened a file: is it a library that there is a copy of?
    mov %eax, %edi
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    test %eax, %eax
    jnz 85f
    movabs ${libraries}, %rcx
81: cmpq $0, (%rcx)
    je 85f
    mov {stat}(%r11), %rax
    cmp 8(%rcx), %rax
    jne 83f
    mov {stat}+8(%r11), %rax
    cmp 16(%rcx), %rax
    jne 83f
    mov {stat}+48(%r11), %rax
    cmp 24(%rcx), %rax
    jne 83f
    mov {stat}+88(%r11), %rax
    cmp 32(%rcx), %rax
    jne 83f
    mov {stat}+96(%r11), %rax
    cmp 40(%rcx), %rax
    jne 83f
    mov {stat}+104(%r11), %rax
    cmp 48(%rcx), %rax
    jne 83f
    mov {stat}+112(%r11), %rax
    cmp 56(%rcx), %rax
    jne 83f
    // The copy replaces the original under the same descriptor.
    mov %rcx, {found}(%r11)
    mov $-100, %rdi
    lea 80(%rcx), %rsi
    mov $0x80000, %edx
    mov $257, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    test %eax, %eax
    js 85f
    mov %rax, {spare}(%r11)
    mov %eax, %edi
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    test %eax, %eax
    jnz 84f
    mov {found}(%r11), %rcx
    mov {stat}(%r11), %rax
    cmp 64(%rcx), %rax
    jne 84f
    mov {stat}+8(%r11), %rax
    cmp 72(%rcx), %rax
    jne 84f
    mov {spare}(%r11), %edi
    mov {value}(%r11), %esi
    mov $0x80000, %edx
    mov $292, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
84: mov {spare}(%r11), %edi
    mov $3, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
85: mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    mov {value}(%r11), %rax
    jmp 40b
83: add ${library}, %rcx
    jmp 81b

ptrace_async_in_process_published:
55: // go on after the call with the result
    movl $0, {closing}(%r11)
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

ptrace_async_in_process_spinning:
57: // Another thread holds the lock for a microsecond, as a rule. The upper half of eax
    // counts the attempts.
    pause
    pause
    pause
    pause
    add $0x10000, %eax
    cmp ${attempts}, %eax
    jb 17b
    movzwl %ax, %eax
    jmp *%rcx

ptrace_async_in_process_start:
    // A fresh program: r8 is the descriptor of the file, r15 points to the block of
    // `start`.
    endbr64
    movabs ${log}, %rdi
    mov ${page}, %esi
    mov ${read_write}, %edx
    mov ${private}, %r10d
    mov ${code_len}, %r9d
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne 99f
    movabs ${logs}, %rdi
    mov ${arena_len}, %esi
    mov ${read_write}, %edx
    mov ${shared}, %r10d
    mov $({code_len} + {page}), %r9d
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne 99f
    // The trampolines of the program, if it has some.
    mov 48(%r15), %rsi
    test %rsi, %rsi
    jz 96f
    mov 40(%r15), %rdi
    mov ${read_execute}, %edx
    mov ${private}, %r10d
    mov 56(%r15), %r9
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne 98f
96: // The text of the loader, if there is a copy of it.
    mov 8(%r15), %rsi
    test %rsi, %rsi
    jz 97f
    mov (%r15), %rdi
    mov ${read_execute}, %edx
    mov ${replacing}, %r10d
    mov 16(%r15), %r9
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne 98f
97: movabs ${log}, %rcx
    mov 24(%r15), %rax
    mov %rax, (%rcx)
    mov %r8d, %edi
    mov $3, %eax
    syscall
    // As the kernel leaves it to a program.
    mov 32(%r15), %r11
    mov %r15, %rdi
    mov ${start_words}, %ecx
    xor %eax, %eax
    rep stosq
    xor %edi, %edi
    xor %esi, %esi
    xor %edx, %edx
    xor %ebx, %ebx
    xor %ebp, %ebp
    xor %r8d, %r8d
    xor %r9d, %r9d
    xor %r10d, %r10d
    xor %r12d, %r12d
    xor %r13d, %r13d
    xor %r14d, %r14d
    xor %r15d, %r15d
    jmp *%r11
98: movabs ${logs}, %rdi
    mov ${arena_len}, %esi
    mov $11, %eax
    syscall
99: mov %r8d, %edi
    mov $3, %eax
    syscall
    int3
ptrace_async_in_process_started:

    // Calls from here on do not pass the filter.
    .org {passing}
ptrace_async_in_process_stopping:
45: // dup2 of a descriptor onto itself
    mov %rax, %rdi
    mov %rax, %rsi
    mov $33, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {value}(%r11), %rax
    jmp 40b
ptrace_async_in_process_end:

ptrace_async_in_process_entry:
    // The first instructions of a fresh program (see `start`). The tracer writes them word
    // by word, one call each. They open the file of the code (path in rsi, flags in rdx,
    // the call's number in r9; rax is 0) and map the code at rdi (length, protection and
    // flags in r12 to r14). If the mapping ends with the token in rbp, they jump to rbx.
    // Otherwise they close the file and stop. If the open fails, mapping and closing fail,
    // too.
    xchg %eax, %r9d
    syscall
    xchg %eax, %r8d
    mov %r12, %rsi
    mov %r13d, %edx
    mov %r14, %r10
    push $9
    pop %rax
    syscall
    cmp %rdi, %rax
    jne 1f
    cmp %rbp, -8(%rdi, %r12)
    jne 1f
    jmp *%rbx
1:  mov %r8d, %edi
    mov %rbp, %r10
    push $3
    pop %rax
    syscall
    int3
ptrace_async_in_process_entry_end:
    .popsection
    "#,
    log = const LOG,
    logs = const LOGS,
    classes = const CLASSES,
    libraries = const LIBRARIES,
    library = const LIBRARY_LEN,
    count = const COUNT,
    page = const PAGE,
    passing = const PASSING,
    code_len = const CODE_LEN,
    arena_len = const ARENA_LEN,
    read_write = const libc::PROT_READ | libc::PROT_WRITE,
    read_execute = const libc::PROT_READ | libc::PROT_EXEC,
    private = const libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE,
    shared = const libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
    replacing = const libc::MAP_PRIVATE | libc::MAP_FIXED,
    start_words = const START_WORDS,
    path_in = const PATH_IN,
    may_wait = const MAY_WAIT,
    attempts = const ATTEMPTS << 16,
    pollin = const libc::POLLIN,
    pollout = const libc::POLLOUT,
    closing = const std::mem::offset_of!(Header, closing),
    read_kind = const READ,
    write_kind = const WRITE,
    seek_kind = const SEEK,
    most_written = const MOST_WRITTEN,
    clock = const LOGS as usize + std::mem::offset_of!(Header, clock),
    regular = const libc::S_IFREG,
    directory = const libc::S_IFDIR,
    only_directories = const libc::O_DIRECTORY,
    epoll = const EPOLL,
    format = const libc::S_IFMT,
    mode_at = const std::mem::offset_of!(libc::stat, st_mode),
    kind = const KIND,
    has_result = const RESULT,
    nobodys = const LOGS as u32,
    stat_len = const size_of::<libc::stat>(),
    open = const OPEN,
    metadata = const METADATA,
    link = const LINK,
    fact = const FACT,
    statx = const STATX,
    statx_nr = const libc::SYS_statx,
    statx_len = const size_of::<libc::statx>(),
    statx_mode_at = const std::mem::offset_of!(libc::statx, stx_mode),
    unneeded = const std::mem::offset_of!(Header, unneeded),
    metadata_at = const METADATA_AT,
    whatever = const WHATEVER,
    command = const COMMAND,
    pair = const PAIR,
    set_fd = const libc::F_SETFD,
    set_fl = const libc::F_SETFL,
    dup_fd_cloexec = const libc::F_DUPFD_CLOEXEC,
    tcgets = const libc::TCGETS,
    winsize = const libc::TIOCGWINSZ,
    getpgrp = const libc::TIOCGPGRP,
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
    result = const std::mem::offset_of!(Header, result),
    class = const std::mem::offset_of!(Header, class),
    loader = const std::mem::offset_of!(Header, loader),
    found = const std::mem::offset_of!(Header, found),
    spare = const std::mem::offset_of!(Header, spare),
    stat = const std::mem::offset_of!(Header, stat),
    stamp = const std::mem::offset_of!(Header, stamp),
    observed = const std::mem::offset_of!(Header, observed),
    known = const std::mem::offset_of!(Header, known),
    known_here = const std::mem::offset_of!(Header, known_here),
    begun = const std::mem::offset_of!(Header, begun),
    changed = const std::mem::offset_of!(Header, changed),
    changed_at = const std::mem::offset_of!(libc::stat, st_ctime),
    descriptors = const DESCRIPTORS,
    own = const OWN,
    reads = const READS,
    own_or_reads = const OWN | READS,
    outputs = const OUTPUTS,
    output = const OUTPUT,
    attribute = const ATTRIBUTE,
    most_named = const MOST_NAMED,
    without_bytes = const WITHOUT_BYTES,
    getdents_nr = const libc::SYS_getdents64,
    readv_nr = const libc::SYS_readv,
    writev_nr = const libc::SYS_writev,
    dup3_nr = const libc::SYS_dup3,
    fcntl_nr = const libc::SYS_fcntl,
    data = const DATA,
    path = const ENTRY,
    path_max = const PATH_MAX,
    not_plain = const NOT_PLAIN,
    options(att_syntax)
);
