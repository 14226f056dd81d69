# repe cmps and repne scas read only as far as they get. What lies behind the byte that stops them is not read.
# EXPECT load compare 0 01 02 03
# EXPECT load compare 1 01 02 ff
# EXPECT load scan 0 31 32 33
# EXPECT load rest 0 04
# EXPECT load compare_down 0 54 55
# EXPECT load compare_down 1 64 55
.include "case.inc"
_start:
    cld
    mov rsi, offset left
    mov rdi, offset right
    mov ecx, 8
compare:
    repe cmpsb
    je failed
    expect rcx, 5
    mov rdi, offset text
    mov al, 0x33
    mov ecx, 16
scan:
    repne scasb
    jne failed
    expect rcx, 13
    # Count 0: no read, and the flags stay as they are.
    xor ecx, ecx
    mov rsi, offset left
    mov rdi, offset right + 3
    xor eax, eax
none:
    repe cmpsb
    jne failed
rest:
    mov al, [left + 3]
    std
    mov rsi, offset low + 1
    mov rdi, offset high + 1
    mov ecx, 2
compare_down:
    repe cmpsb
    cld
    je failed
    finish
.data
left: .byte 1, 2, 3, 4, 5, 6, 7, 8
.balign 64
right: .byte 1, 2, 0xff, 4, 5, 6, 7, 8
.balign 64
text: .byte 0x31, 0x32, 0x33, 0x34, 0x35
.balign 64
low: .byte 0x54, 0x55
.balign 64
high: .byte 0x64, 0x55
