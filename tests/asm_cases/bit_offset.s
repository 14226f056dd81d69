# bt, bts, btr and btc with a register as bit offset reach beyond their operand, in both directions.
# EXPECT load bt_up 0 80 00*7
# EXPECT load bts_down 0 01 00 00 00
# EXPECT load btr16 0 ff ff
# EXPECT load btc64 0 10 00*7
# EXPECT load bt_immediate 0 08 00 00 00
.include "case.inc"
_start:
    mov eax, 64 * 5 + 7
bt_up:
    bt qword ptr [base], rax
    jnc failed
    mov eax, -32 * 3 + 4
bts_down:
    bts dword ptr [base], eax
    jc failed
    mov eax, [base - 12]
    expect rax, 0x11
    mov eax, 16 * 40 + 15
btr16:
    btr word ptr [base], ax
    jnc failed
    mov rax, -64 * 9 + 4
btc64:
    lock btc qword ptr [base], rax
    jnc failed
    mov rax, [base - 72]
    expect rax, 0
    # An immediate offset is taken modulo the operand's size.
bt_immediate:
    bt dword ptr [narrow], 35
    jnc failed
    finish
.data
.balign 256
    .skip 256 - 72
    .quad 0x10
    .skip 52
    .long 1
    .skip 8
base:
    .quad 0
    .skip 32
    .quad 0x80
    .skip 32
    .word 0xffff
    .balign 64
narrow: .long 8
