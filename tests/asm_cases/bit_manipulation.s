# BMI1, BMI2 and ADX with memory operands.
# CPU bmi1 bmi2 adx
# EXPECT load andn 0 ff 00*7
# EXPECT load bextr 0 00 f0 00*6
# EXPECT load blsr 0 0c 00 00 00
# EXPECT load bzhi 0 ff ff 00*6
# EXPECT load mulx 0 03 00*7
# EXPECT load pdep 0 f0 f0 00*6
# EXPECT load pext 0 0f 0f 00*6
# EXPECT load rorx 0 01 00 00 00
# EXPECT load sarx 0 00*7 80
# EXPECT load adcx 0 05 00*7
# EXPECT load adox 0 06 00*7
.include "case.inc"
_start:
    mov eax, 0x0f
andn:
    andn rbx, rax, [a]
    expect rbx, 0xf0
    mov eax, 0x040c
bextr:
    bextr rbx, [b], rax
    expect rbx, 0xf
blsr:
    blsr ebx, [c]
    expect rbx, 8
    mov eax, 8
bzhi:
    bzhi rbx, [d], rax
    expect rbx, 0xff
    mov edx, 5
mulx:
    mulx rcx, rbx, [e]
    expect rbx, 15
    mov eax, 0xff
pdep:
    pdep rbx, rax, [f]
    expect rbx, 0xf0f0
    mov eax, 0x1234
pext:
    pext rbx, rax, [g]
    expect rbx, 0x24
rorx:
    rorx ebx, [h], 4
    expect rbx, 0x10000000
    mov eax, 60
sarx:
    sarx rbx, [i], rax
    expect rbx, -8
    mov eax, 1
    stc
adcx:
    adcx rax, [j]
    expect rax, 7
    mov eax, 1
    xor ecx, ecx
adox:
    adox rax, [k]
    expect rax, 7
    finish
.macro slot name:req, value:req
    .balign 64
\name: .quad \value
.endm
.data
    slot a, 0xff
    slot b, 0xf000
    slot c, 0x0c
    slot d, 0xffff
    slot e, 3
    slot f, 0xf0f0
    slot g, 0x0f0f
    slot h, 1
    slot i, 0x8000000000000000
    slot j, 5
    slot k, 6
