# Conditional branches that count: loop, loopne, jrcxz and a block that jumps to itself.
# EXPECT load third_turn#3 0 03
# EXPECT load third_turn#5 0 05
.include "case.inc"
_start:
    mov ecx, 100
self:
    loop self
    mov ecx, 1000
    xor eax, eax
count:
    inc eax
    cmp eax, 700
    loopne count
    jnz failed
    expect rcx, 300
    jrcxz failed
    xor ecx, ecx
    jecxz zero
    jmp failed
zero:
    xor ebx, ebx
    mov edx, 0
    # Values 0 0 3 0 5: every turn loads another byte, and only two of them are not zero.
turn:
third_turn:
    mov al, [values + rdx]
    add bl, al
    inc edx
    cmp edx, 5
    jne turn
    expect rbx, 8
    finish
.data
values: .byte 0, 0, 3, 0, 5
