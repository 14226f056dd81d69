# Jump tables in pages of code, that the program changes; and functions that are themselves read as data.
.include "code/print.inc"
    .section .wtext, "awx", @progbits
_start:
    xor ebx, ebx
    xor r12d, r12d
again:
    mov eax, r12d
    and eax, 3
    lea rcx, [rip + table]
    movsxd rdx, dword ptr [rcx + 4 * rax]
    add rdx, rcx
    jmp rdx
    .balign 4
table:
    .long case0 - table, case1 - table, case2 - table, case3 - table
case0:
    add ebx, 1
    jmp done
case1:
    lea ebx, [rbx + 2 * rbx]
    jmp done
case2:
    xor ebx, 0x33
    jmp done
case3:
    # Swaps two entries.
    mov esi, dword ptr [rcx]
    mov edi, dword ptr [rcx + 8]
    mov dword ptr [rcx], edi
    mov dword ptr [rcx + 8], esi
    # Bytes of code as data.
    add ebx, dword ptr [rip + case1]
done:
    inc r12d
    cmp r12d, 200
    jne again
    print ebx
