# movbe, bswap, crc32, popcnt, lzcnt, tzcnt with memory operands.
# CPU movbe sse4_2 bmi1 abm popcnt
# EXPECT load movbe64 0 01 02 03 04 05 06 07 08
# EXPECT load movbe16 0 11 12
# EXPECT load crc8 0 21
# EXPECT load crc64 0 31 32 33 34 35 36 37 38
# EXPECT load popcnt 0 ff 00 00 00
# EXPECT load lzcnt 0 41 00*7
# EXPECT load tzcnt 0 08 00
# EXPECT load bsf 0 10 00 00 00
.include "case.inc"
_start:
movbe64:
    movbe rax, [a]
    expect rax, 0x0102030405060708
    xor ebx, ebx
movbe16:
    movbe bx, [b]
    expect rbx, 0x1112
    movbe [sink], rax
    mov rcx, [sink]
    expect rcx, 0x0807060504030201
    xor edx, edx
crc8:
    crc32 edx, byte ptr [c]
crc64:
    crc32 rdx, qword ptr [d]
popcnt:
    popcnt eax, [e]
    expect rax, 8
lzcnt:
    lzcnt rax, [f]
    expect rax, 57
    xor eax, eax
tzcnt:
    tzcnt ax, [g]
    expect rax, 3
bsf:
    bsf eax, [h]
    expect rax, 4
    finish
.data
a: .byte 1, 2, 3, 4, 5, 6, 7, 8
.balign 64
b: .byte 0x11, 0x12
.balign 64
c: .byte 0x21
.balign 64
d: .byte 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38
.balign 64
e: .long 0xff
.balign 64
f: .quad 0x41
.balign 64
g: .word 8
.balign 64
h: .long 0x10
.bss
.balign 4096
sink: .skip 64
