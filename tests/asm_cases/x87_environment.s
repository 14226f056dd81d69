# fnstenv, fnsave and their loads: what they store holds the address of the last x87 instruction, which no replay
# knows, so that they are not executed by replay; reading the stored bytes needs no record.
# EXPECT special store_environment opaquestore
# EXPECT special save opaquestore
# EXPECT load foreign_environment 0 7f 02 ff ff 00 00 ff ff ff ff ff ff 00*16
# EXPECT load foreign_state 0 7f 03 ff ff 00 00 ff ff ff ff ff ff 00*16 00*7 80 ff 3f 00*70
.include "case.inc"
_start:
    fninit
    fld1
    fldpi
store_environment:
    fnstenv [sink]
    mov ax, [sink]
    expect rax, 0x37f
    mov rax, [sink + 12]
    mov rax, [sink + 20]
    fldenv [sink]
save:
    fnsave [sink + 128]
    # fnsave also resets the unit.
    fnstcw [sink + 32]
    mov ax, [sink + 128 + 28]
    mov ax, [sink + 128 + 28 + 8]
    frstor [sink + 128]
    fstp qword ptr [sink + 40]
    mov rax, [sink + 40]
    expect rax, 0x400921fb54442d18
foreign_environment:
    fldenv [environment]
    fnstcw [sink + 32]
    mov ax, [sink + 32]
foreign_state:
    frstor [state]
    fstp qword ptr [sink + 40]
    fninit
    finish
.data
.balign 256
environment: .long 0xffff027f, 0xffff0000, 0xffffffff, 0, 0, 0, 0
.balign 256
state: .long 0xffff037f, 0xffff0000, 0xffffffff, 0, 0, 0, 0
    .byte 0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f
    .skip 70
.bss
.balign 4096
sink: .skip 512
