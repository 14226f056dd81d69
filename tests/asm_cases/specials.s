# Results that no replay can compute: each instruction is a SPECIAL record and is not executed by replay.
# CPU rdtscp rdpid rdrand rdseed xsave
# EXPECT special tsc rdtsc
# EXPECT special tscp rdtscp
# EXPECT special cpuid0 cpuid
# EXPECT special cpuid7 cpuid
# EXPECT special xcr0 xgetbv
# EXPECT special pid rdpid
# EXPECT special random16 rdrand
# EXPECT special random64 rdrand
# EXPECT special seed64 rdseed
# EXPECT special seed32 rdseed
# EXPECT special tsc2 rdtsc
.include "case.inc"
_start:
tsc:
    rdtsc
    mov r8, rax
tscp:
    rdtscp
    mov r9, rcx
    xor eax, eax
cpuid0:
    cpuid
    mov r10, rbx
    mov eax, 7
    xor ecx, ecx
cpuid7:
    cpuid
    mov r11, rbx
    xor ecx, ecx
xcr0:
    xgetbv
    mov r12, rax
pid:
    rdpid r13
    mov rdx, -1
random16:
    rdrand dx
    # The carry flag is a result, too, and the other flags are cleared.
    setc cl
random64:
    rdrand r14
seed64:
    rdseed rsi
    setc ch
    mov rdi, -1
seed32:
    rdseed edi
tsc2:
    rdtsc
    # The upper half of a 32-bit result is zero.
    shr rdi, 32
    jnz failed
    shr rdx, 32
    jnz failed
    finish
