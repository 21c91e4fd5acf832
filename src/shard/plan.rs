//! What a shard computes: shared by all shards of a stream.

use std::sync::Arc;

use super::dedup::{DedupSpec, Seen};
use super::reader::Reader;
use super::spec::{EventSpec, Path};
use crate::codec::Writer;
use crate::filter::timing::{Drive, Layout};

/// How events are read and which views are kept of them.
#[derive(Debug, Clone)]
pub struct Plan {
    pub reader: Arc<Reader>,
    /// An event dated later than this after its record is rejected: one poisoned timestamp must not expire the window.
    pub max_skew_ms: u64,
    pub dedup: DedupSpec,
}

impl Plan {
    /// Names everything on which the meaning of a snapshot depends: state made under another identity is not read.
    /// What only changes later decisions (limits, skew) is left out, so that it can be changed without forgetting.
    pub fn identity(&self) -> [u8; 32] {
        let mut writer = Writer::new(*b"plan", 1);
        write_event(&mut writer, self.reader.spec());
        write_dedup(&mut writer, &self.dedup);
        writer.raw(&self.reader.key_print().0);
        *blake3::hash(&writer.seal()).as_bytes()
    }
}

fn write_event(writer: &mut Writer, event: &EventSpec) {
    let mut path = |path: Option<&Path>| writer.bytes(path.map(Path::to_string).unwrap_or_default().as_bytes());
    let single = [&event.key, &event.id, &event.value, &event.weight, &event.importance];
    single.into_iter().for_each(|one| path(one.as_ref()));
    path(event.time.as_ref().map(|(path, _)| path));
    for list in [&event.item, &event.labels] {
        list.iter().for_each(|one| path(Some(one)));
        path(None);
    }
    writer.u8(event.time.as_ref().map_or(0, |(_, unit)| 1 + *unit as u8));
}

fn write_dedup(writer: &mut Writer, dedup: &DedupSpec) {
    let filter = &dedup.filter;
    let (kind, numbers) = match filter.drive() {
        Drive::Time { window_ms, lateness_ms, tick_ms } => (0, [window_ms, lateness_ms, tick_ms]),
        Drive::Count { window, block } => (1, [window, 0, block]),
    };
    writer.u8(kind);
    numbers.into_iter().for_each(|number| writer.u64(number));
    let (layout, size) = match filter.layout() {
        Layout::Lines(lines) => (0, lines),
        Layout::Spread(cells) => (1, cells),
    };
    writer.u8(layout);
    writer.u64(size);
    [filter.timer_bits(), filter.cells_per_item(), filter.spare()].into_iter().for_each(|part| writer.u8(part));
    writer.u8(match dedup.seen {
        Seen::First => 0,
        Seen::Last => 1,
    });
}
