# Generated code at every alignment, run with alignment checks on: what it accesses itself is aligned. Some just-in-time
# compilers ask the processor in this way how old it is.
.include "code/print.inc"
    .text
_start:
    map_code 4096
    mov r12d, 16
    xor r13d, r13d
again:
    lea rdi, [rbx + r12]
    mov rdx, rdi
    lea rsi, [rip + body]
    mov ecx, offset body_end - body
    rep movsb
    mov eax, r13d
    call rdx
    mov r13d, eax
    dec r12d
    jnz again
    print r13d

body:
    pushfq
    or dword ptr [rsp], 0x40000
    popfq
    lea ecx, [rax + 3]
    push rcx
    rol eax, 7
    jmp next
next:
    imul ecx, ecx, 5
    pop rdx
    xor eax, ecx
    add eax, edx
    pushfq
    and dword ptr [rsp], ~0x40000
    popfq
    ret
body_end:
