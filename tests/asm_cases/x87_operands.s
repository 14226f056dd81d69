# x87 loads of every size, stores of 80 bits, control and status word.
# EXPECT load fld32 0 00 00 c0 3f
# EXPECT load fld64 0 00*6 04 40
# EXPECT load fld80 0 00*7 80 00 40
# EXPECT load fild16 0 07 00
# EXPECT load fild32 0 08 00 00 00
# EXPECT load fild64 0 09 00*7
# EXPECT load fbld 0 42 00*9
# EXPECT load fadd32 0 00 00 80 3f
# EXPECT load fimul16 0 03 00
# EXPECT load fcom64 0 00*6 f0 3f
# EXPECT load fldcw 0 7f 0f
.include "case.inc"
_start:
    fninit
fld32:
    fld dword ptr [a]
fld64:
    fld qword ptr [b]
fld80:
    fld tbyte ptr [c]
fild16:
    fild word ptr [d]
fild32:
    fild dword ptr [e]
fild64:
    fild qword ptr [f]
fbld:
    fbld [g]
fadd32:
    fadd dword ptr [h]
fimul16:
    fimul word ptr [i]
fcom64:
    fcomp qword ptr [j]
    fnstsw ax
    fnstsw [sink]
    fnstcw [sink + 2]
fldcw:
    fldcw [k]
    fldcw [sink + 2]
    fstp tbyte ptr [sink + 16]
    fistp dword ptr [sink + 32]
    fbstp [sink + 48]
    fstp tbyte ptr [sink + 64]
    fst qword ptr [sink + 80]
    fstp dword ptr [sink + 88]
    fisttp qword ptr [sink + 96]
    # All of it is the program's own.
    fld tbyte ptr [sink + 16]
    fld tbyte ptr [sink + 64]
    mov rax, [sink + 16]
    expect rax, 0x9000000000000000
    mov ax, [sink + 24]
    mov eax, [sink + 32]
    expect rax, 8
    mov rax, [sink + 48]
    expect rax, 7
    mov ax, [sink + 56]
    mov ax, [sink]
    mov ax, [sink + 2]
    mov rax, [sink + 96]
    finish
.macro slot name:req, value:vararg
    .balign 64
\name: \value
.endm
.data
    slot a, .float 1.5
    slot b, .double 2.5
    slot c, .byte 0, 0, 0, 0, 0, 0, 0, 0x80, 0x00, 0x40
    slot d, .short 7
    slot e, .long 8
    slot f, .quad 9
    slot g, .byte 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0
    slot h, .float 1
    slot i, .short 3
    slot j, .double 1
    slot k, .short 0x0f7f
.bss
.balign 4096
sink: .skip 128
