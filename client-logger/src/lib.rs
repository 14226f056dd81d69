//! The DynamoRIO client that records a program.
