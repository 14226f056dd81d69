# ret, ret n, pop, popf and leave read a stack that the thread never wrote: each is a first load.
# EXPECT load ret_plain 0 q:after_ret
# EXPECT load ret_bytes 0 q:after_ret_bytes
# EXPECT load pop_reg 0 01 02 03 04 05 06 07 08
# EXPECT load pop_flags 0 d5 08 00*6
# EXPECT load leave_frame 0 99 88 77 66 55 44 33 22
# EXPECT load pop_after_leave 0 42 00*7
.include "case.inc"
_start:
    mov rsp, offset stack
ret_plain:
    ret
    jmp failed
after_ret:
ret_bytes:
    ret 16
    jmp failed
after_ret_bytes:
pop_reg:
    pop rax
    expect rax, 0x0807060504030201
pop_flags:
    popf
    jno failed
    jnc failed
    jnp failed
    mov rbp, offset frame
leave_frame:
    leave
    expect rbp, 0x2233445566778899
pop_after_leave:
    pop rbx
    expect rbx, 0x42
    finish
.data
stack:
    .quad after_ret
    .quad after_ret_bytes
    .quad 0x1111, 0x2222
    .quad 0x0807060504030201
    .quad 0x8d5
frame:
    .quad 0x2233445566778899
    .quad 0x42
