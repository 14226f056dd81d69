//! Vector registers, restored from where a stub has saved them.

/// Assembly of a stub that restores YMM0 to YMM15 from the 16 values of 32 bytes each at `{ymm}` from the register `$base`; changes flags.
///
/// Restored by `vmovdqu` alone, upper halves count as in use, and many processors take long then wherever instructions of SSE and AVX
/// follow each other. If all of them are zero, the processor is told so (DynamoRIO does the same: `dr/patches/README.md`).
#[macro_export]
macro_rules! restore_ymm {
    ($base:literal) => {
        concat!(
            "vmovdqu ymm0, [",
            $base,
            " + {ymm}]\n",
            ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            "vorps ymm0, ymm0, [",
            $base,
            " + {ymm} + \\n*32]\n",
            ".endr\n",
            "vextractf128 xmm0, ymm0, 1\n",
            "vptest xmm0, xmm0\n",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            "vmovdqu ymm\\n, [",
            $base,
            " + {ymm} + \\n*32]\n",
            ".endr\n",
            "jnz 8f\n",
            "vzeroupper\n",
            "8:",
        )
    };
}

/// The same of XMM0 to XMM15, the lower 16 bytes of each, where the processor has no AVX; flags stay.
#[macro_export]
macro_rules! restore_xmm {
    ($base:literal) => {
        concat!(
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n",
            "movdqu xmm\\n, [",
            $base,
            " + {ymm} + \\n*32]\n",
            ".endr",
        )
    };
}
