//! The lock table, its queues and timers, as a pure value.
