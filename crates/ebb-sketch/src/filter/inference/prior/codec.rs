//! State bytes of a reuse prior. Curves are not stored: they are derived from the histograms and the clock.

use std::collections::BTreeMap;

use super::flood::QuarterCounts;
use super::repeat_share::{MAX_KEYS, RepeatShare};
use super::sample::is_chosen;
use super::*;
use crate::codec::{CodecError, Kind, Reader, Writer};

const KIND: Kind = *b"reus";
const VERSION: u16 = 2;
/// Version 1 counted censored sightings as "never" and had no shares. Its sample is not continued.
const FIRST_VERSION_WITH_SURVIVAL: u16 = 2;

impl ReusePrior {
    /// Encodes parameters, sample, histograms and shares.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(KIND, VERSION);
        writer.varint(self.spec.window);
        writer.varint(u64::from(self.spec.max_tracked));
        writer.u8(self.sample.level);
        writer.option_i64(self.sample.started);
        writer.u8(u8::from(self.sample.predated));
        writer.option_i64(self.sample.widened);
        writer.option_i64(self.step);
        writer.varint(self.sample.tracked.len() as u64);
        for (key, last) in &self.sample.tracked {
            writer.u64(*key);
            writer.i64(*last);
        }
        self.histograms.iter().flat_map(AgeCounts::counts).for_each(|count| writer.varint(count));
        write_share(&mut writer, &self.shares.all);
        writer.varint(self.shares.keys.len() as u64);
        for (key, share) in &self.shares.keys {
            writer.u64(*key);
            write_share(&mut writer, share);
        }
        writer.u8(u8::from(self.floods.is_whole) | u8::from(self.floods.reference.is_some()) << 1);
        for counts in [self.floods.current, self.floods.reference.unwrap_or_default()] {
            writer.f64(counts.inside);
            writer.f64(counts.outside);
        }
        writer.varint(self.pending.len() as u64);
        for sighting in &self.pending {
            writer.u8(sighting.stratum);
            writer.u8(sighting.bin);
            writer.u8(sighting.kind as u8 | u8::from(sighting.key.is_some()) << 2);
            writer.u64(sighting.key.unwrap_or(0));
        }
        writer.seal()
    }

    /// Reads what [`ReusePrior::encode`] wrote with the same parameters. From the bytes of an earlier version, only that
    /// they are valid is used: learning begins anew.
    pub fn decode(spec: ReuseSpec, bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::open(KIND, VERSION, bytes)?;
        if (reader.varint()?, reader.varint()?) != (spec.window, u64::from(spec.max_tracked)) {
            return Err(CodecError::invalid("reuse prior", "the window or the sample size differs"));
        }
        let mut prior = Self::new(spec);
        if reader.version() < FIRST_VERSION_WITH_SURVIVAL {
            prior.sample.predated = true;
            return Ok(prior);
        }
        prior.sample.level = reader.u8()?;
        if prior.sample.level > 64 {
            return Err(CodecError::invalid("sample level", prior.sample.level.to_string()));
        }
        prior.sample.started = reader.option_i64("time")?;
        prior.sample.predated = match reader.u8()? {
            flag @ (0 | 1) => flag == 1,
            flag => return Err(CodecError::invalid("sample", format!("flag {flag}"))),
        };
        prior.sample.widened = reader.option_i64("time")?;
        prior.step = reader.option_i64("time")?;
        prior.sample.tracked = read_tracked(&mut reader, spec.max_tracked, prior.sample.level)?;
        for count in prior.histograms.iter_mut().flat_map(AgeCounts::counts_mut) {
            *count = read_count(&mut reader)?;
        }
        prior.shares.all = read_share(&mut reader)?;
        prior.shares.keys = read_keys(&mut reader)?;
        prior.floods = read_floods(&mut reader)?;
        // Pending sightings are not part of the curves.
        prior.derive();
        prior.pending = read_pending(&mut reader)?;
        reader.finish()?;
        Ok(prior)
    }
}

fn write_share(writer: &mut Writer, share: &RepeatShare) {
    writer.varint(share.inside);
    writer.varint(share.outside);
    writer.f64(share.peak);
    writer.i64(share.peak_at);
}

fn read_share(reader: &mut Reader<'_>) -> Result<RepeatShare, CodecError> {
    let share = RepeatShare {
        inside: read_count(reader)?,
        outside: read_count(reader)?,
        peak: reader.f64()?,
        peak_at: reader.i64()?,
    };
    if !(0.0..1.0).contains(&share.peak) {
        return Err(CodecError::invalid("share of repeats", share.peak.to_string()));
    }
    Ok(share)
}

fn read_keys(reader: &mut Reader<'_>) -> Result<BTreeMap<u64, RepeatShare>, CodecError> {
    let count = reader.count(26)?;
    if count > MAX_KEYS {
        return Err(CodecError::invalid("keys with a share", format!("{count}, at most {MAX_KEYS}")));
    }
    let mut keys = BTreeMap::new();
    for _ in 0..count {
        let key = reader.u64()?;
        if keys.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(CodecError::invalid("keys with a share", "out of order"));
        }
        keys.insert(key, read_share(reader)?);
    }
    Ok(keys)
}

fn read_floods(reader: &mut Reader<'_>) -> Result<FloodDetector, CodecError> {
    let flags = reader.u8()?;
    let mut counts = [0.0; 4];
    for count in &mut counts {
        *count = reader.f64()?;
    }
    if flags > 3 || !counts.iter().all(|count| (0.0..1e300).contains(count)) {
        return Err(CodecError::invalid("counts of quarters", format!("flags {flags}, {counts:?}")));
    }
    let [inside, outside, reference_inside, reference_outside] = counts;
    let reference = QuarterCounts { inside: reference_inside, outside: reference_outside };
    let (is_whole, reference) = (flags & 1 == 1, (flags & 2 == 2).then_some(reference));
    Ok(FloodDetector { current: QuarterCounts { inside, outside }, is_whole, reference })
}

fn read_count(reader: &mut Reader<'_>) -> Result<u64, CodecError> {
    let count = reader.varint()?;
    if count > MAX_COUNT {
        return Err(CodecError::invalid("sightings", count.to_string()));
    }
    Ok(count)
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

fn read_pending(reader: &mut Reader<'_>) -> Result<Vec<PendingSighting>, CodecError> {
    let count = reader.count(11)?;
    if count >= MAX_PENDING {
        return Err(CodecError::invalid("pending sightings", count.to_string()));
    }
    let mut pending = Vec::with_capacity(MAX_PENDING);
    for _ in 0..count {
        let (stratum, bin, flags, key) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u64()?);
        let kind = [SightingKind::Repeat, SightingKind::Expired, SightingKind::Censored].get(usize::from(flags & 3));
        let (Some(&kind), true) = (kind, flags < 8 && (flags >= 4 || key == 0)) else {
            return Err(CodecError::invalid("pending sighting", format!("flags {flags}")));
        };
        if usize::from(stratum) > ALL || usize::from(bin) > NEVER {
            return Err(CodecError::invalid("pending sighting", format!("{stratum}, {bin}")));
        }
        pending.push(PendingSighting { stratum, bin, kind, key: (flags >= 4).then_some(key) });
    }
    Ok(pending)
}
