# Every form of push and pop. What was pushed is the program's own store: popping it needs no record.
# EXPECT load push_m64 0 11 22 33 44 55 66 77 88
# EXPECT load push_m16 0 aa bb
.include "case.inc"
_start:
    mov rax, 0x1234
    push rax
    push 0x7f
    push 0x12345678
push_m64:
    push qword ptr [value]
push_m16:
    push word ptr [value16]
    pushw 0x55aa
    pushf
    popf
    pop cx
    pop word ptr [sink]
    pop rdx
    pop qword ptr [sink + 8]
    pop rbx
    pop rsi
    expect rdx, 0x8877665544332211
    expect rbx, 0x7f
    expect rsi, 0x1234
    # A pop that addresses by rsp computes the address after the increment.
    push 5
    push 6
    pop qword ptr [rsp]
    pop rax
    expect rax, 6
    # push rsp stores the old value, pop rsp keeps the loaded one.
    mov rbp, rsp
    push rsp
    pop rax
    cmp rax, rbp
    jne failed
    push rbp
    pop rsp
    mov rax, [sink + 8]
    expect rax, 0x12345678
    mov ax, [sink]
    finish
.data
value: .quad 0x8877665544332211
value16: .word 0xbbaa
.balign 64
.bss
.balign 4096
sink: .skip 64
