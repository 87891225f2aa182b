    // Back to the program: after the call, or before it.

ptrace_async_in_process_published:
.Lleave:
    // After the call, with its result.
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
.Lmake_again:
    // The call is made (again) where it stops.
    mov {nr}(%r11), %rax
    mov {from}(%r11), %rcx
    movl $0, {lock}(%r11)
ptrace_async_in_process_left:
.Lpass:
    jmp *%rcx

ptrace_async_in_process_spinning:
.Lspin:
    // Another thread holds the lock for a microsecond, as a rule. The upper half of eax
    // counts the attempts.
    pause
    pause
    pause
    pause
    add $0x10000, %eax
    cmp ${attempts}, %eax
    jb .Ltry_lock
    movzwl %ax, %eax
    jmp *%rcx
