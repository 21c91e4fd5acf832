//! State bytes of a timing filter. The histogram is not stored: it is recounted from the cells, so that both agree.

use super::{ClockSpec, EXPIRED, TimerArray, TimingFilter, TimingSpec};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"timf";
const VERSION: u16 = 1;

impl TimingFilter {
    /// Encodes parameters, clock and cells.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        write_spec(&mut writer, &self.spec);
        writer.option_i64(self.now);
        writer.u64(self.total_arrivals);
        self.block_arrivals[..=usize::from(self.spec.stamps())].iter().for_each(|&count| writer.varint(count));
        writer.raw(self.cells.bytes());
        writer.seal()
    }

    /// Rejects bytes of a filter with other parameters: blocks, cells and layout never change during a filter's life.
    pub fn decode(spec: TimingSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        check_spec(&mut reader, &spec)?;
        let now = reader.option_i64("clock")?;
        if let ClockSpec::Count { .. } = spec.clock()
            && now.is_none_or(|arrivals| arrivals < 0)
        {
            return Err(CodecError::invalid("clock", format!("{now:?} arrivals")));
        }
        let mut filter = Self::new(spec).map_err(|e| CodecError::invalid("timing filter", e.to_string()))?;
        if let Some(now) = now {
            filter.start(now);
        }
        filter.total_arrivals = reader.u64()?;
        for count in &mut filter.block_arrivals[..=usize::from(spec.stamps())] {
            *count = reader.varint()?;
        }
        filter.sum_arrivals();
        let body = reader.raw(filter.cells.bytes().len())?;
        reader.finish()?;
        filter.cells.bytes_mut().copy_from_slice(body);
        filter.histogram = count_cells(&filter.cells, &spec)?;
        if now.is_none() && filter.histogram[usize::from(EXPIRED)] != spec.cells() {
            return Err(CodecError::invalid("cells", "cells are written although the clock has not started"));
        }
        Ok(filter)
    }
}

fn write_spec(writer: &mut Writer, spec: &TimingSpec) {
    match spec.clock() {
        ClockSpec::Time { window_ms, lateness_ms, tick_ms } => {
            writer.u8(0);
            [window_ms, lateness_ms, tick_ms].iter().for_each(|&value| writer.varint(value));
        }
        ClockSpec::Count { window, block } => {
            writer.u8(1);
            [window, block].iter().for_each(|&value| writer.varint(value));
        }
    }
    spec.layout().encode(writer);
    [spec.timer_bits(), spec.cells_per_item(), spec.spare()].iter().for_each(|&value| writer.u8(value));
}

fn check_spec(reader: &mut Reader<'_>, spec: &TimingSpec) -> Result<(), CodecError> {
    let mut expected = Writer::new(KIND, VERSION);
    write_spec(&mut expected, spec);
    let sealed = expected.seal();
    let mut expected = Reader::open(KIND, VERSION, &sealed)?;
    let expected = expected.raw(expected.remaining())?;
    if reader.raw(expected.len())? != expected {
        return Err(CodecError::invalid("timing filter", "the window, the layout or the number of cells differs"));
    }
    Ok(())
}

/// Counts the cells per stamp; rejects stamps that are not in use and bits outside the cells.
fn count_cells(cells: &TimerArray, spec: &TimingSpec) -> Result<[u64; 256], CodecError> {
    let mut histogram = [0u64; 256];
    let (bits, per_word) = (u32::from(spec.timer_bits()), spec.cells_per_word());
    let mut left = spec.cells();
    for word in cells.bytes().as_chunks::<8>().0 {
        let mut word = u64::from_le_bytes(*word);
        let here = left.min(per_word);
        for _ in 0..here {
            histogram[(word & ((1 << bits) - 1)) as usize] += 1;
            word >>= bits;
        }
        if word != 0 {
            return Err(CodecError::invalid("timer", "bits outside the cells"));
        }
        left -= here;
    }
    match (usize::from(spec.stamps()) + 1..256).find(|&stamp| histogram[stamp] > 0) {
        Some(stamp) => Err(CodecError::invalid("timer", format!("stamp {stamp}"))),
        None => Ok(histogram),
    }
}
