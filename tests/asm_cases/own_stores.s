# What the thread stored itself needs no record. A wider load around a store needs one only for what differs.
# EXPECT load wide_differs 0 11 .. 33 44 55 66 77 88
# EXPECT load straddling 0 .. .. .. .. aa bb cc dd
.include "case.inc"
_start:
    mov qword ptr [own], 0x12345678
    mov rax, [own]
    mov ax, [own + 2]
    # A narrow store into zeros, loaded wide.
    mov byte ptr [own + 19], 7
    mov rax, [own + 16]
    expect rax, 0x07000000
    # A narrow store into bytes that the replayer does not know yet, loaded wide.
    mov byte ptr [full + 1], 0x99
wide_differs:
    mov rax, [full]
    expect rax, 0x8877665544339911
    mov rax, [full]
    mov dword ptr [half], 0x44332211
straddling:
    mov rax, [half]
    expect rax, 0xddccbbaa44332211
    # Storing a value equal to what is there is still a store.
    mov dword ptr [same], 5
    mov eax, [same]
    movdqu [own + 32], xmm0
    movdqu xmm1, [own + 32]
    finish
.data
full: .quad 0x8877665544332211
.balign 64
half: .long 0xffffffff, 0xddccbbaa
same: .long 5
.bss
.balign 4096
own: .skip 64
