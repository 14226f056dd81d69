# vpmaskmov and vmaskmov: the lanes that the mask leaves out may be unmapped. Where they are mapped they count as read,
# by a store as well, which keeps what was there.
# CPU avx2
# EXPECT load mask_a 0 ff ff ff ff 00*4 ff ff ff ff 00*20
# EXPECT load part 0 11 00 00 00 22 00 00 00 33 00 00 00 44 00 00 00 55 00 00 00 66 00 00 00 77 00 00 00 88 00 00 00
# EXPECT load mask_b 0 ff ff ff ff ff ff ff ff 00*24
# EXPECT load write_end 0 .. 00 00 00
# EXPECT load read_end 0 .. 00 00 00
# EXPECT load at_edge 0 aa*8 ..*24
# EXPECT load masked_store 0 99*32
.include "case.inc"
_start:
mask_a:
    vmovdqa ymm0, [mask1]
part:
    vpmaskmovd ymm1, ymm0, [data]
    vmovdqa ymm2, [data]
mask_b:
    vmovdqa ymm3, [mask2]
    # The last eight bytes of a page that nothing follows.
    movabs rdi, 0x200000000
    mov esi, 4096
    mov edx, 3
    mov r10d, 0x32
    mov r8, -1
    xor r9d, r9d
    mov eax, 9
    syscall
    movabs rbx, 0x200000000
    cmp rax, rbx
    jne failed
    # The kernel fills the end of the page through a pipe, so that the values are not the thread's own.
    mov rdi, offset ends
    mov eax, 22
    syscall
write_end:
    mov edi, [ends + 4]
    mov rsi, offset bytes
    mov edx, 8
    mov eax, 1
    syscall
read_end:
    mov edi, [ends]
    lea rsi, [rbx + 4088]
    mov edx, 8
    xor eax, eax
    syscall
at_edge:
    vmaskmovps ymm4, ymm3, [rbx + 4088]
    vmovq rax, xmm4
    expect rax, 0xaaaaaaaaaaaaaaaa
    # A masked store next to the page's end, and one into unknown bytes.
    vmaskmovps [rbx + 4088], ymm3, ymm1
masked_store:
    vpmaskmovq [other], ymm3, ymm1
    vmovdqa ymm5, [other]
    # No lane at all: address 0 is not touched.
    vpxor xmm6, xmm6, xmm6
    vpmaskmovd ymm7, ymm6, [0]
    vmaskmovpd [0], ymm6, ymm7
    vptest ymm7, ymm7
    jnz failed
    finish
.data
.balign 64
mask1: .long -1, 0, -1, 0, 0, 0, 0, 0
.balign 64
mask2: .long -1, -1, 0, 0, 0, 0, 0, 0
.balign 64
data: .long 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88
.balign 64
other: .fill 32, 1, 0x99
bytes: .fill 8, 1, 0xaa
.bss
.balign 4096
ends: .skip 64
