//! The error of a request that does not fit.

use std::fmt;

/// A request did not fit on the GPU, even after the cache was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes held from the GPU, after the cache was given back.
    pub reserved_bytes: u64,
    /// Bytes handed out.
    pub allocated_bytes: u64,
    /// Bytes that may be reserved; `u64::MAX` for an endless GPU.
    pub capacity_bytes: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "out of memory: {} bytes requested, {} of {} bytes reserved, {} allocated",
            self.requested_bytes, self.reserved_bytes, self.capacity_bytes, self.allocated_bytes
        )
    }
}

impl std::error::Error for OutOfMemory {}
