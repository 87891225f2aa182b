    // An entry of the log is written: registers, path, name, written bytes. `rcx` points to it.

.Llog_entry:
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
    jne .Lnote_opened
    mov (%rdi), %rax
    mov %rax, 40(%rcx)
    jmp .Lfill_entry
.Lnote_opened:
    cmp ${open}, %eax
    jne .Lnote_listed
    // Its reads and its metadata say nothing new.
    mov {value}(%r11), %rax
    cmp ${descriptors}, %rax
    jae .Lfill_entry
    movb ${own}, {known}(%r11, %rax)
    jmp .Lfill_entry
.Lnote_listed:
    cmpl ${getdents_nr}, {nr}(%r11)
    jne .Lfill_entry
    mov {changed}(%r11), %rax
    mov %rax, 40(%rcx)
.Lfill_entry:
    mov {stamp}(%r11), %rax
    mov %rax, 48(%rcx)
    mov {nr}(%r11), %rax
    mov %eax, 4(%rcx)
    mov {loader}(%r11), %eax
    shl $31, %eax
    or %eax, 4(%rcx)
    mov {class}(%r11), %eax
    and ${path_in}, %eax
    cmp $1, %eax
    ja .Lcopy_path
    mov %rdi, %rsi
    je .Lcopy_path
    lea .Lempty_path(%rip), %rsi
.Lcopy_path:
    lea {path}(%rcx), %rdi
    // The kernel has read the path, so it can be read, and has an end.
    mov ${path_max}, %edx
.Lcopy_path_byte:
    cmp {result}(%r11), %rsi
    je .Llog_nonsense
    movb (%rsi), %al
    movb %al, (%rdi)
    inc %rsi
    inc %rdi
    dec %edx
    jz .Lpath_copied
    test %al, %al
    jnz .Lcopy_path_byte
    jmp .Lpath_copied
.Lempty_path:
    .byte 0
.Lpath_copied:
    mov {class}(%r11), %eax
    and ${kind}, %eax
    cmp ${attribute}, %eax
    je .Lcopy_attribute
.Lend_entry:
    sub %rcx, %rdi
    add $7, %rdi
    and $-8, %rdi
    mov %edi, (%rcx)
    add %rdi, {head}(%r11)
ptrace_async_in_process_logged:
    jmp .Lleave
.Llog_nonsense:
    // The result has overwritten the end of the path, so what was asked is not
    // known: an entry that makes no sense says so.
    movl $0, (%rcx)
    addq $64, {head}(%r11)
ptrace_async_in_process_logged_nonsense:
    jmp .Lleave

.Lcopy_attribute:
    // The name of the attribute, which the kernel has read too.
    mov {rsi}(%r11), %rsi
    mov ${most_named}, %edx
.Lcopy_attribute_byte:
    movb (%rsi), %al
    movb %al, (%rdi)
    inc %rsi
    inc %rdi
    dec %edx
    jz .Lend_entry
    test %al, %al
    jnz .Lcopy_attribute_byte
    jmp .Lend_entry

.Lwrite_returned:
    // A write, which has failed (where it stops, it does so again), or is logged
    // with what it wrote.
    test %rax, %rax
    js .Lmake_again
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
    jz .Lcopy_written_word
    // Without the bytes.
    movl $(1 | {without_bytes}), 4(%rcx)
    jmp .Lwritten_copied
.Lcopy_written_word:
    sub $8, %rax
    jb .Lcopy_written_rest
    mov (%rsi), %rdx
    mov %rdx, (%rdi)
    add $8, %rsi
    add $8, %rdi
    jmp .Lcopy_written_word
.Lcopy_written_rest:
    add $8, %rax
.Lcopy_written_byte:
    jz .Lwritten_copied
    movb (%rsi), %dl
    movb %dl, (%rdi)
    inc %rsi
    inc %rdi
    dec %rax
    jmp .Lcopy_written_byte
.Lwritten_copied:
    inc %rdi
    jmp .Lend_entry

.Loutput_returned:
    // Another write to a file that the process made.
    test %rax, %rax
    js .Lmake_again
    cmpl ${writev_nr}, {nr}(%r11)
    jne .Llog_entry
    // Its buffers, which the kernel has read.
    xor %ecx, %ecx
    test %edx, %edx
    jz .Llog_entry
.Ladd_buffer:
    add 8(%rsi), %rcx
    add $16, %rsi
    dec %edx
    jnz .Ladd_buffer
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    cmp %rax, %rcx
    je .Llog_entry
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    jmp .Llog_nonsense
