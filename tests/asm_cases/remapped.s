# Memory that is unmapped and mapped anew is zero again, which the replayer must be told; a file mapping and a
# mremap bring values that nobody stored there.
# EXPECT load anew 0 !00 !00 !00 !00 !00 !00 !00 !00
# EXPECT load after_mremap 0 44 33 22 11 00*4
.include "case.inc"
_start:
    # mmap(0x200000000, 8192, READ|WRITE, PRIVATE|ANONYMOUS|FIXED)
    call map
    mov rbx, 0x200000000
    movabs rax, 0x1122334455667788
    mov [rbx], rax
    mov rcx, [rbx]
    mov rdi, rbx
    mov esi, 8192
    mov eax, 11
    syscall
    test rax, rax
    jnz failed
    call map
anew:
    mov rax, [rbx]
    expect rax, 0
    # mremap(0x200000000, 8192, 8192, MAYMOVE|FIXED, 0x300000000)
    mov dword ptr [rbx + 4096], 0x11223344
    mov rdi, rbx
    mov esi, 8192
    mov edx, 8192
    mov r10d, 3
    movabs r8, 0x300000000
    mov eax, 25
    syscall
    cmp rax, r8
    jne failed
after_mremap:
    mov rax, [rax + 4096]
    expect rax, 0x11223344
    finish
map:
    movabs rdi, 0x200000000
    mov esi, 8192
    mov edx, 3
    mov r10d, 0x32
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    cmp rax, rdi
    jne failed
    ret
