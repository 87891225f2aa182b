    // A call enters: its class is looked up, the log is found and locked, registers are saved.

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
    ja .Lpass
    movabs ${classes}, %r11
    cmpb $0, (%r11, %rax)
    je .Lpass
    // Reads of 3 to 5 and 255 pass everywhere.
    test %eax, %eax
    jne .Lfind_log
    cmp $255, %edi
    je .Lpass
    cmp $6, %edi
    jae .Lfind_log
    cmp $3, %edi
    jae .Lpass
.Lfind_log:
    movabs ${log}, %r11
    mov (%r11), %r11
    // The first log stands for "no log": nothing is logged in it.
    cmp ${nobodys}, %r11d
    je .Lpass
ptrace_async_in_process_trying:
.Ltry_lock:
    lock btsl $0, {lock}(%r11)
ptrace_async_in_process_taken:
    jc .Lspin
    movzwl %ax, %eax
    mov %rcx, {from}(%r11)
    mov %rax, {nr}(%r11)
ptrace_async_in_process_saved:
    movl $0, {loader}(%r11)
    jmp .Lsave

ptrace_async_in_process_loader:
    // The loader's opens come here, and its questions about what it opened.
    endbr64
    movabs ${log}, %r11
    mov (%r11), %r11
    // The first log stands for "no log": nothing is logged in it.
    cmp ${nobodys}, %r11d
    je .Lpass
    lock btsl $0, {lock}(%r11)
ptrace_async_in_process_loader_taken:
    jc .Lpass
    mov %rcx, {from}(%r11)
    mov %rax, {nr}(%r11)
ptrace_async_in_process_loader_saved:
    movl $1, {loader}(%r11)

.Lsave:
    mov %rdi, {rdi}(%r11)
    mov %rsi, {rsi}(%r11)
    mov %rdx, {rdx}(%r11)
    mov {head}(%r11), %rcx
    cmp {limit}(%r11), %rcx
    ja .Lmake_again
    movabs ${classes}, %rcx
    movzbl (%rcx, %rax), %ecx
    mov %ecx, {class}(%r11)
    // The knowledge of the descriptor, if the first argument is one.
    xor %ecx, %ecx
    cmp ${descriptors}, %edi
    jae .Lremember_known
    mov %edi, %ecx
    movzbl {known}(%r11, %rcx), %ecx
.Lremember_known:
    mov %ecx, {known_here}(%r11)
    // The first read of a standard stream stops, since what is there is asked for
    // before it is read.
    cmp $3, %edi
    jae .Lcheck_sharing
    test ${own_or_reads}, %ecx
    jnz .Lcheck_sharing
    test %eax, %eax
    jz .Lmake_again
    cmp ${readv_nr}, %eax
    je .Lmake_again
.Lcheck_sharing:
    mov {class}(%r11), %ecx
    cmpl $0, {sharing}(%r11)
    je .Lchoose_question
    // With threads nothing waits here: it is asked first whether it would.
    cmpl $1, {sharing}(%r11)
    jne .Lmake_again
    test ${may_wait}, %ecx
    jnz .Lask_whether_it_waits
