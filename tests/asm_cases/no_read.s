# lea, prefetch, nop [m], clflush and a masked-out access do not read; the load afterwards is the first.
# cmov reads even where it does not move.
# EXPECT load cmov_not_taken 0 02 00*7
# EXPECT load cmov_taken 0 03 00*7
# EXPECT load at_last 0 01 00*7
.include "case.inc"
_start:
    lea rax, [a]
    lea rbx, [rax + rax*4 + 17]
    prefetchnta [a]
    prefetcht0 [a]
    prefetchw [a]
    nop qword ptr [a]
    nop dword ptr [0]
    clflush [a]
    mfence
    lfence
    sfence
    mov ecx, 55
    cmp ecx, 55
cmov_not_taken:
    cmovne rcx, [b]
    expect rcx, 55
    cmp ecx, 55
cmov_taken:
    cmove rcx, [c]
    expect rcx, 3
    # The 32-bit form clears the upper half even where it does not move.
    mov rcx, -1
    cmp rcx, rcx
cmov32:
    cmovne ecx, [b]
    expect rcx, 0xffffffff
at_last:
    mov rax, [a]
    finish
.data
a: .quad 1
.balign 64
b: .quad 2
.balign 64
c: .quad 3
