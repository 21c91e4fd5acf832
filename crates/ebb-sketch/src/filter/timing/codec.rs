//! The bytes of a timing filter. The histogram is not among them: it is counted from the cells, so that it cannot lie.

use super::{Cells, Drive, EXPIRED, Layout, TimingFilter, TimingSpec};
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"timf";
const VERSION: u16 = 1;

impl TimingFilter {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        write_spec(&mut writer, &self.spec);
        writer.u8(u8::from(self.now.is_some()));
        writer.i64(self.now.unwrap_or(0));
        writer.u64(self.arrived);
        self.arrivals[..=usize::from(self.spec.stamps())].iter().for_each(|&count| writer.varint(count));
        writer.raw(self.cells.bytes());
        writer.seal()
    }

    /// Refuses bytes of a filter of another shape: a filter's blocks, cells and places never change while it lives.
    pub fn decode(spec: TimingSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        check_spec(&mut reader, &spec)?;
        let known = reader.u8()?;
        let now = reader.i64()?;
        let counted = matches!(spec.drive(), Drive::Count { .. });
        if known > 1 || (known == 0 && (now != 0 || counted)) || (counted && now < 0) {
            return Err(CodecError::invalid("clock", format!("flag {known}, time {now}")));
        }
        let mut filter = Self::new(spec).map_err(|e| CodecError::invalid("timing filter", e.to_string()))?;
        if known == 1 {
            filter.start(now);
        }
        filter.arrived = reader.u64()?;
        for count in &mut filter.arrivals[..=usize::from(spec.stamps())] {
            *count = reader.varint()?;
        }
        filter.sum_arrivals();
        let body = reader.raw(filter.cells.bytes().len())?;
        reader.finish()?;
        filter.cells.bytes_mut().copy_from_slice(body);
        filter.histogram = count_cells(&filter.cells, &spec)?;
        if known == 0 && filter.histogram[usize::from(EXPIRED)] != spec.cells() {
            return Err(CodecError::invalid("cells", "written before time began"));
        }
        Ok(filter)
    }
}

fn write_spec(writer: &mut Writer, spec: &TimingSpec) {
    match spec.drive() {
        Drive::Time { window_ms, lateness_ms, tick_ms } => {
            writer.u8(0);
            [window_ms, lateness_ms, tick_ms].iter().for_each(|&value| writer.varint(value));
        }
        Drive::Count { window, block } => {
            writer.u8(1);
            [window, block].iter().for_each(|&value| writer.varint(value));
        }
    }
    match spec.layout() {
        Layout::Lines(lines) => {
            writer.u8(0);
            writer.varint(lines);
        }
        Layout::Spread(cells) => {
            writer.u8(1);
            writer.varint(cells);
        }
    }
    [spec.timer_bits(), spec.cells_per_item(), spec.spare()].iter().for_each(|&value| writer.u8(value));
}

fn check_spec(reader: &mut Reader<'_>, spec: &TimingSpec) -> Result<(), CodecError> {
    let mut expected = Writer::new(KIND, VERSION);
    write_spec(&mut expected, spec);
    let sealed = expected.seal();
    let mut expected = Reader::open(KIND, VERSION, &sealed)?;
    let expected = expected.raw(expected.remaining())?;
    if reader.raw(expected.len())? != expected {
        return Err(CodecError::invalid("timing filter", "it was made with another window, layout or number of cells"));
    }
    Ok(())
}

/// How many cells hold each stamp; refuses stamps that are not in use and bits outside the cells.
fn count_cells(cells: &Cells, spec: &TimingSpec) -> Result<[u64; 256], CodecError> {
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
