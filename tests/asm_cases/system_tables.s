# sgdt, sidt, smsw, sldt and str: the kernel emulates them where the processor forbids them (UMIP); either way the
# result is the machine's and no replay can compute it.
# CPU umip
# EXPECT special gdt systemtable
# EXPECT special idt systemtable
# EXPECT special msw systemtable
.include "case.inc"
_start:
gdt:
    sgdt [sink]
    mov rax, [sink]
idt:
    sidt [sink + 16]
    mov rax, [sink + 16]
    xor eax, eax
msw:
    smsw eax
    test eax, 1
    jz failed
    finish
.bss
.balign 4096
sink: .skip 64
