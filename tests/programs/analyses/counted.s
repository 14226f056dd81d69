// A known number of instructions, loads and stores.
    .intel_syntax noprefix
    .globl _start
_start:
    mov ecx, 1000
again:
    mov rax, [rip + from]
    mov [rip + to], rax
    add word ptr [rip + both], 1
    dec ecx
    jnz again
    lea rsi, [rip + from]
    lea rdi, [rip + to]
    mov ecx, 64
    rep movsb
    mov eax, 60
    xor edi, edi
    syscall
    .data
    .balign 64
from:
    .quad 1
    .zero 56
to:
    .zero 64
both:
    .short 2
