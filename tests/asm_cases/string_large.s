# A rep movs over more bytes than one record may hold, from memory that is not zero, is still one instruction.
# Every page of the source holds one byte that is not zero; the kernel wrote none of it, the data section did.
# EXPECT load copy 0 61 00*1048575 62
.include "case.inc"
_start:
    cld
    mov rsi, offset source
    mov rdi, offset sink
    mov ecx, 1048577
copy:
    rep movsb
    mov al, [sink + 1048576]
    cmp al, 0x62
    jne failed
    mov rsi, offset source
    mov rdi, offset sink
    mov ecx, 1048577
compare:
    repe cmpsb
    jne failed
    mov rdi, offset sink
    mov ecx, 1048577
    xor eax, eax
scan:
    repe scasb
    je failed
    finish
.data
source:
    .byte 0x61
    .skip 1048575
    .byte 0x62
.bss
.balign 4096
sink: .skip 1048640
