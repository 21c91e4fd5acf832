//! State bytes of a reuse prior. Curves are not stored: they are derived from the histograms.

use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"reus";
const VERSION: u16 = 1;

impl ReusePrior {
    /// Encodes parameters, sample and histograms.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.varint(self.spec.window);
        writer.varint(u64::from(self.spec.max_tracked));
        writer.u8(self.level);
        writer.i64(self.complete_from);
        writer.option_i64(self.halve_at);
        writer.varint(self.tracked.len() as u64);
        for (key, last) in &self.tracked {
            writer.u64(*key);
            writer.i64(*last);
        }
        self.histograms.iter().flatten().for_each(|&count| writer.varint(count));
        writer.varint(self.pending.len() as u64);
        for (stratum, bin) in &self.pending {
            writer.u8(*stratum);
            writer.u8(*bin);
        }
        writer.seal()
    }

    /// Reads what [`ReusePrior::encode`] wrote with the same parameters.
    pub fn decode(spec: ReuseSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if (reader.varint()?, reader.varint()?) != (spec.window, u64::from(spec.max_tracked)) {
            return Err(CodecError::invalid("reuse prior", "the window or the sample size differs"));
        }
        let mut prior = Self::new(spec);
        prior.level = reader.u8()?;
        if prior.level > 64 {
            return Err(CodecError::invalid("sample level", prior.level.to_string()));
        }
        prior.complete_from = reader.i64()?;
        prior.halve_at = reader.option_i64("time")?;
        prior.tracked = read_tracked(&mut reader, spec.max_tracked, prior.level)?;
        for count in prior.histograms.iter_mut().flatten() {
            *count = reader.varint()?;
            if *count > MAX_COUNT {
                return Err(CodecError::invalid("sightings", count.to_string()));
            }
        }
        // Pending sightings are not part of the curves.
        prior.rebuild_curves();
        prior.pending = read_pending(&mut reader)?;
        reader.finish()?;
        Ok(prior)
    }
}

fn read_tracked(reader: &mut Reader<'_>, max: u32, level: u8) -> Result<BTreeMap<u64, i64>, CodecError> {
    let count = reader.count(16)?;
    if count > max as usize {
        return Err(CodecError::invalid("tracked items", format!("{count}, at most {max}")));
    }
    let mut tracked = BTreeMap::new();
    for _ in 0..count {
        let key = reader.u64()?;
        let ascending = tracked.last_key_value().is_none_or(|(last, _)| *last < key);
        if !ascending || !is_chosen(key, level) {
            return Err(CodecError::invalid("tracked items", "out of order or outside the sample"));
        }
        tracked.insert(key, reader.i64()?);
    }
    Ok(tracked)
}

fn read_pending(reader: &mut Reader<'_>) -> Result<Vec<(u8, u8)>, CodecError> {
    let count = reader.count(2)?;
    if count >= MAX_PENDING {
        return Err(CodecError::invalid("pending sightings", count.to_string()));
    }
    let mut pending = Vec::with_capacity(MAX_PENDING);
    for _ in 0..count {
        let (stratum, bin) = (reader.u8()?, reader.u8()?);
        if usize::from(stratum) > ALL || usize::from(bin) > NEVER {
            return Err(CodecError::invalid("pending sighting", format!("{stratum}, {bin}")));
        }
        pending.push((stratum, bin));
    }
    Ok(pending)
}
