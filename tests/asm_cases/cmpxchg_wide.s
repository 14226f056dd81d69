# cmpxchg8b and cmpxchg16b, failing and succeeding.
# CPU cx16
# EXPECT load fail8b 0 01 02 03 04 05 06 07 08
# EXPECT load fail16b 0 11 12 13 14 15 16 17 18 21 22 23 24 25 26 27 28
# EXPECT load hit16b 0 03 00*7 04 00*7
.include "case.inc"
_start:
    xor eax, eax
    xor edx, edx
    mov ebx, 7
    mov ecx, 8
fail8b:
    cmpxchg8b [a]
    je failed
    expect rax, 0x04030201
    expect rdx, 0x08070605
hit8b:
    lock cmpxchg8b [a]
    jne failed
    mov rax, [a]
    expect rax, 0x0000000800000007
    xor eax, eax
    xor edx, edx
fail16b:
    lock cmpxchg16b [b]
    je failed
    expect rax, 0x1817161514131211
    mov eax, 3
    mov edx, 4
hit16b:
    lock cmpxchg16b [c]
    jne failed
    mov rax, [c]
    expect rax, 7
    mov rax, [c + 8]
    expect rax, 8
    finish
.data
.balign 64
a: .quad 0x0807060504030201
.balign 64
b: .quad 0x1817161514131211, 0x2827262524232221
.balign 64
c: .quad 3, 4
