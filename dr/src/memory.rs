//! `memcpy` for the clients, whose calls would lead to DynamoRIO's own, which is not made for speed: a recorder copies a few
//! bytes at a time, and often.
//!
//! The symbols are hidden: nobody but the client that they are linked into finds them.

std::arch::global_asm!(
    ".pushsection .text.bugnet_memory,\"ax\",@progbits",
    ".globl memcpy",
    ".hidden memcpy",
    ".type memcpy,@function",
    ".p2align 5",
    "memcpy:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 4f",
    "cmp rdx, 32",
    "ja 2f",
    // 16 to 32: both ends, which overlap.
    "movdqu xmm0, [rsi]",
    "movdqu xmm1, [rsi + rdx - 16]",
    "movdqu [rdi], xmm0",
    "movdqu [rdi + rdx - 16], xmm1",
    "ret",
    "2:",
    "cmp rdx, 512",
    "ja 3f",
    // The end first into a register, then all before it.
    "movdqu xmm1, [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 16]",
    "22:",
    "movdqu xmm0, [rsi]",
    "movdqu [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, r8",
    "jb 22b",
    "movdqu [r8], xmm1",
    "ret",
    "3:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "4:",
    "cmp edx, 8",
    "jb 5f",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "5:",
    "cmp edx, 4",
    "jb 6f",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "6:",
    "test edx, edx",
    "jz 7f",
    // The first, the middle and the last byte, of which some may be one.
    "mov r10, rdx",
    "shr r10, 1",
    "movzx ecx, byte ptr [rsi]",
    "movzx r8d, byte ptr [rsi + r10]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], cl",
    "mov [rdi + r10], r8b",
    "mov [rdi + rdx - 1], r9b",
    "7:",
    "ret",
    ".size memcpy, . - memcpy",
    ".popsection",
);

#[cfg(test)]
mod tests {
    unsafe extern "C" {
        fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    }

    #[test]
    fn every_length_is_copied_and_nothing_beside_it() {
        let from: Vec<u8> = (0..2000_u32).map(|i| (i * 7 + 1) as u8).collect();
        for len in (0..600).chain([1000, 1999]) {
            for skew in 0..3.min(2000 - len) {
                let mut to = vec![0xee; 2016];
                // SAFETY: both have room for `len` bytes from there on.
                let returned = unsafe { memcpy(to.as_mut_ptr().add(8), from.as_ptr().add(skew), len) };
                assert_eq!(returned, to[8..].as_mut_ptr());
                assert_eq!(to[8..8 + len], from[skew..skew + len], "{len} bytes");
                assert!(to[..8].iter().chain(&to[8 + len..]).all(|byte| *byte == 0xee), "{len} bytes");
            }
        }
    }
}
