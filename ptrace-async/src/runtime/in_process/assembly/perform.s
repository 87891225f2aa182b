    // The call itself.

.Lperform:
    // A close in progress is known to other threads.
    mov %esi, %ecx
    cmp $33, %eax
    je .Lforget_descriptor
    cmp ${dup3_nr}, %eax
    je .Lforget_descriptor
    cmp $3, %eax
    jne .Lmake_call
    lea 1(%rdi), %ecx
    mov %ecx, {closing}(%r11)
    mov %edi, %ecx
.Lforget_descriptor:
    // The descriptor becomes another one.
    cmp ${descriptors}, %ecx
    jae .Lmake_call
    movb $0, {known}(%r11, %rcx)
.Lmake_call:
    syscall
ptrace_async_in_process_performed:
    movabs ${log}, %r11
    mov (%r11), %r11
    mov %rax, {value}(%r11)
ptrace_async_in_process_noted:
    mov {class}(%r11), %ecx
    and ${kind}, %ecx
    cmpl $0, {unneeded}(%r11)
    je .Lsort_result
    cmpl $0, {loader}(%r11)
    jne .Lsort_result
    // Calls that only look at something are not logged.
    cmp ${link}, %ecx
    je .Lleave
    cmp ${metadata}, %ecx
    je .Lleave
    cmp ${metadata_at}, %ecx
    je .Lleave
    cmp ${statx}, %ecx
    je .Lleave
    cmp ${fact}, %ecx
    je .Lleave
    cmp ${attribute}, %ecx
    je .Lleave
