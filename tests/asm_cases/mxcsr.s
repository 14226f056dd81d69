# MXCSR is part of the register file: ldmxcsr loads it, rounding follows it, stmxcsr stores it.
# EXPECT load load_it 0 80 7f 00 00
# EXPECT load number 0 00*6 04 40
.include "case.inc"
_start:
    stmxcsr [sink]
    mov eax, [sink]
    expect rax, 0x1f80
load_it:
    ldmxcsr [toward_zero]
number:
    movsd xmm0, [two_and_a_half]
    cvtsd2si rax, xmm0
    expect rax, 2
    mov eax, 39
    syscall
    mov dword ptr [sink], 0x5f80
    ldmxcsr [sink]
    cvtsd2si rax, xmm0
    expect rax, 3
    stmxcsr [sink + 4]
    # The precision flag is set by now.
    mov eax, [sink + 4]
    expect rax, 0x5fa0
    finish
.data
toward_zero: .long 0x7f80
.balign 64
two_and_a_half: .double 2.5
.bss
.balign 4096
sink: .skip 64
