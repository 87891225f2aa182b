    // Patched copies of libraries, for the dynamic loader.

.Lrename_copy:
    // To the loader a copy is what it is a copy of, for it loads nothing twice.
    mov %rdx, %rax
    cmpl $5, {nr}(%r11)
    cmove %rsi, %rax
    movabs ${libraries}, %rcx
.Lcompare_copy:
    cmpq $0, (%rcx)
    je .Lcopy_renamed
    mov (%rax), %rdi
    cmp 64(%rcx), %rdi
    jne .Lnext_copy
    mov 8(%rax), %rdi
    cmp 72(%rcx), %rdi
    jne .Lnext_copy
    mov 8(%rcx), %rdi
    mov %rdi, (%rax)
    mov 16(%rcx), %rdi
    mov %rdi, 8(%rax)
    jmp .Lcopy_renamed
.Lnext_copy:
    add ${library}, %rcx
    jmp .Lcompare_copy
.Lcopy_renamed:
    mov {rdi}(%r11), %rdi
    mov {value}(%r11), %rax
    jmp .Llog_entry

.Lfind_copy:
    // The loader opened a file: is it a library that there is a copy of?
    mov %eax, %edi
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    test %eax, %eax
    jnz .Lcopy_done
    movabs ${libraries}, %rcx
.Lcompare_library:
    cmpq $0, (%rcx)
    je .Lcopy_done
    mov {stat}(%r11), %rax
    cmp 8(%rcx), %rax
    jne .Lnext_library
    mov {stat}+8(%r11), %rax
    cmp 16(%rcx), %rax
    jne .Lnext_library
    mov {stat}+48(%r11), %rax
    cmp 24(%rcx), %rax
    jne .Lnext_library
    mov {stat}+88(%r11), %rax
    cmp 32(%rcx), %rax
    jne .Lnext_library
    mov {stat}+96(%r11), %rax
    cmp 40(%rcx), %rax
    jne .Lnext_library
    mov {stat}+104(%r11), %rax
    cmp 48(%rcx), %rax
    jne .Lnext_library
    mov {stat}+112(%r11), %rax
    cmp 56(%rcx), %rax
    jne .Lnext_library
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
    js .Lcopy_done
    mov %rax, {spare}(%r11)
    mov %eax, %edi
    lea {stat}(%r11), %rsi
    mov $5, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
    test %eax, %eax
    jnz .Lclose_copy
    mov {found}(%r11), %rcx
    mov {stat}(%r11), %rax
    cmp 64(%rcx), %rax
    jne .Lclose_copy
    mov {stat}+8(%r11), %rax
    cmp 72(%rcx), %rax
    jne .Lclose_copy
    mov {spare}(%r11), %edi
    mov {value}(%r11), %esi
    mov $0x80000, %edx
    mov $292, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
.Lclose_copy:
    mov {spare}(%r11), %edi
    mov $3, %eax
    syscall
    movabs ${log}, %r11
    mov (%r11), %r11
.Lcopy_done:
    mov {rdi}(%r11), %rdi
    mov {rsi}(%r11), %rsi
    mov {rdx}(%r11), %rdx
    mov {value}(%r11), %rax
    jmp .Llog_entry
.Lnext_library:
    add ${library}, %rcx
    jmp .Lcompare_library
