    // Questions to the kernel before the call: would it wait, is the descriptor a file, has the
    // directory changed?

.Lchoose_question:
    and ${kind}, %ecx
    cmp ${epoll}, %ecx
    je .Lask_kind_of_polled
    cmp ${getdents_nr}, %eax
    jne .Lstamp
    testl ${reads}, {known_here}(%r11)
    jnz .Lstamp
    jmp .Lask_time_of_directory
.Lask_kind_of_polled:
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
    jnz .Lmake_again
    and ${format}, %ecx
    cmp ${regular}, %ecx
    je .Lstamp
    cmp ${directory}, %ecx
    je .Lstamp
    jmp .Lmake_again
.Lask_time_of_directory:
    // The names in a directory that has not changed since the process began can be
    // asked for later.
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    mov {rsi}(%r11), %rsi
    test %eax, %eax
    mov {nr}(%r11), %rax
    jnz .Lmake_again
    mov {stat}+{changed_at}(%r11), %rcx
    imul $1000000000, %rcx, %rcx
    add {stat}+{changed_at}+8(%r11), %rcx
    mov %rcx, {changed}(%r11)
    cmp {begun}(%r11), %rcx
    jge .Lmake_again
    jmp .Lstamp
.Lask_whether_it_waits:
    mov %edi, {stat}(%r11)
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
    jne .Lmake_again
