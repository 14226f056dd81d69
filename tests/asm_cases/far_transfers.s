# Far returns, iret and a far jump through memory, within the same privilege level: the program runs on, and the log
# says that exact replay ends at the first of them.
# EXPECT end unsupported far_return
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
