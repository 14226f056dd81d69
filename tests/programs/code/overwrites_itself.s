# Code that overwrites an instruction behind it in its own block, the very next one, one of another block in a loop, and
# the instruction that does the storing; a rep that overwrites what follows it, and a call whose pushed return
# address is code.
.include "code/print.inc"
    .text
_start:
    map_code 8192
    mov rdi, rax
    lea rsi, [rip + body]
    mov ecx, offset body_end - body
    rep movsb
    call rbx
    print eax
    .balign 64
body:
    xor eax, eax
    mov ecx, 20
again:
    # The next instruction.
    mov byte ptr [rip + next + 1], cl
next:
    mov edx, 0
    add eax, edx
    # Two instructions later.
    mov byte ptr [rip + later + 1], cl
    rol eax, 3
later:
    mov edx, 0
    xor eax, edx
    # An instruction of another block, in this turn and in the next.
    mov byte ptr [rip + other + 1], cl
    mov byte ptr [rip + again_other + 1], cl
    jmp other
other:
    mov edx, 0
    add eax, edx
    # The one that stores: in the next turn it stores another number.
stores:
    mov byte ptr [rip + stored], 1
    inc byte ptr [rip + stores + 6]
    add al, byte ptr [rip + stored]
    # A string store over the next instruction: mov edx, imm32 with another immediate.
    mov r8d, ecx
    mov r9d, eax
    lea rdi, [rip + strung + 1]
    mov eax, ecx
    mov ecx, 4
    rep stosb
strung:
    mov edx, 0
    mov ecx, r8d
    mov eax, r9d
    add eax, edx
    # Pushed bytes: the stack pointer is in the code for two instructions.
    mov r10, rsp
    lea rsp, [rip + pushed_end]
    mov r11d, 0x90d0ff90
    imul r9, rcx, 0x100
    and r9, 0x700
    movabs r11, 0xc290909000000005
    push r11
    mov rsp, r10
    mov r11d, dword ptr [rip + pushed]
    add eax, r11d
    dec ecx
    jnz again
again_other:
    mov edx, 0
    add eax, edx
    ret
stored: .byte 0
pushed: .quad 0
pushed_end:
body_end:
