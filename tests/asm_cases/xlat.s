# xlat reads one byte at rbx + al.
# EXPECT load first 0 35
# EXPECT load third 0 37
.include "case.inc"
_start:
    mov rbx, offset table
    mov eax, 5
first:
    xlatb
    expect rax, 0x35
    mov eax, 0xff05
second:
    xlatb
    expect rax, 0xff35
    mov eax, 7
third:
    xlatb
    expect rax, 0x37
    finish
.data
table: .byte 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37
