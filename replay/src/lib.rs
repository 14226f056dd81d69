//! Opens, replays, seeks and inspects a recording.
