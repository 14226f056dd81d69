# rep movs, lods and stos: one instruction and one read of count * size bytes, whatever the direction; count 0 reads
# nothing. Bytes are listed from the lowest address.
# EXPECT load copy 0 01 02 03 04 05 06 07 08 09 0a 0b 0c
# EXPECT load copy_down 0 21 22 23 24
# EXPECT load load_all 0 31 32 33 34
# EXPECT load smear 0 41 00*6
.include "case.inc"
_start:
    cld
    mov rsi, offset source
    mov rdi, offset sink
    xor ecx, ecx
nothing:
    rep movsb
    mov rsi, offset source
    mov ecx, 3
copy:
    rep movsd
    # The same again: both sides know these bytes.
    mov rsi, offset source
    mov rdi, offset sink + 32
    mov ecx, 12
copy_again:
    rep movsb
    mov rsi, offset sink
    mov rdi, offset sink + 32
    mov ecx, 12
compare_own:
    repe cmpsb
    jne failed
    std
    mov rsi, offset down + 3
    mov rdi, offset sink + 67
    mov ecx, 4
copy_down:
    rep movsb
    cld
    mov eax, [sink + 64]
    expect rax, 0x24232221
    mov rsi, offset words
    mov ecx, 2
    xor eax, eax
load_all:
    rep lodsw
    expect rax, 0x3433
    # Overlapping by one byte: what the read holds is what stood there before; all bytes but the first
    # are then replaced by what the copy itself stores.
    mov rsi, offset overlap
    mov rdi, offset overlap + 1
    mov ecx, 7
smear:
    rep movsb
    mov rax, [overlap]
    expect rax, 0x4141414141414141
    mov rdi, offset sink
    mov ecx, 512
    mov eax, 0x5a
fill:
    rep stosb
    mov rdx, [sink + 504]
    expect rdx, 0x5a5a5a5a5a5a5a5a
    finish
.data
source: .byte 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
.balign 64
down: .byte 0x21, 0x22, 0x23, 0x24
.balign 64
words: .byte 0x31, 0x32, 0x33, 0x34
.balign 64
overlap: .byte 0x41
    .skip 63
.bss
.balign 4096
sink: .skip 1024
