//! Safe wrappers over DynamoRIO, and what each instruction reads and writes.
