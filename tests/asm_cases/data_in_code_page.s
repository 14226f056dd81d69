# Data on a page whose code has been executed is in the code picture: loading it needs no record.
.include "case.inc"
_start:
    mov rax, [constant]
    expect rax, 0x1122334455667788
    mov al, [failed]
    cmp al, 0xbf
    jne failed
    finish
constant: .quad 0x1122334455667788
