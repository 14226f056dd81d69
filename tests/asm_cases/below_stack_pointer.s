# Reads below the stack pointer and of the initial stack: the kernel put argc there, and nobody wrote below. The log has all of that at the start,
# so that no load need tell.
.include "case.inc"
_start:
    mov rax, [rsp - 64]
argument_count:
    mov rax, [rsp]
    expect rax, 1
    # A value left behind below the stack pointer by a push.
    push 0x77
    pop rax
    mov rax, [rsp - 8]
    expect rax, 0x77
    mov qword ptr [rsp - 128], 5
    mov rax, [rsp - 128]
    expect rax, 5
    call leave_something
returned:
    mov rax, [rsp - 8]
    cmp rax, offset returned
    jne failed
    finish
leave_something:
    ret
