# Far returns, iret and a far jump through memory, within the same segment: where they go, and what they do to the stack
# and to flags, is in the log as the result of an instruction that replay does not execute.
# EXPECT special far_return emulated
# EXPECT special interrupt_return emulated
# EXPECT special far_jump emulated
.include "case.inc"
_start:
    mov eax, cs
    push rax
    lea rax, [rip + after_lret]
    push rax
far_return:
    lretq
    jmp failed
after_lret:
    mov rbx, rsp
    mov eax, ss
    push rax
    push rbx
    pushf
    mov eax, cs
    push rax
    lea rax, [rip + after_iret]
    push rax
interrupt_return:
    iretq
    jmp failed
after_iret:
    cmp rsp, rbx
    jne failed
far_jump:
    jmp fword ptr [pointer]
    jmp failed
landed:
    finish
.data
pointer: .long landed
    .short 0x33
