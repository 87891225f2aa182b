    // The first part of the start of a fresh program.

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
