# Loads across the borders of 8-byte words, 64-byte blocks and pages; of 1 to 32 bytes.
# CPU avx2
# EXPECT load word 0 01 02
# EXPECT load block8 0 11 12 13 14 15 16 17 18
# EXPECT load page8 0 21 22 23 24 25 26 27 28
# EXPECT load page16 0 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f 40
# EXPECT load page32 0 51*16 52*16
# EXPECT load page2 0 61 62
# EXPECT load page4_half_known 0 71 .. .. ..
.include "case.inc"
_start:
word:
    mov ax, [data + 7]
block8:
    mov rax, [data + 61]
    expect rax, 0x1817161514131211
page8:
    mov rax, [data + 4096 - 3]
    expect rax, 0x2827262524232221
page16:
    movdqu xmm0, [data + 8192 - 5]
page32:
    vmovdqu ymm0, [data + 12288 - 16]
page2:
    mov ax, [data + 16384 - 1]
    mov word ptr [data + 20480], 0x7372
page4_half_known:
    mov eax, [data + 20480 - 1]
    mov rax, [data + 61]
    mov rax, [data + 4096 - 3]
    movdqu xmm0, [data + 8192 - 5]
    vmovdqu ymm0, [data + 12288 - 16]
    finish
.data
data:
    .skip 7
    .byte 1, 2
    .skip 61 - 9
    .byte 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18
    .skip 4093 - 69
    .byte 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28
    .skip 8187 - 4101
    .byte 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x40
    .skip 12272 - 8203
    .fill 16, 1, 0x51
    .fill 16, 1, 0x52
    .skip 16383 - 12304
    .byte 0x61, 0x62
    .skip 20479 - 16385
    .byte 0x71, 0, 0, 0
    .skip 16
