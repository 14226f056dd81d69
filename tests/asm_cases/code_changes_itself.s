# A loop that overwrites a later instruction of its own in every turn, without a branch in between.
.include "case.inc"
_start:
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
    # Copy the loop there: text is in the code picture, so that this needs no records.
    cld
    mov rsi, offset body
    mov ecx, offset body_end
    sub ecx, offset body
    rep movsb
    xor ebx, ebx
    mov ecx, 5
    movabs rax, 0x200000000
    call rax
    # 5 + 4 + 3 + 2 + 1
    expect rbx, 15
    finish
body:
    mov byte ptr [rip + immediate + 1], cl
immediate:
    mov eax, 0
    add ebx, eax
    dec ecx
    jnz body
    ret
body_end:
