# The x87 status word keeps its sticky exception bits, its condition bits and its top over first loads,
# system calls, and code on a page of which none ran before.
# EXPECT load three 0 03 00 00 00
# EXPECT load one 0 11 00*7
# EXPECT load two 0 22 00*7
.include "case.inc"
_start:
    fninit
    fld1
three:
    fild dword ptr [a]
    fdivp
    # 1/3 is inexact: precision exception, 0x20.
one:
    mov rax, [b]
    mov eax, 39
    syscall
two:
    mov rax, [c]
    call other_page
    fnstsw [sink]
    mov ax, [sink]
    # Without C1, which says in which direction the result was rounded.
    and eax, 0xfdff
    expect rax, 0x3820
    fldz
    fcomp
    fnstsw ax
    and eax, 0x7d3f
    expect rax, 0x3920
    finish
.balign 4096
other_page:
    ret
.balign 4096
.macro slot name:req, value:req
    .balign 64
\name: .quad \value
.endm
.data
    slot a, 3
    slot b, 0x11
    slot c, 0x22
.bss
.balign 4096
sink: .skip 64
