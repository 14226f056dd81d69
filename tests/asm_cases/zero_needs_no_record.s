# The picture begins as zero: first loads of zero need no record, of any size, wherever they are.
# EXPECT load not_zero 0 01 00*7
.include "case.inc"
_start:
    mov al, [zeros]
    mov ax, [zeros + 2]
    mov eax, [zeros + 4]
    mov rax, [zeros + 8]
    movdqu xmm0, [zeros + 16]
    mov rax, [room + 4096 - 4]
    add qword ptr [room + 64], 0
    cmp byte ptr [room + 100], 0
    jne failed
    mov rsi, offset zeros
    mov rdi, offset room
    mov ecx, 64
    repe cmpsb
    jne failed
not_zero:
    mov rax, [one]
    finish
.data
zeros: .skip 64
one: .quad 1
.bss
.balign 4096
room: .skip 8192
