    // The one call that always stops.

    // Calls from here on do not pass the filter.
    .org {passing}
ptrace_async_in_process_stopping:
.Lstop_then_log:
    // A dup2 of the descriptor onto itself.
    mov %rax, %rdi
    mov %rax, %rsi
    mov $33, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {value}(%r11), %rax
    jmp .Llog_entry
ptrace_async_in_process_end:
