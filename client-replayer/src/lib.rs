//! The DynamoRIO client that replays a checkpoint interval.
