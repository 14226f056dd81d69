# A system call changes rax, rcx (address of the next instruction) and r11 (flags), and nothing else.
.include "case.inc"
_start:
    mov ebx, 1
    mov edx, 2
    mov esi, 3
    mov edi, 4
    mov r8d, 5
    mov r12d, 6
    stc
    mov eax, 39
    syscall
next:
    jnc failed
    cmp rcx, offset next
    jne failed
    and r11d, 1
    jz failed
    test eax, eax
    jz failed
    lea rax, [rbx + rdx]
    add rax, rsi
    add rax, rdi
    add rax, r8
    add rax, r12
    expect rax, 21
    # A call that fails, one with an unknown number, one with a bad pointer.
    mov edi, -1
    mov eax, 3
    syscall
    expect rax, -9
    mov eax, 0x7777
    syscall
    expect rax, -38
    mov edi, 1
    mov eax, 63
    syscall
    expect rax, -14
    finish
