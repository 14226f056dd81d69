# call [m] and jmp [m] read their target; the return address that call stores is the thread's own.
# EXPECT load call_memory 0 q:function
# EXPECT load jump_memory 0 q:landed
# EXPECT load jump_table 0 q:case2
# EXPECT load call_table 0 q:function
.include "case.inc"
_start:
    xor ebx, ebx
call_memory:
    call [pointer]
jump_memory:
    jmp [target]
    jmp failed
landed:
    mov ecx, 2
jump_table:
    jmp [table + rcx*8]
case0:
case1:
    jmp failed
case2:
    mov ecx, 1
call_table:
    call [calls + rcx*8]
    call [pointer]
    expect rbx, 3
    finish
function:
    inc ebx
    ret
.data
pointer: .quad function
target: .quad landed
table: .quad case0, case1, case2
calls: .quad failed, function
