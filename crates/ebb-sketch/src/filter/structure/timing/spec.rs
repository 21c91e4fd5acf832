//! Parameters of a timing filter. A [`TimingSpec`] that exists can be built: every combination that cannot work is
//! rejected here, with the nearest that can.

use thiserror::Error;

use crate::filter::structure::layout::{CellLayout, LINE_BYTES, MAX_HASHES};

const LINE_WORDS: u64 = LINE_BYTES / 8;
/// Keeps positions far from the end of u64.
const MAX_BYTES: u64 = 1 << 40;
/// The longest window in milliseconds or arrivals; keeps clocks far from the end of i64.
const MAX_WINDOW: u64 = 1 << 60;
/// Spare ticks of the specs that choose their own block length.
const DEFAULT_SPARE: u8 = 1;

/// What advances the filter's clock, and how far back it remembers. Both are cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSpec {
    /// Event time.
    Time {
        /// The largest window that can be queried.
        window_ms: u64,
        /// How much older than the clock an event may be and still be answered correctly.
        lateness_ms: u64,
        /// Block length.
        tick_ms: u64,
    },
    /// Arrivals.
    Count {
        /// The largest window that can be queried.
        window: u64,
        /// Block length.
        block: u64,
    },
}

impl ClockSpec {
    /// Block length, in milliseconds or arrivals.
    pub fn block(&self) -> u64 {
        match *self {
            Self::Time { tick_ms, .. } => tick_ms,
            Self::Count { block, .. } => block,
        }
    }

    /// The largest window that can be queried, in milliseconds or arrivals.
    pub fn window(&self) -> u64 {
        match *self {
            Self::Time { window_ms, .. } => window_ms,
            Self::Count { window, .. } => window,
        }
    }

    /// How long a timer must be kept: the window plus the lateness.
    pub fn retention(&self) -> u64 {
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

/// Why a timing filter cannot be built, and the nearest parameters that can.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TimingError {
    #[error("an item needs 1 to {MAX_HASHES} cells, not {requested}; the nearest is {nearest}")]
    CellsPerItem { requested: u8, nearest: u8 },
    #[error("a timer has 3 to 8 bits, not {requested}; the nearest is {nearest}")]
    TimerBits { requested: u8, nearest: u8 },
    #[error("a block of {block} does not fit into a window of {window}; the longest block is {nearest}")]
    WindowBelowBlock { window: u64, block: u64, nearest: u64 },
    #[error("a window (with its lateness) of {requested} is too long; the longest is {nearest}")]
    WindowTooLong { requested: u64, nearest: u64 },
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    #[error("{blocks} blocks do not fit into {bits}-bit timers (at most {max}); the shortest block is {nearest}")]
    TooManyBlocks { blocks: u64, bits: u8, max: u64, nearest: u64 },
    #[error("{spare} spare ticks do not fit into {bits}-bit timers beside {blocks} blocks; at most {nearest} do")]
    TooMuchSpare { spare: u8, bits: u8, blocks: u64, nearest: u8 },
    #[error("{requested} bytes of memory are too few; the minimum is {nearest}")]
    MemoryTooSmall { requested: u64, nearest: u64 },
    #[error("{requested} bytes of memory are too many; the maximum is {nearest}")]
    MemoryTooLarge { requested: u64, nearest: u64 },
    #[error("cannot map {bytes} bytes of memory: {reason}")]
    NoMemory { bytes: u64, reason: String },
}

/// Valid parameters of a timing filter.
///
/// ```
/// use ebb_sketch::filter::structure::timing::TimingSpec;
///
/// let spec = TimingSpec::time(3_600_000, 60_000, 1 << 20).unwrap(); // one hour, a minute late, 1 MiB
/// assert_eq!((spec.timer_bits(), spec.cells_per_item(), spec.memory_bytes()), (4, 4, 1 << 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimingSpec {
    clock: ClockSpec,
    layout: CellLayout,
    timer_bits: u8,
    cells_per_item: u8,
    spare: u8,
    /// Derived; read on every observation.
    oldest_live_age: u8,
}

impl TimingSpec {
    /// The sweep gets every tick that the timers leave over; [`TimingSpec::with_spare`] reduces them.
    pub fn new(clock: ClockSpec, layout: CellLayout, timer_bits: u8, cells_per_item: u8) -> Result<Self, TimingError> {
        if !(3..=8).contains(&timer_bits) {
            return Err(TimingError::TimerBits { requested: timer_bits, nearest: timer_bits.clamp(3, 8) });
        }
        if !(1..=MAX_HASHES).contains(&cells_per_item) {
            let nearest = cells_per_item.clamp(1, MAX_HASHES);
            return Err(TimingError::CellsPerItem { requested: cells_per_item, nearest });
        }
        check_blocks(clock, timer_bits)?;
        // Checked above: at most 2^8 - 3 blocks.
        let oldest_live_age = clock.retention().div_ceil(clock.block()) as u8;
        let spec = Self { clock, layout, timer_bits, cells_per_item, spare: 0, oldest_live_age };
        check_memory(spec.layout, spec.cells_per_word())?;
        Ok(Self { spare: spec.max_spare(), ..spec })
    }

    /// The default shape for a window of event time: 4-bit timers in cache lines, four cells per item, and the shortest
    /// blocks that the timers allow.
    pub fn time(window_ms: u64, lateness_ms: u64, memory_bytes: u64) -> Result<Self, TimingError> {
        Self::for_memory(ClockSpec::Time { window_ms, lateness_ms, tick_ms: 1 }, memory_bytes)
    }

    /// The default shape for a window of arrivals.
    pub fn count(window: u64, memory_bytes: u64) -> Result<Self, TimingError> {
        Self::for_memory(ClockSpec::Count { window, block: 1 }, memory_bytes)
    }

    fn for_memory(clock: ClockSpec, memory_bytes: u64) -> Result<Self, TimingError> {
        if memory_bytes < LINE_BYTES {
            return Err(TimingError::MemoryTooSmall { requested: memory_bytes, nearest: LINE_BYTES });
        }
        let blocks = max_blocks(4) - u64::from(DEFAULT_SPARE);
        let clock = clock.with_block(clock.retention().div_ceil(blocks).max(1).min(clock.window().max(1)));
        Self::new(clock, CellLayout::Lines(memory_bytes / LINE_BYTES), 4, 4)
    }

    /// The sweep visits every cell once in `spare + 1` ticks; with fewer spare ticks it does more work per tick.
    pub fn with_spare(self, spare: u8) -> Result<Self, TimingError> {
        let nearest = self.max_spare();
        if spare > nearest {
            let blocks = u64::from(self.oldest_live_age());
            return Err(TimingError::TooMuchSpare { spare, bits: self.timer_bits, blocks, nearest });
        }
        Ok(Self { spare, ..self })
    }

    /// The clock and the window.
    pub fn clock(&self) -> ClockSpec {
        self.clock
    }

    /// Where the cells of an item lie.
    pub fn layout(&self) -> CellLayout {
        self.layout
    }

    /// Bits per timer, 3 to 8.
    pub fn timer_bits(&self) -> u8 {
        self.timer_bits
    }

    /// k: cells drawn per item; in a spread layout some may coincide.
    pub fn cells_per_item(&self) -> u8 {
        self.cells_per_item
    }

    /// P: ticks that a dead timer may wait for the sweep.
    pub fn spare(&self) -> u8 {
        self.spare
    }

    /// The greatest age, in blocks, at which a timer can still affect an answer.
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

    /// Cells per 64-byte line.
    pub fn cells_per_line(&self) -> u64 {
        LINE_WORDS * self.cells_per_word()
    }

    /// m: the total number of cells.
    pub fn cells(&self) -> u64 {
        match self.layout {
            CellLayout::Lines(lines) => lines * self.cells_per_line(),
            CellLayout::Spread(cells) => cells,
        }
    }

    /// Bytes of the timers.
    pub fn memory_bytes(&self) -> u64 {
        8 * self.cells().div_ceil(self.cells_per_word())
    }

    fn max_spare(&self) -> u8 {
        // 2^bits - 2 = T_Ω >= oldest live age + 1 + spare; `check_blocks` keeps the difference at 0 or above.
        (max_blocks(self.timer_bits) - u64::from(self.oldest_live_age())) as u8
    }
}

/// Live blocks that timers of `bits` bits can distinguish: T_Ω <= 2^bits - 2, one of which is the tick being swept.
pub fn max_blocks(bits: u8) -> u64 {
    (1 << bits) - 3
}

fn check_blocks(clock: ClockSpec, bits: u8) -> Result<(), TimingError> {
    let (block, window, retention) = (clock.block(), clock.window(), clock.retention());
    if window == 0 {
        return Err(TimingError::Zero("the window"));
    }
    if block == 0 {
        return Err(TimingError::Zero("the block"));
    }
    if retention > MAX_WINDOW {
        return Err(TimingError::WindowTooLong { requested: retention, nearest: MAX_WINDOW });
    }
    if block > window {
        return Err(TimingError::WindowBelowBlock { window, block, nearest: window });
    }
    let (blocks, max) = (retention.div_ceil(block), max_blocks(bits));
    if blocks > max {
        return Err(TimingError::TooManyBlocks { blocks, bits, max, nearest: retention.div_ceil(max).min(window) });
    }
    Ok(())
}

fn check_memory(layout: CellLayout, cells_per_word: u64) -> Result<(), TimingError> {
    let (bytes, min) = match layout {
        CellLayout::Lines(lines) => (lines.saturating_mul(LINE_BYTES), LINE_BYTES),
        CellLayout::Spread(cells) => (cells.div_ceil(cells_per_word).saturating_mul(8), 8),
    };
    if bytes < min {
        return Err(TimingError::MemoryTooSmall { requested: bytes, nearest: min });
    }
    if bytes > MAX_BYTES {
        return Err(TimingError::MemoryTooLarge { requested: bytes, nearest: MAX_BYTES });
    }
    Ok(())
}
