// Long string instructions between calls.
    .intel_syntax noprefix
    .globl _start
_start:
    mov ebx, 20
1:  lea rdi, [rip + room]
    mov eax, ebx
    mov ecx, 1 << 18
    rep stosb
    lea rsi, [rip + room]
    lea rdi, [rip + room + (1 << 18)]
    mov ecx, 1 << 18
    rep movsb
    mov eax, 39
    syscall
    dec ebx
    jnz 1b
    cmp byte ptr [rip + room + (1 << 19) - 1], 1
    sete dil
    xor edi, 1
    movzx edi, dil
    mov eax, 60
    syscall
    .bss
room:
    .skip 1 << 19
