// vfork by hand: the child writes what the parent reads.
    .intel_syntax noprefix
    .globl _start
_start:
    mov eax, 58
    syscall
    test eax, eax
    jnz 1f
    mov dword ptr [rip + shared], 77
    mov eax, 60
    mov edi, 3
    syscall
1:  mov edi, eax
    mov eax, 61
    lea rsi, [rip + status]
    xor edx, edx
    xor r10d, r10d
    syscall
    mov edi, [rip + shared]
    sub edi, 77
    mov ecx, [rip + status]
    sub ecx, 0x300
    or edi, ecx
    mov eax, 231
    syscall
    .bss
shared:
    .long 0
status:
    .long 0
