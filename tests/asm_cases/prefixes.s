# Prefixes that change nothing or the width: rep ret, data16, cs and ds overrides, a redundant rex, branch hints.
# EXPECT load cs_override 0 01 00*7
# EXPECT load data16 0 02 03
# EXPECT load rex 0 04
.include "case.inc"
_start:
    call function
    expect rbx, 7
cs_override:
    mov rax, cs:[a]
    mov rax, ds:[a]
    expect rax, 1
data16:
    mov ax, [b]
rex:
    rex mov al, [c]
    .byte 0xf2
    call function
    xor eax, eax
    .byte 0x3e
    jz taken
    jmp failed
taken:
    endbr64
    pause
    finish
function:
    mov ebx, 7
    repz ret
.data
a: .quad 1
.balign 64
b: .byte 2, 3
.balign 64
c: .byte 4
