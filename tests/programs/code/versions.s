# One function, in versions that different ways of writing put there; it is run after each, and twice after some. The
# test of `bugnet code` knows the labels.
.include "code/print.inc"
.text
.globl page, store_whole, patch, patch_back, kernel_reads, string_move, patch_behind
.set page, 0x200000000
_start:
    mov rdi, page
    mov esi, 4096
    mov edx, 7
    mov r10d, 0x32
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    mov rbx, page
    xor r12d, r12d
    # 1: mov eax, 0x11; ret
    movabs rcx, 0x9090c300000011b8
store_whole:
    mov [rbx], rcx
    call run
    # Many stores to other places of the page, which change no version.
    mov ecx, 100
elsewhere:
    mov [rbx + 8 * rcx], rcx
    loop elsewhere
    call run
    # 2: another constant
patch:
    mov byte ptr [rbx + 1], 0x22
    call run
    # 3: as 1 again, after some time
    mov ecx, 100
wait:
    loop wait
patch_back:
    mov byte ptr [rbx + 1], 0x11
    call run
    call run
    # 4: a byte that the kernel writes
    sub rsp, 16
    mov rdi, rsp
    mov eax, 22
    syscall
    mov byte ptr [rsp + 8], 0x44
    mov edi, [rsp + 4]
    lea rsi, [rsp + 8]
    mov edx, 1
    mov eax, 1
    syscall
    mov edi, [rsp]
    lea rsi, [rbx + 2]
    mov edx, 1
    xor eax, eax
kernel_reads:
    syscall
    call run
    # 5: a string
    mov rsi, offset template
    mov rdi, rbx
    mov ecx, 6
string_move:
    rep movsb
    call run
    # Behind the end of the function: no other version.
patch_behind:
    mov byte ptr [rbx + 6], 0xc3
    call run
    # Never run.
    mov byte ptr [rbx + 1], 0x77
    print r12d
run:
    call rbx
    lea r12d, [r12 + 2 * r12]
    add r12d, eax
    ret
template:
    mov eax, 0x55
    ret
