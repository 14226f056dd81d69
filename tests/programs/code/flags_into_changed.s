# Code whose flags are dead where it begins is replaced by code that reads them, and every general purpose register that it
# overwrites. What the jump there brings along must all arrive.
.include "code/print.inc"
    .text
_start:
    map_code 4096
    mov r12d, 40
    xor r13d, r13d
again:
    .macro try old, new, length
        mov rdi, rbx
        lea rsi, [rip + \old]
        mov ecx, \length
        rep movsb
        call rbx
        mov rdi, rbx
        lea rsi, [rip + \new]
        mov ecx, \length
        rep movsb
        lea eax, [r12 * 4 + 3]
        lea ecx, [r12 + 77]
        lea edx, [r12 * 8 + 1]
        # All arithmetic flags depend on the turn.
        mov r8b, r12b
        imul r9d, r12d, 0x55
        add r8b, r9b
        call rbx
        add r13d, eax
        rol r13d, 5
    .endm
    try old_wide, new_wide, 20
    try old_four, new_four, 7
    try old_short, new_short, 3
    dec r12d
    jnz again
    print r13d

old_wide:
    mov eax, 1
    mov ecx, 2
    cmp eax, ecx
    mov edx, 3
    nop
    nop
    ret
new_wide:
    adc eax, ecx
    setp cl
    rcl edx, 1
    seto ch
    adc eax, ecx
    xor eax, edx
    nop dword ptr [rax + 4]
    ret
old_four:
    xor eax, eax
    xor ecx, ecx
    nop
    nop
    ret
new_four:
    adc eax, ecx
    sbb eax, edx
    nop
    nop
    ret
old_short:
    xor eax, eax
    ret
new_short:
    adc eax, ecx
    ret
