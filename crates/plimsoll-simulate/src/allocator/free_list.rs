//! The free blocks of a pool, in the order in which they are tried.

/// A free block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeBlock {
    pub(super) size: u64,
    pub(super) address: u64,
    pub(super) block: u32,
}

impl FreeBlock {
    /// The order of the list, by size and then address, as one number: it compares without branches.
    const fn key(&self) -> u128 {
        (self.size as u128) << 64 | self.address as u128
    }
}

/// A sorted vector. A training step leaves tens to hundreds of free blocks, and moving those is two to three times
/// faster than a `BTreeSet`; from a few thousand on it is the other way round.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeList(Vec<FreeBlock>);

impl FreeList {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, at: usize) -> FreeBlock {
        self.0[at]
    }

    pub(super) fn as_slice(&self) -> &[FreeBlock] {
        &self.0
    }

    pub(super) fn largest(&self) -> Option<u64> {
        self.0.last().map(|block| block.size)
    }

    /// The smallest block of at least that size, the one at the lowest address among equals.
    pub(super) fn first_of_size(&self, size: u64) -> Option<usize> {
        let at = self.0.partition_point(|block| block.size < size);
        (at < self.0.len()).then_some(at)
    }

    /// Where a block of the list stands.
    pub(super) fn position(&self, entry: FreeBlock) -> usize {
        let at = self.0.partition_point(|block| block.key() < entry.key());
        debug_assert!(self.0[at] == entry, "every free block is listed");
        at
    }

    pub(super) fn insert(&mut self, entry: FreeBlock) {
        let at = self.0.partition_point(|block| block.key() < entry.key());
        self.0.insert(at, entry);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.0.remove(at);
    }

    /// Puts a smaller block in place of one.
    pub(super) fn shrink(&mut self, at: usize, entry: FreeBlock) {
        let to = self.0[..at].partition_point(|block| block.key() < entry.key());
        self.0.copy_within(to..at, to + 1);
        self.0[to] = entry;
    }

    /// Puts a larger block in place of one.
    pub(super) fn grow(&mut self, at: usize, entry: FreeBlock) {
        let to = at + self.0[at + 1..].partition_point(|block| block.key() < entry.key());
        self.0.copy_within(at + 1..=to, at);
        self.0[to] = entry;
    }

    /// Keeps the blocks of which `is_kept` says so.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&FreeBlock) -> bool) {
        self.0.retain(is_kept);
    }
}
