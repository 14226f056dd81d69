# R11 in every role: replay counts in this register while the program does not use it. And flags that live on over the ends
# of blocks, between which replay counts.
# EXPECT load call_indexed 0 q:function
# EXPECT load jump_indexed 0 q:landed
# EXPECT load call_segment 0 q:function
# EXPECT load jump_scaled 0 q:scaled
# EXPECT load through 0 11
# EXPECT load repeated 0 01*16
.include "case.inc"
_start:
    xor ebx, ebx
    lea r11, [rip + function]
    call r11
    expect rbx, 1
    lea r11, [rip + behind]
    jmp r11
    jmp failed
behind:
    expect r11, "offset behind"
    lea r11, [rip + table]
    mov r12, r11
call_indexed:
    call [r11 + 8]
    expect r11, "offset table"
    expect rbx, 2
jump_indexed:
    jmp [r11]
    jmp failed
landed:
    expect r11, "offset table"
    # FS is relative to the program's own base.
    mov edi, 0x1002
    lea rsi, [rip + table]
    mov eax, 158
    syscall
    # The system call has changed R11 to the flags.
    and r11d, 0x202
    expect r11, 0x202
    mov r11d, 16
call_segment:
    call fs:[r11]
    expect r11, 16
    expect rbx, 3
    mov r11d, 3
    lea rax, [rip + table]
jump_scaled:
    jmp [rax + r11*8]
    jmp failed
scaled:
    expect r11, 3
    # Pages that nothing has touched yet.
    mov r11d, 0x3000
    lea rax, [rip + room]
    mov [rax + r11], r11b
    add r11, rax
    lea r11, [r11 + 0x3000]
    mov r13, [r11 + 0x3000]
    expect r13, 0
    mov [r11], r11
    cmp [r11], r11
    jne failed
    mov r11b, 5
through:
    movzx r11d, byte ptr [rip + data]
    expect r11, 0x11
    push r11
    pop r14
    expect r14, 0x11
    # Used, not used, used.
    mov r11, 7
    mov ecx, 16
    lea rsi, [rip + ones]
    lea rdi, [rip + room]
    cld
repeated:
    rep movsb
    add r11, rcx
    expect r11, 7
    # Written only, and read much later.
    mov r11, 0x1234
    mov ecx, 5
again:
    dec ecx
    jnz again
    expect r11, 0x1234
    # Flags over jumps, calls and returns.
    stc
    jmp over
over:
    mov eax, 1
    adc eax, 1
    expect rax, 3
    stc
    call keep
    mov eax, 1
    jc carried
    jmp failed
carried:
    mov eax, 0x7fffffff
    inc eax
    lea rdx, [rip + overflown]
    mov r11, rdx
    jmp r11
overflown:
    mov rcx, rcx
    seto r11b
    setc r12b
    movzx r11d, r11b
    movzx r12d, r12b
    expect r11, 1
    expect r12, 1
    # Big addition with carries through a loop whose jumps leave flags alone.
    mov ecx, 4
    lea rsi, [rip + room + 0x8000]
    clc
    mov rax, -1
sum:
    adc rax, 0
    lea rsi, [rsi + 8]
    lea ecx, [rcx - 1]
    jecxz summed
    jmp sum
summed:
    expect rax, -1
    finish
function:
    inc ebx
    ret
keep:
    mov rax, r11
    ret
.data
table: .quad landed, function, function, scaled
.balign 4096
data: .byte 0x11
.balign 64
ones: .fill 16, 1, 1
.bss
.balign 4096
room: .space 0x10000
