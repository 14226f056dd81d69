# Code that the program writes into a page of its own and runs, twice with other code at the same address.
# EXPECT load template1 0 b8 11 00 00 00 c3 00 00
# EXPECT load template2 0 b8 22 00 00 00 c3 00 00
.include "case.inc"
_start:
    # mmap(0x200000000, 4096, READ|WRITE|EXEC, PRIVATE|ANONYMOUS|FIXED)
    movabs rdi, 0x200000000
    mov esi, 4096
    mov edx, 7
    mov r10d, 0x32
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    cmp rax, rdi
    jne failed
    mov rbx, rdi
template1:
    mov rcx, [first]
    mov [rbx], rcx
    call rbx
    expect rax, 0x11
template2:
    mov rcx, [second]
    mov [rbx], rcx
    call rbx
    expect rax, 0x22
    mov byte ptr [rbx + 1], 0x33
    call rbx
    expect rax, 0x33
    # Its own bytes are in the code picture and the thread's own stores.
    mov rcx, [rbx]
    # From a page of a file's text that becomes writable.
    mov rdi, offset patched
    and rdi, -4096
    mov esi, 4096
    mov edx, 7
    mov eax, 10
    syscall
    test eax, eax
    jnz failed
    call patched
    expect rax, 1
    mov byte ptr [patched + 1], 2
    call patched
    expect rax, 2
    finish
.balign 4096
patched:
    mov eax, 1
    ret
.data
first: .byte 0xb8, 0x11, 0, 0, 0, 0xc3, 0, 0
.balign 64
second: .byte 0xb8, 0x22, 0, 0, 0, 0xc3, 0, 0
