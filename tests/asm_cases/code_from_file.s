# Text pages that the thread loads before any of their code ran are ordinary memory; code that is copied to run
# elsewhere arrives through first loads. After the page's code has run, its bytes are in the code picture.
# EXPECT load before 0 b8 2a 00 00 00 c3 90 90
.include "case.inc"
_start:
before:
    mov rax, [far_function]
    call far_function
    expect rax, 42
    mov rax, [far_function]
    mov rax, [far_function + 64]
    expect rax, 0x5566
    finish
.balign 4096
far_function:
    mov eax, 42
    ret
    nop
    nop
.balign 64
    .quad 0x5566
.balign 4096
