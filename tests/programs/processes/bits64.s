# Says hello, without a library.
.globl _start
.text
_start:
    mov $1, %eax
    mov $1, %edi
    lea text(%rip), %rsi
    mov $6, %edx
    syscall
    mov $60, %eax
    mov $5, %edi
    syscall
.data
text:
    .ascii "hello\n"
