//! What a timing filter is made of. A [`TimingSpec`] that exists can be built: every combination that cannot work is
//! refused here, with the nearest that can.

use thiserror::Error;

/// The most cells one item may have.
pub const CELLS_MOST: u8 = 16;
/// Words of 8 bytes in one cache line.
pub(super) const LINE_WORDS: u64 = 8;
/// One cache line.
pub const LINE_BYTES: u64 = 8 * LINE_WORDS;
/// No filter is larger than this: positions stay far from the edge of u64.
const BYTES_MOST: u64 = 1 << 40;
/// No window is longer than this, in milliseconds or arrivals: clocks stay far from the edge of i64.
const WINDOW_MOST: u64 = 1 << 60;
/// Ticks of which a sweep may take its time, when the caller has no wish of his own.
const SPARE_DEFAULT: u8 = 1;

/// What moves the filter's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// Event time: a block is `tick_ms` long. Events may be up to `lateness_ms` older than the clock.
    Time { window_ms: u64, lateness_ms: u64, tick_ms: u64 },
    /// Arrivals: a block is `block` arrivals long.
    Count { window: u64, block: u64 },
}

impl Drive {
    /// Block length, in milliseconds or arrivals.
    pub fn block(&self) -> u64 {
        match *self {
            Self::Time { tick_ms, .. } => tick_ms,
            Self::Count { block, .. } => block,
        }
    }

    /// The largest window that may be asked for, in milliseconds or arrivals.
    pub fn window(&self) -> u64 {
        match *self {
            Self::Time { window_ms, .. } => window_ms,
            Self::Count { window, .. } => window,
        }
    }

    /// How long a timer must be remembered.
    fn memory(&self) -> u64 {
        match *self {
            Self::Time { window_ms, lateness_ms, .. } => window_ms.saturating_add(lateness_ms),
            Self::Count { window, .. } => window,
        }
    }

    fn with_block(self, length: u64) -> Self {
        match self {
            Self::Time { window_ms, lateness_ms, .. } => Self::Time { window_ms, lateness_ms, tick_ms: length },
            Self::Count { window, .. } => Self::Count { window, block: length },
        }
    }
}

/// Where the cells of one item lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All in one of so many 64-byte lines: one cache miss an item.
    Lines(u64),
    /// Anywhere among so many cells, as in the paper: one cache miss a cell.
    Spread(u64),
}

/// Why a timing filter cannot be built, and what could be.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum TimingError {
    #[error("an item needs 1 to {CELLS_MOST} cells, not {given}; the nearest is {nearest}")]
    CellsPerItem { given: u8, nearest: u8 },
    #[error("a timer has 3 to 8 bits, not {given}; the nearest is {nearest}")]
    TimerBits { given: u8, nearest: u8 },
    #[error("a block of {block} does not fit into a window of {window}; the longest block is {nearest}")]
    WindowBelowBlock { window: u64, block: u64, nearest: u64 },
    #[error("a window (with its lateness) of {given} is too long; the longest is {nearest}")]
    WindowTooLong { given: u64, nearest: u64 },
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    #[error("{blocks} blocks do not fit into {bits}-bit timers (at most {most}); the shortest block is {nearest}")]
    TooManyBlocks { blocks: u64, bits: u8, most: u64, nearest: u64 },
    #[error("{spare} spare ticks do not fit into {bits}-bit timers beside {blocks} blocks; at most {nearest} do")]
    TooMuchSpare { spare: u8, bits: u8, blocks: u64, nearest: u8 },
    #[error("{given} bytes of memory are too few; the least is {nearest}")]
    MemoryTooSmall { given: u64, nearest: u64 },
    #[error("{given} bytes of memory are too many; the most is {nearest}")]
    MemoryTooLarge { given: u64, nearest: u64 },
    #[error("the system has no {bytes} bytes of memory: {why}")]
    NoMemory { bytes: u64, why: String },
}

/// A timing filter that can be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimingSpec {
    drive: Drive,
    layout: Layout,
    timer_bits: u8,
    cells_per_item: u8,
    spare: u8,
    /// Derived: asked for with every observation.
    oldest_live_age: u8,
}

impl TimingSpec {
    /// The sweep gets all the ticks that the timers leave over; see [`TimingSpec::with_spare`].
    pub fn new(drive: Drive, layout: Layout, timer_bits: u8, cells_per_item: u8) -> Result<Self, TimingError> {
        if !(3..=8).contains(&timer_bits) {
            return Err(TimingError::TimerBits { given: timer_bits, nearest: timer_bits.clamp(3, 8) });
        }
        if !(1..=CELLS_MOST).contains(&cells_per_item) {
            let nearest = cells_per_item.clamp(1, CELLS_MOST);
            return Err(TimingError::CellsPerItem { given: cells_per_item, nearest });
        }
        check_blocks(drive, timer_bits)?;
        // Checked: at most 2^8 - 3 blocks.
        let oldest_live_age = drive.memory().div_ceil(drive.block()) as u8;
        let spec = Self { drive, layout, timer_bits, cells_per_item, spare: 0, oldest_live_age };
        check_memory(spec.layout, spec.cells_per_word())?;
        Ok(Self { spare: spec.spare_most(), ..spec })
    }

    /// Nibbles in lines, four cells an item, and the finest blocks they allow: the shape to begin with.
    pub fn time(window_ms: u64, lateness_ms: u64, memory_bytes: u64) -> Result<Self, TimingError> {
        Self::for_memory(Drive::Time { window_ms, lateness_ms, tick_ms: 1 }, memory_bytes)
    }

    /// As [`TimingSpec::time`], for a window of so many arrivals.
    pub fn count(window: u64, memory_bytes: u64) -> Result<Self, TimingError> {
        Self::for_memory(Drive::Count { window, block: 1 }, memory_bytes)
    }

    fn for_memory(drive: Drive, memory_bytes: u64) -> Result<Self, TimingError> {
        if memory_bytes < LINE_BYTES {
            return Err(TimingError::MemoryTooSmall { given: memory_bytes, nearest: LINE_BYTES });
        }
        let blocks = blocks_most(4) - u64::from(SPARE_DEFAULT);
        let drive = drive.with_block(drive.memory().div_ceil(blocks).max(1).min(drive.window().max(1)));
        Self::new(drive, Layout::Lines(memory_bytes / LINE_BYTES), 4, 4)
    }

    /// A sweep visits every cell once in `spare + 1` ticks; fewer spare ticks sweep sooner.
    pub fn with_spare(self, spare: u8) -> Result<Self, TimingError> {
        let nearest = self.spare_most();
        if spare > nearest {
            let blocks = u64::from(self.oldest_live_age());
            return Err(TimingError::TooMuchSpare { spare, bits: self.timer_bits, blocks, nearest });
        }
        Ok(Self { spare, ..self })
    }

    pub fn drive(&self) -> Drive {
        self.drive
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub fn timer_bits(&self) -> u8 {
        self.timer_bits
    }

    /// k: how many cells are drawn for an item; some may coincide.
    pub fn cells_per_item(&self) -> u8 {
        self.cells_per_item
    }

    /// P: the ticks a dead timer may wait for the sweep.
    pub fn spare(&self) -> u8 {
        self.spare
    }

    /// The oldest age, in blocks, at which a timer may still matter to some question.
    pub fn oldest_live_age(&self) -> u8 {
        self.oldest_live_age
    }

    /// T_Ω + 1: how many different stamps are in use.
    pub(super) fn stamps(&self) -> u8 {
        self.oldest_live_age() + self.spare + 2
    }

    pub(super) fn cells_per_word(&self) -> u64 {
        64 / u64::from(self.timer_bits)
    }

    /// Cells among which an item's cells are drawn, once its place is known.
    pub fn cells_per_line(&self) -> u64 {
        LINE_WORDS * self.cells_per_word()
    }

    /// m: all cells.
    pub fn cells(&self) -> u64 {
        match self.layout {
            Layout::Lines(lines) => lines * self.cells_per_line(),
            Layout::Spread(cells) => cells,
        }
    }

    pub(super) fn words(&self) -> u64 {
        self.cells().div_ceil(self.cells_per_word())
    }

    /// Bytes of the timers.
    pub fn memory_bytes(&self) -> u64 {
        8 * self.words()
    }

    fn spare_most(&self) -> u8 {
        // 2^bits - 2 = T_Ω >= oldest live age + 1 + spare; checked at construction to be at least 0.
        (blocks_most(self.timer_bits) - u64::from(self.oldest_live_age())) as u8
    }
}

/// Live blocks that timers of `bits` bits can tell apart: T_Ω <= 2^bits - 2, of which one is the tick being swept.
pub fn blocks_most(bits: u8) -> u64 {
    (1 << bits) - 3
}

fn check_blocks(drive: Drive, bits: u8) -> Result<(), TimingError> {
    let (block, window, memory) = (drive.block(), drive.window(), drive.memory());
    if window == 0 {
        return Err(TimingError::Zero("the window"));
    }
    if block == 0 {
        return Err(TimingError::Zero("the block"));
    }
    if memory > WINDOW_MOST {
        return Err(TimingError::WindowTooLong { given: memory, nearest: WINDOW_MOST });
    }
    if block > window {
        return Err(TimingError::WindowBelowBlock { window, block, nearest: window });
    }
    let (blocks, most) = (memory.div_ceil(block), blocks_most(bits));
    if blocks > most {
        return Err(TimingError::TooManyBlocks { blocks, bits, most, nearest: memory.div_ceil(most).min(window) });
    }
    Ok(())
}

fn check_memory(layout: Layout, cells_per_word: u64) -> Result<(), TimingError> {
    let (bytes, least) = match layout {
        Layout::Lines(lines) => (lines.saturating_mul(LINE_BYTES), LINE_BYTES),
        Layout::Spread(cells) => (cells.div_ceil(cells_per_word).saturating_mul(8), 8),
    };
    if bytes < least {
        return Err(TimingError::MemoryTooSmall { given: bytes, nearest: least });
    }
    if bytes > BYTES_MOST {
        return Err(TimingError::MemoryTooLarge { given: bytes, nearest: BYTES_MOST });
    }
    Ok(())
}
