# Integer instructions with a memory source: multiplication, division, extension, moffs, address-size prefix.
# EXPECT load imul 0 03 00*7
# EXPECT load mul8 0 05
# EXPECT load imul3 0 07 00 00 00
# EXPECT load div 0 0b 00*7
# EXPECT load idiv32 0 0d 00 00 00
# EXPECT load movzx 0 81
# EXPECT load movsx 0 82
# EXPECT load movsxd 0 00 00 00 83
# EXPECT load moffs8 0 91
# EXPECT load moffs64 0 92 00*7
# EXPECT load address32 0 93 00*7
# EXPECT load relative 0 94 00*7
# EXPECT load indexed 0 95 00 00 00
# EXPECT load setcc 0 96 ..
.include "case.inc"
_start:
    mov eax, 2
imul:
    imul rax, [a]
    expect rax, 6
mul8:
    mul byte ptr [b]
    expect rax, 30
imul3:
    imul eax, [c], 9
    expect rax, 63
    mov eax, 121
    xor edx, edx
div:
    div qword ptr [d]
    expect rax, 11
    mov eax, -26
    cdq
idiv32:
    idiv dword ptr [e]
    expect rax, 0xfffffffe
movzx:
    movzx eax, byte ptr [f]
    expect rax, 0x81
movsx:
    movsx rax, byte ptr [g]
    expect rax, 0xffffffffffffff82
movsxd:
    movsxd rax, dword ptr [h]
    expect rax, 0xffffffff83000000
    xor eax, eax
moffs8:
    movabs al, [i]
    expect rax, 0x91
moffs64:
    movabs rax, [j]
    expect rax, 0x92
    mov ebx, offset k
address32:
    mov rax, [ebx]
    expect rax, 0x93
relative:
    mov rax, [rip + l]
    expect rax, 0x94
    mov rbx, -16
    mov ecx, 4
indexed:
    mov eax, [m + rbx + rcx*4]
    expect rax, 0x95
    cmp eax, eax
    sete byte ptr [n + 1]
setcc:
    mov ax, [n]
    finish
.macro slot name:req, value:req
    .balign 64
\name: .quad \value
.endm
.data
    slot a, 3
    slot b, 5
    slot c, 7
    slot d, 11
    slot e, 13
    slot f, 0x81
    slot g, 0x82
    slot h, 0x83000000
    slot i, 0x91
    slot j, 0x92
    slot k, 0x93
    slot l, 0x94
    slot m, 0x95
    slot n, 0x96
