// A handler in between does not touch what lies below the stack pointer.
    .intel_syntax noprefix
    .globl _start
_start:
    mov eax, 13
    mov edi, 10
    lea rsi, [rip + action]
    xor edx, edx
    mov r10d, 8
    syscall
    mov qword ptr [rsp - 8], 0x1122
    mov qword ptr [rsp - 128], 0x3344
    mov eax, 39
    syscall
    mov edi, eax
    mov esi, 10
    mov eax, 62
    syscall
    xor edi, edi
    cmp qword ptr [rsp - 8], 0x1122
    jne 1f
    cmp qword ptr [rsp - 128], 0x3344
    jne 1f
    cmp dword ptr [rip + count], 1
    je 2f
1:  inc edi
2:  mov eax, 231
    syscall
handler:
    inc dword ptr [rip + count]
    ret
restorer:
    mov eax, 15
    syscall
    .data
count:
    .long 0
action:
    .quad handler, 0x04000000, restorer, 0
