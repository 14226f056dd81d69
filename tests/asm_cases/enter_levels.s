# enter with nesting levels 0, 1, 2 and 3: a level n above 1 copies n-1 frame pointers from the old frame, in one read.
# EXPECT load enter2 0 22*8
# EXPECT load enter3 0 33*8 44*8
.include "case.inc"
_start:
    mov rbp, offset frame
enter0:
    enter 32, 0
    leave
enter1:
    enter 16, 1
    leave
    mov rbp, offset frame
enter2:
    enter 16, 2
    mov rax, [rbp - 8]
    expect rax, 0x2222222222222222
    leave
    mov rbp, offset frame3
enter3:
    enter 8, 3
    mov rax, [rbp - 8]
    expect rax, 0x4444444444444444
    mov rax, [rbp - 16]
    expect rax, 0x3333333333333333
    leave
    cmp rbp, offset frame3
    jne failed
    finish
.data
    .quad 0x1111111111111111
    .quad 0x2222222222222222
frame:
    .quad 0
    .balign 64
    .quad 0x3333333333333333
    .quad 0x4444444444444444
frame3:
    .quad 0
