//! How requests are rounded and which pool serves them.

const MIB: u64 = 1 << 20;

/// Sizes are rounded up to this.
pub(super) const MIN_BLOCK: u64 = 512;
/// Largest request that the small pool serves.
pub(super) const SMALL_LIMIT: u64 = MIB;
/// Segment of the small pool, and page of its expandable range.
const SMALL_SEGMENT: u64 = 2 * MIB;
/// Segment of the large pool for requests below [`OWN_SEGMENT`], and page of its expandable range.
pub(super) const LARGE_SEGMENT: u64 = 20 * MIB;
/// Requests from here on get a segment of their own size.
const OWN_SEGMENT: u64 = 10 * MIB;
/// Own segments are rounded up to this.
const OWN_ROUNDING: u64 = 2 * MIB;

/// Which free list a block belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    Small,
    Large,
}

impl Pool {
    pub(super) const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// Bytes that an expandable range grows by.
    pub(super) const fn page(self) -> u64 {
        match self {
            Self::Small => SMALL_SEGMENT,
            Self::Large => LARGE_SEGMENT,
        }
    }
}

/// A request after rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) size: u64,
    pub(super) pool: Pool,
    /// Bytes of the segment that would be opened for it.
    pub(super) segment: u64,
}

impl Request {
    /// None for sizes that no address space holds.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let size = bytes.checked_next_multiple_of(MIN_BLOCK)?;
        let (pool, segment) = if size <= SMALL_LIMIT {
            (Pool::Small, SMALL_SEGMENT)
        } else if size < OWN_SEGMENT {
            (Pool::Large, LARGE_SEGMENT)
        } else {
            (Pool::Large, size.checked_next_multiple_of(OWN_ROUNDING)?)
        };
        Some(Self { size, pool, segment })
    }
}
