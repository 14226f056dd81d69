# Generated code at every alignment, run with alignment checks on: what it accesses itself is aligned. Some just-in-time
# compilers ask the processor in this way how old it is.
.include "code/print.inc"
    .text
_start:
    # mmap(0, 4096, READ|WRITE|EXEC, PRIVATE|ANONYMOUS)
    xor edi, edi
    mov esi, 4096
    mov edx, 7
    mov r10d, 0x22
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    mov rbx, rax
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
