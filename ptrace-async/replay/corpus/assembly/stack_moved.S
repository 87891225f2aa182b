// The stack pointer is used for something else: calls need no stack.
// status: 7
    .intel_syntax noprefix
    .globl _start
_start:
    mov r15, rsp
    mov rsp, 0x1234
    mov eax, 110
    syscall
    mov ebx, 300
1:  mov eax, 39
    syscall
    lea rsp, [rsp + rax]
    dec ebx
    jnz 1b
    mov rsp, r15
    mov eax, 60
    mov edi, 7
    syscall
