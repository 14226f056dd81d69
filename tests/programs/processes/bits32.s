# Says hello, as a 32-bit program.
.globl _start
.text
_start:
    movl $4, %eax
    movl $1, %ebx
    movl $text, %ecx
    movl $6, %edx
    int $0x80
    movl $1, %eax
    movl $5, %ebx
    int $0x80
.data
text:
    .ascii "hello\n"
