    // The call is given its place in the order of all calls. Calls whose arguments the log cannot
    // describe are refused: they are made where they stop.

.Lstamp:
    mov $1, %ecx
    movabs ${clock}, %r11
    lock xadd %rcx, (%r11)
    movabs ${log}, %r11
    mov (%r11), %r11
    mov %rcx, {stamp}(%r11)
    mov {class}(%r11), %ecx
    movq $0, {result}(%r11)
    test ${has_result}, %ecx
    jz .Lcheck_class
    // The result must not overwrite the path, which is logged afterwards.
    and ${path_in}, %ecx
    cmp $1, %ecx
    jne .Lpath_is_second
    mov %rdi, %rcx
    mov %rsi, %rax
    jmp .Lcompare_with_result
.Lpath_is_second:
    mov %rsi, %rcx
    mov %rdx, %rax
    cmpl ${statx_nr}, {nr}(%r11)
    cmove %r8, %rax
.Lcompare_with_result:
    mov %rax, {result}(%r11)
    sub %rax, %rcx
    cmpl $89, {nr}(%r11)
    je .Lreadlink_overlap
    cmpl $267, {nr}(%r11)
    je .Lreadlinkat_overlap
    cmpl ${statx_nr}, {nr}(%r11)
    je .Lstatx_overlap
    cmp ${stat_len}, %rcx
    jmp .Lrefuse_overlap
.Lreadlink_overlap:
    mov %edx, %eax
    cmp %rax, %rcx
    jmp .Lrefuse_overlap
.Lreadlinkat_overlap:
    mov %r10d, %eax
    cmp %rax, %rcx
    jmp .Lrefuse_overlap
.Lstatx_overlap:
    cmp ${statx_len}, %rcx
.Lrefuse_overlap:
    mov {nr}(%r11), %rax
    jb .Lmake_again
.Lcheck_class:
    mov {class}(%r11), %ecx
    and ${kind}, %ecx
    cmp ${command}, %ecx
    je .Lcheck_command
    cmp ${write_kind}, %ecx
    je .Lcheck_write
    cmp ${seek_kind}, %ecx
    je .Lcheck_seek
    cmp ${output}, %ecx
    je .Lcheck_output
    cmp ${open}, %ecx
    jne .Lperform
    // openat and open: only for reading
    cmp $2, %eax
    je .Lcheck_flags_of_open
    test ${not_plain}, %edx
    jnz .Lmake_again
    jmp .Lperform
.Lcheck_flags_of_open:
    test ${not_plain}, %esi
    jnz .Lmake_again
    jmp .Lperform
.Lcheck_output:
    // Of files that the process made, it does not matter what is written.
    testl ${outputs}, {known_here}(%r11)
    jz .Lmake_again
    jmp .Lperform
.Lcheck_write:
    testl ${outputs}, {known_here}(%r11)
    jnz .Lperform
    // Observations of a file are told before the process may change it.
    cmpl $0, {observed}(%r11)
    jne .Lmake_again
    cmp ${most_written}, %rdx
    ja .Lmake_again
    jmp .Lperform
.Lcheck_seek:
    // Positions in other files pass everywhere.
    cmp $3, %edi
    jae .Lmake_again
    jmp .Lperform
.Lcheck_command:
    cmp $16, %eax
    je .Lcheck_ioctl
    test %esi, %esi
    jz .Lperform
    cmp ${set_fd}, %esi
    je .Lperform
    cmp ${set_fl}, %esi
    je .Lperform
    cmp ${dup_fd_cloexec}, %esi
    je .Lperform
    jmp .Lmake_again
.Lcheck_ioctl:
    cmp ${getpgrp}, %esi
    je .Lperform
    cmp $3, %edi
    jae .Lmake_again
    cmp ${winsize}, %esi
    je .Lperform
    cmp ${tcgets}, %esi
    jne .Lmake_again
