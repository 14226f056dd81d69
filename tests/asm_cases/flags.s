# Flags through pushf, lahf, sahf, and the instructions that set single ones; the direction flag over a system call.
.include "case.inc"
_start:
    xor eax, eax
    stc
    pushf
    pop rcx
    and ecx, 0x8d5
    expect rcx, 0x45
    mov eax, 0xd500
    sahf
    jnc failed
    jnp failed
    jnz failed
    jns failed
    lahf
    and eax, 0xff00
    expect rax, 0xd700
    std
    mov eax, 39
    syscall
    pushf
    pop rcx
    cld
    and ecx, 0x400
    jz failed
    mov eax, 0x7fffffff
    inc eax
    jno failed
    push 0x8d7
    popf
    jno failed
    jnc failed
    cmc
    jc failed
    # Flags that are dead, then alive again through a count of 0.
    stc
    mov ecx, 0
    shl eax, cl
    jnc failed
    mov ecx, 1
    ror eax, cl
    setc dl
    finish
