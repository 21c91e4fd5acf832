//! The bytes of a reuse prior. Curves are not among them: they are drawn from the histograms.

use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"reus";
const VERSION: u16 = 1;

impl ReusePrior {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.varint(self.spec.window);
        writer.varint(u64::from(self.spec.followed_most));
        writer.u8(self.level);
        writer.i64(self.settled_at);
        writer.u8(u8::from(self.halve_at.is_some()));
        writer.i64(self.halve_at.unwrap_or(0));
        writer.varint(self.followed.len() as u64);
        for (key, last) in &self.followed {
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

    pub fn decode(spec: ReuseSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if (reader.varint()?, reader.varint()?) != (spec.window, u64::from(spec.followed_most)) {
            return Err(CodecError::invalid("reuse prior", "it was made for another window or sample"));
        }
        let mut prior = Self::new(spec);
        prior.level = reader.u8()?;
        if prior.level > 64 {
            return Err(CodecError::invalid("sample level", prior.level.to_string()));
        }
        prior.settled_at = reader.i64()?;
        prior.halve_at = read_time(&mut reader)?;
        prior.followed = read_followed(&mut reader, spec.followed_most, prior.level)?;
        for count in prior.histograms.iter_mut().flatten() {
            *count = reader.varint()?;
            if *count > COUNT_MOST {
                return Err(CodecError::invalid("sightings", count.to_string()));
            }
        }
        // The curves are those of the histograms without what waits.
        prior.draw_curves();
        prior.pending = read_pending(&mut reader)?;
        reader.finish()?;
        Ok(prior)
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<Option<i64>, CodecError> {
    match (reader.u8()?, reader.i64()?) {
        (0, 0) => Ok(None),
        (1, time) => Ok(Some(time)),
        (flag, time) => Err(CodecError::invalid("time", format!("flag {flag}, time {time}"))),
    }
}

fn read_followed(reader: &mut Reader<'_>, most: u32, level: u8) -> Result<BTreeMap<u64, i64>, CodecError> {
    let count = reader.count(16)?;
    if count > most as usize {
        return Err(CodecError::invalid("followed items", format!("{count}, at most {most}")));
    }
    let mut followed = BTreeMap::new();
    for _ in 0..count {
        let key = reader.u64()?;
        let rises = followed.last_key_value().is_none_or(|(last, _)| *last < key);
        if !rises || !chosen(key, level) {
            return Err(CodecError::invalid("followed items", "out of order or outside the sample"));
        }
        followed.insert(key, reader.i64()?);
    }
    Ok(followed)
}

fn read_pending(reader: &mut Reader<'_>) -> Result<Vec<(u8, u8)>, CodecError> {
    let count = reader.count(2)?;
    if count >= PENDING_MOST {
        return Err(CodecError::invalid("waiting sightings", count.to_string()));
    }
    let mut pending = Vec::with_capacity(PENDING_MOST);
    for _ in 0..count {
        let (stratum, bin) = (reader.u8()?, reader.u8()?);
        if usize::from(stratum) > ALL || usize::from(bin) > NEVER {
            return Err(CodecError::invalid("waiting sighting", format!("{stratum}, {bin}")));
        }
        pending.push((stratum, bin));
    }
    Ok(pending)
}
