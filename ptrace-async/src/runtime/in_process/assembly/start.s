    // The second part of the start of a fresh program: `first.s` has mapped the code.

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
    jne .Lfail_start
    movabs ${logs}, %rdi
    mov ${arena_len}, %esi
    mov ${read_write}, %edx
    mov ${shared}, %r10d
    mov $({code_len} + {page}), %r9d
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne .Lfail_start
    // The trampolines of the program, if it has some.
    mov 48(%r15), %rsi
    test %rsi, %rsi
    jz .Lmap_loader
    mov 40(%r15), %rdi
    mov ${read_execute}, %edx
    mov ${private}, %r10d
    mov 56(%r15), %r9
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne .Lunmap_logs
.Lmap_loader:
    // The text of the loader, if there is a copy of it.
    mov 8(%r15), %rsi
    test %rsi, %rsi
    jz .Lbegin_program
    mov (%r15), %rdi
    mov ${read_execute}, %edx
    mov ${replacing}, %r10d
    mov 16(%r15), %r9
    mov $9, %eax
    syscall
    cmp %rdi, %rax
    jne .Lunmap_logs
.Lbegin_program:
    movabs ${log}, %rcx
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
.Lunmap_logs:
    movabs ${logs}, %rdi
    mov ${arena_len}, %esi
    mov $11, %eax
    syscall
.Lfail_start:
    mov %r8d, %edi
    mov $3, %eax
    syscall
    int3
ptrace_async_in_process_started:
