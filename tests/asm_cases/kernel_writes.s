# The kernel writes memory behind the program's back: read() from a pipe into bytes that the thread knew, pipe()
# itself, and bytes that became zero.
# EXPECT load read_end 0 .. 00 00 00
# EXPECT load write_end 0 .. 00 00 00
# EXPECT load known 0 01 02 03 04 05 06 07 08
# EXPECT load changed 0 61 62 63 64 .. .. .. ..
# EXPECT load became_zero 0 !00 !00 !00 !00
# EXPECT load part 0 .. .. 6d ..
.include "case.inc"
_start:
    mov rdi, offset ends
    mov eax, 22
    syscall
    test rax, rax
    jnz failed
read_end:
    mov r12d, [ends]
write_end:
    mov r13d, [ends + 4]
known:
    mov rax, [buffer]
    # write(pipe, message, 4); read(pipe, buffer, 4)
    mov edi, r13d
    mov rsi, offset message
    mov edx, 4
    mov eax, 1
    syscall
    mov edi, r12d
    mov rsi, offset buffer
    mov edx, 4
    xor eax, eax
    syscall
changed:
    mov rax, [buffer]
    expect rax, 0x0807060564636261
    mov rax, [buffer]
    # Four zero bytes over bytes that are known and not zero.
    mov edi, r13d
    mov rsi, offset zeros
    mov edx, 4
    mov eax, 1
    syscall
    mov edi, r12d
    mov rsi, offset buffer
    mov edx, 4
    xor eax, eax
    syscall
became_zero:
    mov eax, [buffer]
    expect rax, 0
    # The kernel writes what is there already: no record.
    mov dword ptr [buffer], 0x64636261
    mov edi, r13d
    mov rsi, offset message
    mov edx, 4
    mov eax, 1
    syscall
    mov edi, r12d
    mov rsi, offset buffer
    mov edx, 4
    xor eax, eax
    syscall
    mov eax, [buffer]
    expect rax, 0x64636261
    # One byte in the middle of a known word.
    mov edi, r13d
    mov rsi, offset message + 12
    mov edx, 1
    mov eax, 1
    syscall
    mov edi, r12d
    mov rsi, offset buffer + 2
    mov edx, 1
    xor eax, eax
    syscall
part:
    mov eax, [buffer]
    expect rax, 0x646d6261
    finish
.data
message: .ascii "abcdefghijklmnop"
.balign 64
zeros: .skip 64
buffer: .quad 0x0807060504030201
.bss
.balign 4096
ends: .skip 64
