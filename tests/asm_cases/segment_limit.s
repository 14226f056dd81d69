# lsl with the kernel's per-processor segment gives the processor's number, as the vDSO's getcpu does where there is
# no rdpid: a replay on another processor would read another one.
# EXPECT special limit systemtable
.include "case.inc"
_start:
    mov eax, 0x7b
limit:
    lsl ecx, eax
    jnz failed
    mov [sink], ecx
    mov edx, [sink]
    finish
.bss
.balign 4096
sink: .skip 64
