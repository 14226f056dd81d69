# Instructions that cross the end of a page, of which the second changes, appears late, or is the last one mapped; code
# at the end of a gigabyte.
.include "code/print.inc"
    .text
map:
    # rdi: address, rsi: length
    mov edx, 7
    mov r10d, 0x100032
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    cmp rax, rdi
    jne failed
    ret
_start:
    xor ebx, ebx
    # The last page below 9 GiB, and nothing behind it: a function at its very end.
    movabs rdi, 0x23ffff000
    mov esi, 4096
    call map
    movabs r12, 0x23ffffff7
    mov byte ptr [r12], 0xb8
    mov dword ptr [r12 + 1], 0x1234
    mov dword ptr [r12 + 5], 0x9090c390
    call r12
    add ebx, eax
    # Now a page behind it: the function moves onwards byte by byte.
    movabs rdi, 0x240000000
    mov esi, 4096
    call map
    mov r13d, 14
more:
    mov byte ptr [r12], 0xb8
    mov dword ptr [r12 + 1], r13d
    mov dword ptr [r12 + 5], 0x9090c390
    call r12
    lea ebx, [rbx + 2 * rbx]
    add ebx, eax
    # Only the part behind the border changes.
    movabs rax, 0x240000000
    cmp r12, rax
    jae whole
    lea rcx, [r12 + 5]
    cmp rcx, rax
    jbe whole
    mov byte ptr [r12 + 4], 7
    call r12
    add ebx, eax
whole:
    inc r12
    dec r13d
    jnz more
    print ebx
failed:
    ud2
