# AH, CH, DH and BH as operands of instructions that read memory, with every low register in use otherwise: a REX prefix
# would make them SPL, BPL, SIL and DIL.
# EXPECT load into_ah 0 11
# EXPECT load into_bh 0 22
# EXPECT load add_dh 0 33
# EXPECT load compare_ch 0 44
# EXPECT load modify 0 55
# EXPECT load exchange 0 66
# EXPECT load indexed 0 77
.include "case.inc"
_start:
    mov r14, rsp
    mov eax, 0x1000000
    mov ebx, 0x2000000
    mov ecx, 0x3000000
    mov edx, 0x4000000
    mov rsi, offset data
    mov edi, 2
    mov rbp, offset data
into_ah:
    mov ah, [rsi]
    # Flags are live, registers are, too.
    add rdi, 0
into_bh:
    mov bh, [rsi + 64]
    jz failed
add_dh:
    add dh, [rsi + 128]
compare_ch:
    cmp ch, [rsi + 192]
    je failed
modify:
    add [rsi + 256], bh
exchange:
    xchg [rbp + 320], ch
indexed:
    or ah, [rsi + 8 * rdi + 368]
    mov [rsi + 448], dh
    mov [rbp + 8 * rdi + 496], ah
    expect rax, 0x1007700
    expect rbx, 0x2002200
    expect rcx, 0x3006600
    expect rdx, 0x4003300
    cmp rsp, r14
    jne failed
    cmp rbp, rsi
    jne failed
    expect rdi, 2
    movzx eax, byte ptr [rsi + 256]
    expect rax, 0x77
    movzx eax, word ptr [rsi + 448]
    expect rax, 0x33
    movzx eax, byte ptr [rsi + 512]
    expect rax, 0x77
    finish
.data
.balign 64
data:
    .byte 0x11
.balign 64
    .byte 0x22
.balign 64
    .byte 0x33
.balign 64
    .byte 0x44
.balign 64
    .byte 0x55
.balign 64
    .byte 0x66
.balign 64
    .byte 0x77
.balign 64
    .byte 0
.balign 64
    .byte 0
