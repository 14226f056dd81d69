//! What CPUID says, and programs do not see. Numbers only: the program that captures has no standard library, and includes this file.

/// Bits of CPUID that the program does not get to see: `(leaf, subleaf, register 0 to 3 for EAX to EDX, bits, why)`.
pub const HIDDEN: [(u32, u32, usize, u32, &str); 12] = [
    (1, 0, 2, 1 << 3, "MONITOR"),
    (7, 0, 1, 1 << 0, "FSGSBASE: the instructions crash DynamoRIO"),
    (7, 0, 1, 1 << 4 | 1 << 11, "transactional memory"),
    (7, 0, 1, 1 << 16 | 1 << 17 | 1 << 21 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 30 | 1 << 31, "AVX-512"),
    (
        7,
        0,
        2,
        1 << 1
            | 1 << 3
            | 1 << 4
            | 1 << 5
            | 1 << 6
            | 1 << 7
            | 1 << 11
            | 1 << 12
            | 1 << 14
            | 1 << 23
            | 1 << 27
            | 1 << 28
            | 1 << 29,
        "AVX-512, protection keys, shadow stacks, waiting, key locker, direct stores",
    ),
    (
        7,
        0,
        3,
        1 << 2
            | 1 << 3
            | 1 << 5
            | 1 << 8
            | 1 << 11
            | 1 << 13
            | 1 << 16
            | 1 << 20
            | 1 << 22
            | 1 << 23
            | 1 << 24
            | 1 << 25,
        "AVX-512, user interrupts, TSX, shadow stacks, AMX",
    ),
    (7, 1, 0, 1 << 5 | 1 << 21 | 1 << 22, "AVX-512, AMX"),
    (7, 1, 0, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 23, "newer than DynamoRIO's decoder"),
    (7, 1, 3, 1 << 4 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 19 | 1 << 21, "newer than DynamoRIO's decoder"),
    (7, 0, 1, 1 << 2, "SGX"),
    (0x8000_0001, 0, 2, 1 << 11 | 1 << 15 | 1 << 16 | 1 << 21, "XOP, LWP, FMA4, TBM"),
    (0x8000_0008, 0, 1, 1 << 0 | 1 << 4 | 1 << 8, "CLZERO, RDPRU, MCOMMIT: unknown to DynamoRIO's decoder"),
];

/// Bits above x86-64-v3, hidden at that level. Those of instructions that replay does not execute (RDRAND, RDPID,
/// XSAVEC ...) stay: any processor can replay them.
pub const ABOVE_V3: [(u32, u32, usize, u32); 5] = [
    // VAES, VPCLMULQDQ, GFNI
    (7, 0, 2, 1 << 8 | 1 << 9 | 1 << 10),
    // ADX, CLFLUSHOPT, CLWB, SHA
    (7, 0, 1, 1 << 19 | 1 << 23 | 1 << 24 | 1 << 29),
    // PCLMULQDQ, AES
    (1, 0, 2, 1 << 1 | 1 << 25),
    // SSE4A
    (0x8000_0001, 0, 2, 1 << 6),
    // AVX-VNNI, AVX-IFMA
    (7, 1, 0, 1 << 4 | 1 << 23),
];

/// Bits above x86-64-v2, hidden at that level: AVX, AVX2, BMI, FMA, F16C, MOVBE, LZCNT, XSAVE.
pub const ABOVE_V2: [(u32, u32, usize, u32); 3] = [
    (1, 0, 2, 1 << 12 | 1 << 22 | 1 << 26 | 1 << 27 | 1 << 28 | 1 << 29),
    (7, 0, 1, 1 << 3 | 1 << 5 | 1 << 8),
    (0x8000_0001, 0, 2, 1 << 5),
];
