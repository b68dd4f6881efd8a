//! The same rules written down as plainly as possible: linear scans, no indices, nothing kept that can be recounted.

use std::collections::BTreeSet;

use super::super::AllocatorSettings;

const MIB: u64 = 1 << 20;

/// What the reference counts; compared after every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) reserved: u64,
    pub(super) allocated: u64,
    pub(super) peak_reserved: u64,
    pub(super) peak_allocated: u64,
    pub(super) retries: u64,
}

/// The allocator, by scanning.
pub(super) struct Reference {
    settings: AllocatorSettings,
    pub(super) counts: Counts,
    segments: Vec<Segment>,
    ranges: [Range; 2],
    next_id: u64,
}

/// A segment in order of creation.
struct Segment {
    pool: usize,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    size: u64,
    user: Option<u64>,
}

/// An expandable range: which pages have memory, and what is alive on them.
struct Range {
    page: u64,
    mapped: BTreeSet<u64>,
    live: Vec<Live>,
}

#[derive(Clone, Copy)]
struct Live {
    start: u64,
    size: u64,
    id: u64,
}

impl Reference {
    pub(super) fn new(settings: AllocatorSettings) -> Self {
        let range = |page| Range { page, mapped: BTreeSet::new(), live: Vec::new() };
        Self {
            settings,
            counts: Counts::default(),
            segments: Vec::new(),
            ranges: [range(2 * MIB), range(20 * MIB)],
            next_id: 0,
        }
    }

    /// An id to free it by, or none when out of memory.
    pub(super) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.div_ceil(512) * 512;
        let pool = usize::from(size > MIB);
        let id = self.next_id;
        self.next_id += 1;
        let size = if self.settings.expandable_segments {
            let start = self.find_in_range(pool, size)?;
            self.ranges[pool].live.push(Live { start, size, id });
            self.ranges[pool].live.sort_by_key(|live| live.start);
            size
        } else {
            let (segment, piece) = self.find_piece(pool, size)?;
            self.hand_out(segment, piece, size, id)
        };
        self.counts.allocated += size;
        self.counts.peak_allocated = self.counts.peak_allocated.max(self.counts.allocated);
        Some(id)
    }

    pub(super) fn free(&mut self, id: u64) {
        for range in &mut self.ranges {
            self.counts.allocated -= range.live.iter().filter(|live| live.id == id).map(|live| live.size).sum::<u64>();
            range.live.retain(|live| live.id != id);
        }
        for segment in &mut self.segments {
            let mut merged: Vec<Piece> = Vec::new();
            for &piece in &segment.pieces {
                let mut piece = piece;
                if piece.user == Some(id) {
                    self.counts.allocated -= piece.size;
                    piece.user = None;
                }
                match merged.last_mut() {
                    Some(last) if last.user.is_none() && piece.user.is_none() => last.size += piece.size,
                    _ => merged.push(piece),
                }
            }
            segment.pieces = merged;
        }
    }

    pub(super) fn empty_cache(&mut self) {
        self.segments.retain(|segment| segment.pieces.iter().any(|piece| piece.user.is_some()));
        for range in &mut self.ranges {
            let (page, live) = (range.page, &range.live);
            range.mapped.retain(|&number| {
                live.iter().any(|live| live.start < (number + 1) * page && live.start + live.size > number * page)
            });
        }
        self.recount();
    }

    /// Sizes of free blocks of a pool, ascending.
    pub(super) fn free_sizes(&self, pool: usize) -> Vec<u64> {
        let mut sizes: Vec<u64> = if self.settings.expandable_segments {
            self.ranges[pool].free_runs().iter().map(|run| run.1).collect()
        } else {
            let segments = self.segments.iter().filter(|segment| segment.pool == pool);
            let pieces = segments.flat_map(|segment| &segment.pieces);
            pieces.filter(|piece| piece.user.is_none()).map(|piece| piece.size).collect()
        };
        sizes.sort_unstable();
        sizes
    }

    fn recount(&mut self) {
        let segments: u64 = self.segments.iter().flat_map(|segment| &segment.pieces).map(|piece| piece.size).sum();
        let pages: u64 = self.ranges.iter().map(|range| range.mapped.len() as u64 * range.page).sum();
        self.counts.reserved = segments + pages;
        self.counts.peak_reserved = self.counts.peak_reserved.max(self.counts.reserved);
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.settings.capacity_bytes.is_none_or(|capacity| self.counts.reserved + bytes <= capacity)
    }

    fn max_split(&self) -> u64 {
        self.settings.max_split_size_bytes.unwrap_or(u64::MAX)
    }

    fn is_usable(&self, size: u64, block: u64) -> bool {
        let max_split = self.max_split();
        if size < max_split { block < max_split } else { block < size + 20 * MIB }
    }

    fn find_piece(&mut self, pool: usize, size: u64) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize, u64)> = None;
        for (s, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.pool == pool) {
            for (p, piece) in segment.pieces.iter().enumerate() {
                let is_better = best.is_none_or(|(_, _, best)| piece.size < best);
                if piece.user.is_none() && piece.size >= size && is_better {
                    best = Some((s, p, piece.size));
                }
            }
        }
        if let Some((s, p, block)) = best
            && self.is_usable(size, block)
        {
            return Some((s, p));
        }
        let bytes = match size {
            _ if size <= MIB => 2 * MIB,
            _ if size < 10 * MIB => 20 * MIB,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        if !self.has_room(bytes) {
            let is_released = self.release_oversize(pool, size);
            if !is_released || !self.has_room(bytes) {
                self.counts.retries += 1;
                self.empty_cache();
            }
        }
        if !self.has_room(bytes) {
            return None;
        }
        self.segments.push(Segment { pool, pieces: vec![Piece { size: bytes, user: None }] });
        self.recount();
        Some((self.segments.len() - 1, 0))
    }

    fn hand_out(&mut self, segment: usize, piece: usize, size: u64, id: u64) -> u64 {
        let max_split = self.max_split();
        let segment = &mut self.segments[segment];
        let rest = segment.pieces[piece].size - size;
        segment.pieces[piece].user = Some(id);
        if (segment.pool == 0 && rest >= 512) || (segment.pool == 1 && rest > MIB && size < max_split) {
            segment.pieces[piece].size = size;
            segment.pieces.insert(piece + 1, Piece { size: rest, user: None });
        }
        segment.pieces[piece].size
    }

    fn release_oversize(&mut self, pool: usize, size: u64) -> bool {
        let Some(max_split) = self.settings.max_split_size_bytes else { return false };
        let wanted = size.max(max_split);
        let mut oversize: Vec<(u64, usize)> = Vec::new();
        for (s, segment) in self.segments.iter().enumerate() {
            let is_free = segment.pieces.len() == 1 && segment.pieces[0].user.is_none();
            if segment.pool == pool && is_free && segment.pieces[0].size >= max_split {
                oversize.push((segment.pieces[0].size, s));
            }
        }
        oversize.sort_unstable();
        let mut gone: Vec<(u64, usize)> = Vec::new();
        if let Some(&enough) = oversize.iter().find(|block| block.0 >= wanted) {
            gone.push(enough);
        } else {
            while gone.iter().map(|block| block.0).sum::<u64>() < wanted {
                let Some(largest) = oversize.pop() else { break };
                gone.push(largest);
            }
        }
        let mut index = 0;
        self.segments.retain(|_| {
            index += 1;
            gone.iter().all(|block| block.1 != index - 1)
        });
        self.recount();
        gone.iter().map(|block| block.0).sum::<u64>() >= wanted
    }

    fn find_in_range(&mut self, pool: usize, size: u64) -> Option<u64> {
        let range = &self.ranges[pool];
        let mut runs: Vec<(u64, u64)> = range.free_runs().into_iter().filter(|run| run.1 >= size).collect();
        runs.sort_by_key(|&(start, length)| (length, start));
        let expandable = |run: &(u64, u64)| run.1.saturating_add(range.gap_at(run.0 + run.1));
        let mut best = 0;
        while best + 1 < runs.len() && expandable(&runs[best + 1]) < expandable(&runs[best]) {
            best += 1;
        }
        if let Some(&(start, length)) = runs.get(best)
            && self.is_usable(size, length)
        {
            return Some(start);
        }
        self.map_for(pool, size).or_else(|| {
            self.counts.retries += 1;
            self.empty_cache();
            self.map_for(pool, size)
        })
    }

    fn map_for(&mut self, pool: usize, size: u64) -> Option<u64> {
        let range = &self.ranges[pool];
        let page = range.page;
        let start = range.lowest_room(size);
        let mut at = start;
        while at < start + size {
            let gap = self.ranges[pool].gap_at(at);
            if gap == 0 {
                // Free memory up to the next page boundary.
                at = (at / page + 1) * page;
                continue;
            }
            let pages = gap.min(start + size - at).div_ceil(page);
            if !self.has_room(pages * page) {
                return None;
            }
            self.ranges[pool].mapped.extend(at / page..at / page + pages);
            self.recount();
            at += pages * page;
        }
        Some(start)
    }
}

impl Range {
    /// Free memory as (start, length), ascending.
    fn free_runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &number in &self.mapped {
            let (mut at, end) = (number * self.page, (number + 1) * self.page);
            while at < end {
                if let Some(live) = self.live.iter().find(|live| live.start <= at && at < live.start + live.size) {
                    at = end.min(live.start + live.size);
                    continue;
                }
                let next = self.live.iter().map(|live| live.start).filter(|&start| start > at).min();
                let stop = next.map_or(end, |start| start.min(end));
                match runs.last_mut() {
                    Some(last) if last.0 + last.1 == at => last.1 += stop - at,
                    _ => runs.push((at, stop - at)),
                }
                at = stop;
            }
        }
        runs
    }

    /// Bytes without memory from an address on: none, or up to the next page in use.
    fn gap_at(&self, at: u64) -> u64 {
        if !at.is_multiple_of(self.page) || self.mapped.contains(&(at / self.page)) {
            return 0;
        }
        self.mapped.range(at / self.page..).next().map_or(u64::MAX, |next| next * self.page - at)
    }

    /// The lowest start of free memory and holes that hold a size, with at least one hole among them.
    fn lowest_room(&self, size: u64) -> u64 {
        let runs = self.free_runs();
        let pages = self.mapped.last().map_or(0, |last| last + 1);
        let gaps = (0..=pages).filter(|&number| {
            let is_first = number == 0 || self.mapped.contains(&(number - 1));
            is_first && !self.mapped.contains(&number)
        });
        for number in gaps {
            let gap = number * self.page;
            let start = runs.iter().find(|run| run.0 + run.1 == gap).map_or(gap, |run| run.0);
            let next = self.live.iter().map(|live| live.start).filter(|&live| live >= start).min();
            if next.is_none_or(|next| next - start >= size) {
                return start;
            }
        }
        unreachable!("the range is endless")
    }
}
