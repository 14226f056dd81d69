# cmpxchg reads when it succeeds and when it fails; in both cases the thread knows the value afterwards.
# EXPECT load fail8 0 11
# EXPECT load fail16 0 22 11
# EXPECT load fail32 0 44 33 22 11
# EXPECT load fail64 0 88 77 66 55 44 33 22 11
# EXPECT load hit64 0 05 00*7
# EXPECT load hit8 0 06
.include "case.inc"
_start:
    xor eax, eax
    mov ecx, 0x99
fail8:
    cmpxchg [a], cl
    je failed
    xor eax, eax
fail16:
    cmpxchg [b], cx
    je failed
    xor eax, eax
fail32:
    cmpxchg [c], ecx
    je failed
    xor eax, eax
fail64:
    lock cmpxchg [d], rcx
    je failed
    expect rax, 0x1122334455667788
    # rax holds the value now: this one succeeds, on known memory.
again64:
    lock cmpxchg [d], rcx
    jne failed
    mov rax, [d]
    expect rax, 0x99
    mov eax, 5
hit64:
    lock cmpxchg [e], rcx
    jne failed
    mov rax, [e]
    expect rax, 0x99
    mov eax, 6
hit8:
    cmpxchg [f], cl
    jne failed
    mov al, [f]
    finish
.data
a: .byte 0x11
.balign 64
b: .word 0x1122
.balign 64
c: .long 0x11223344
.balign 64
d: .quad 0x1122334455667788
.balign 64
e: .quad 5
.balign 64
f: .byte 6
