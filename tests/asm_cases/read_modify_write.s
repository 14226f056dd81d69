# Read-modify-writes read; afterwards the thread knows the value. With and without lock.
# EXPECT load add8 0 01
# EXPECT load sub16 0 00 02
# EXPECT load inc32 0 ff ff 00 00
# EXPECT load neg64 0 01 00*7
# EXPECT load not8 0 0f
# EXPECT load shl32 0 01 00 00 80
# EXPECT load rcr64 0 02 00*7
# EXPECT load shld 0 00 00 00 f0
# EXPECT load lock_add 0 05 00 00 00
# EXPECT load lock_or 0 06 00*7
# EXPECT load lock_dec 0 07
# EXPECT load xadd 0 08 00 00 00
# EXPECT load lock_xadd 0 09 00*7
# EXPECT load exchange 0 0a 00*7
# EXPECT load exchange8 0 0b
# EXPECT load test_only 0 0c
# EXPECT load compare_immediate 0 0d 00
# EXPECT load adc64 0 0e 00*7
.include "case.inc"
_start:
add8:
    add byte ptr [a], 1
sub16:
    sub word ptr [b], 1
inc32:
    inc dword ptr [c]
neg64:
    neg qword ptr [d]
not8:
    not byte ptr [e]
shl32:
    shl dword ptr [f], 1
    stc
rcr64:
    rcr qword ptr [g], 1
    mov eax, 0x80000000
shld:
    shld dword ptr [h], eax, 4
    mov ecx, 3
lock_add:
    lock add dword ptr [i], ecx
lock_or:
    lock or qword ptr [j], 8
lock_dec:
    lock dec byte ptr [k]
    mov ecx, 1
xadd:
    xadd dword ptr [l], ecx
    expect rcx, 8
    mov ecx, 1
lock_xadd:
    lock xadd qword ptr [m], rcx
    expect rcx, 9
    mov ecx, 1
exchange:
    xchg qword ptr [n], rcx
    expect rcx, 10
    mov ecx, 1
exchange8:
    xchg byte ptr [o], cl
test_only:
    test byte ptr [p], 4
    jz failed
compare_immediate:
    cmp word ptr [q], 13
    jne failed
    stc
adc64:
    adc qword ptr [r], 1
    # Known by now, in the new value:
    mov al, [a]
    mov ax, [b]
    mov eax, [c]
    mov rdx, [d]
    expect rdx, -1
    mov al, [e]
    mov eax, [f]
    mov rdx, [g]
    expect rdx, 0x8000000000000001
    mov eax, [h]
    expect rax, 8
    mov eax, [i]
    mov rdx, [j]
    expect rdx, 14
    mov al, [k]
    mov eax, [l]
    mov rdx, [m]
    mov rdx, [n]
    expect rdx, 1
    mov al, [o]
    mov rdx, [r]
    expect rdx, 16
    finish
.macro slot name:req, value:vararg
    .balign 64
\name: .byte \value
.endm
.data
    slot a, 1
    slot b, 0, 2
    slot c, 0xff, 0xff
    slot d, 1
    slot e, 0x0f
    slot f, 1, 0, 0, 0x80
    slot g, 2
    slot h, 0, 0, 0, 0xf0
    slot i, 5
    slot j, 6
    slot k, 7
    slot l, 8
    slot m, 9
    slot n, 10
    slot o, 11
    slot p, 12
    slot q, 13
    slot r, 14
    .balign 64
