    // What each kind of call has returned, and whether that needs an entry.

.Lsort_result:
    cmp ${whatever}, %ecx
    je .Ldescriptor_returned
    cmp ${fact}, %ecx
    je .Llog_entry
    cmp ${command}, %ecx
    je .Ldescriptor_returned
    cmp ${read_kind}, %ecx
    je .Lread_returned
    cmp ${write_kind}, %ecx
    je .Lwrite_returned
    cmp ${output}, %ecx
    je .Loutput_returned
    cmp ${attribute}, %ecx
    je .Lattribute_returned
    cmp ${seek_kind}, %ecx
    je .Lposition_returned
    // That a name does not exist is logged for all kinds.
    cmp $-2, %rax
    je .Llog_entry
    cmp $-20, %rax
    je .Lno_directory
    cmp ${open}, %ecx
    je .Lopen_returned
    cmp ${metadata}, %ecx
    je .Lmetadata_returned
    cmp ${pair}, %ecx
    je .Lmetadata_returned
    cmp ${metadata_at}, %ecx
    je .Lmetadata_at_returned
    cmp ${statx}, %ecx
    je .Lstatx_returned
    cmp ${epoll}, %ecx
    je .Lpoll_control_returned
    // Links and permissions.
    test %rax, %rax
    jns .Llog_entry
    cmp $-22, %rax
    jne .Lmake_again
    // No link, unless the call was nonsense: then it has not read its path.
    mov {nr}(%r11), %rcx
    cmp $89, %ecx
    je .Lreadlink_length
    cmp $267, %ecx
    jne .Lmake_again
    test %r10d, %r10d
    jg .Llog_entry
    jmp .Lmake_again
.Lreadlink_length:
    test %edx, %edx
    jg .Llog_entry
    jmp .Lmake_again

.Ldescriptor_returned:
    // Of a duplicate the same is known.
    cmp ${descriptors}, %rax
    jae .Llog_entry
    mov {nr}(%r11), %rcx
    cmp $32, %ecx
    je .Lcopy_known
    cmp $33, %ecx
    je .Lcopy_known
    cmp ${dup3_nr}, %ecx
    je .Lcopy_known
    cmp ${fcntl_nr}, %ecx
    jne .Llog_entry
    test %esi, %esi
    jz .Lcopy_known
    cmp ${dup_fd_cloexec}, %esi
    jne .Llog_entry
.Lcopy_known:
    mov {known_here}(%r11), %ecx
    movb %cl, {known}(%r11, %rax)
    jmp .Llog_entry

.Lread_returned:
    // A read that says nothing new is not logged, unless it fails.
    test %rax, %rax
    js .Llog_entry
    mov {known_here}(%r11), %ecx
    cmpl ${getdents_nr}, {nr}(%r11)
    je .Llist_returned
    test ${own_or_reads}, %ecx
    jnz .Lleave
    jmp .Lobserve_content
.Llist_returned:
    test ${reads}, %ecx
    jnz .Lleave
    // The names are asked for once.
    cmp ${descriptors}, %edi
    jae .Llog_entry
    mov %edi, %ecx
    orb ${reads}, {known}(%r11, %rcx)
    jmp .Llog_entry

.Lattribute_returned:
    // That there is no such attribute.
    cmp $-61, %rax
    je .Llog_entry
    cmp $-95, %rax
    je .Llog_entry
    jmp .Lmake_again

.Lno_directory:
    // A part of the path is no directory, or all of it is none and should be one.
    cmp ${open}, %ecx
    jne .Llog_entry
    cmpl $2, {nr}(%r11)
    mov %edx, %ecx
    cmove %esi, %ecx
    test ${only_directories}, %ecx
    jnz .Lmake_again
    jmp .Llog_entry

.Lopen_returned:
    // An interrupted open has observed nothing.
    cmp $-4, %rax
    je .Lleave
    test %rax, %rax
    js .Lmake_again
    cmpl $0, {loader}(%r11)
    jne .Lfind_copy
    // A file of /proc may show its affinity: that stops first, see `placement`.
    cmpl $2, {nr}(%r11)
    mov %rsi, %rcx
    cmove %rdi, %rcx
    cmpb $'/', (%rcx)
    jne .Llog_entry
    cmpb $'p', 1(%rcx)
    jne .Llog_entry
    cmpb $'r', 2(%rcx)
    jne .Llog_entry
    cmpb $'o', 3(%rcx)
    jne .Llog_entry
    cmpb $'c', 4(%rcx)
    jne .Llog_entry
    // Two files do not: /proc/filesystems, which every sed, cp and mv reads, and a
    // program's own maps, which it reads to find the end of its stack.
    cmpb $'/', 5(%rcx)
    jne .Lstop_then_log
    cmpb $'f', 6(%rcx)
    je .Lfilesystems
    cmpb $'s', 6(%rcx)
    jne .Lstop_then_log
    cmpb $'e', 7(%rcx)
    jne .Lstop_then_log
    cmpb $'l', 8(%rcx)
    jne .Lstop_then_log
    cmpb $'f', 9(%rcx)
    jne .Lstop_then_log
    cmpb $'/', 10(%rcx)
    jne .Lstop_then_log
    cmpb $'m', 11(%rcx)
    jne .Lstop_then_log
    cmpb $'a', 12(%rcx)
    jne .Lstop_then_log
    cmpb $'p', 13(%rcx)
    jne .Lstop_then_log
    cmpb $'s', 14(%rcx)
    je .Llog_entry
    jmp .Lstop_then_log
.Lfilesystems:
    cmpb $'i', 7(%rcx)
    je .Llog_entry
    jmp .Lstop_then_log

.Lmetadata_returned:
    // Metadata, pipes.
    test %rax, %rax
    jnz .Lmake_again
    cmp ${pair}, %ecx
    je .Llog_entry
    cmpl $0, {loader}(%r11)
    jne .Lrename_copy
    cmpl $5, {nr}(%r11)
    jne .Lmetadata_of_file
    testl ${own}, {known_here}(%r11)
    jnz .Lleave
.Lmetadata_of_file:
    mov %rsi, %rcx
.Lregular_by_stat:
    mov {mode_at}(%rcx), %ecx
.Lobserve_if_regular:
    and ${format}, %ecx
    cmp ${regular}, %ecx
    jne .Llog_entry
.Lobserve_content:
    cmpl $0, {unneeded}(%r11)
    jne .Llog_entry
    movl $1, {observed}(%r11)
    jmp .Llog_entry

.Lposition_returned:
    // A position.
    test %rax, %rax
    js .Lmake_again
    jmp .Lobserve_content

.Lmetadata_at_returned:
    // Of a descriptor too, whose path may be NULL.
    test %rax, %rax
    jnz .Lmake_again
    mov %rdx, %rcx
    test $0x1000, %r10d
    jz .Lregular_by_stat
    test %rsi, %rsi
    jz .Lmake_again
    cmpb $0, (%rsi)
    jne .Lmake_again
    cmpl $0, {loader}(%r11)
    jne .Lrename_copy
    testl ${own}, {known_here}(%r11)
    jnz .Lleave
    jmp .Lregular_by_stat

.Lpoll_control_returned:
    // That says nothing.
    cmp $-1, %rax
    je .Lleave
    test %rax, %rax
    jnz .Lmake_again
    // The descriptor has become another one meanwhile.
    mov {head}(%r11), %rcx
    lea {data}(%r11, %rcx), %rcx
    jmp .Llog_nonsense

.Lstatx_returned:
    // Extended metadata, of a descriptor too.
    test %rax, %rax
    jnz .Lmake_again
    test $0x1000, %edx
    jz .Lregular_by_statx
    test %rsi, %rsi
    jz .Lmake_again
    cmpb $0, (%rsi)
    jne .Lmake_again
    testl ${own}, {known_here}(%r11)
    jnz .Lleave
.Lregular_by_statx:
    movzwl {statx_mode_at}(%r8), %ecx
    jmp .Lobserve_if_regular
