# String instructions without a prefix. cmps has two reads: the one at rsi first, the one at rdi second.
# EXPECT load cmps 0 01
# EXPECT load cmps 1 02
# EXPECT load cmps_q 0 11*8
# EXPECT load cmps_q 1 12*8
# EXPECT load scas 0 03 04 05 06
# EXPECT load lods 0 07 08
# EXPECT load movs 0 0a 0b 0c 0d 0e 0f 10 11
# EXPECT load lods_down 0 21
.include "case.inc"
_start:
    cld
    mov rsi, offset a
    mov rdi, offset b
cmps:
    cmpsb
    jae failed
    mov rsi, offset aq
    mov rdi, offset bq
cmps_q:
    cmpsq
    jae failed
    mov rdi, offset c
    mov eax, 0x06050403
scas:
    scasd
    jne failed
    mov rsi, offset d
    xor eax, eax
lods:
    lodsw
    expect rax, 0x0807
    mov rsi, offset e
    mov rdi, offset sink
movs:
    movsq
    mov rax, 0x77
    stosb
    mov rax, [sink]
    expect rax, 0x11100f0e0d0c0b0a
    mov al, [sink + 8]
    cmp al, 0x77
    jne failed
    std
    mov rsi, offset f
lods_down:
    lodsb
    cld
    cmp rsi, offset f - 1
    jne failed
    finish
.data
a: .byte 1
b: .byte 2
.balign 64
aq: .quad 0x1111111111111111
bq: .quad 0x1212121212121212
c: .byte 3, 4, 5, 6
d: .byte 7, 8
.balign 64
e: .byte 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11
f: .byte 0x21
.bss
.balign 4096
sink: .skip 64
