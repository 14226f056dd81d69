//! The environment variables by which whoever starts a program speaks to DynamoRIO and to the logger in it.

/// With this their names begin. The logger hides them from the program.
pub const PREFIX: &[u8] = b"DYNAMORIO_";
/// Absolute path of the program to run.
pub const PROGRAM: &str = "DYNAMORIO_EXE_PATH";
/// Whether to run it under DynamoRIO: always `1`.
pub const RUN_UNDER: &str = "DYNAMORIO_RUNUNDER";
/// DynamoRIO's options, and in them the logger's.
pub const OPTIONS: &str = "DYNAMORIO_OPTIONS";
/// How the program came to be, for the logger alone: JSON as in `process.json`. Absent for the first program.
pub const ORIGIN: &str = "DYNAMORIO_BUGNET_ORIGIN";
/// The limits that the program would have natively of what the recorder needs more of, so that the kernel has raised ones: of
/// descriptors, address space and data. Each has a soft and a hard one, with a colon between. For the logger alone.
pub const LIMITS: &str = "DYNAMORIO_BUGNET_LIMITS";
/// Which descriptors are the recording's standard output and error, for the logger alone. Absent for the first program.
pub const STREAMS: &str = "DYNAMORIO_BUGNET_STREAMS";
/// The name that the kernel would have given the process: that of the file, a script perhaps, as it was named. For the logger alone.
pub const NAME: &str = "DYNAMORIO_BUGNET_NAME";
