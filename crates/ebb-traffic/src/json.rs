//! A click as the JSON that its sender writes, and the ways in which that goes wrong. Written by hand: it must never be
//! what limits a bench.

use super::cast::Hit;
use ebb_sketch::random::{Random, mix};

const COUNTRIES: [&str; 8] = ["de", "us", "fr", "gb", "in", "br", "jp", "pl"];
const DEVICES: [&str; 4] = ["android", "iphone", "desktop", "tablet"];
/// One in each hundred users by tier: tier 1 up to the first bound, and so on; tier 4 beyond the last.
const TIER_BOUNDS: [u64; 3] = [60, 85, 97];
const YEAR_MS: i64 = 365 * 86_400_000;

/// What a sender knows of a click: enough to write the same bytes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) time_ms: i64,
    pub(super) hit: Hit,
    pub(super) campaign: u32,
    /// In ten thousandths.
    pub(super) cost: u32,
}

/// How a payload is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// Nothing arrived.
    Empty,
    /// The end is missing.
    Truncated,
    /// A byte that no UTF-8 text has.
    NotText,
    /// `user` is not there.
    MissingField,
    /// `ts` is a text.
    WrongType,
    /// `ad` stands there twice.
    DuplicateKey,
    /// Some nest of a broken sender, 200 deep, beside the fields.
    Deep,
    /// A good payload, dated a year ahead.
    FarFuture,
}

impl Defect {
    pub const ALL: [Defect; 8] = [
        Defect::Empty,
        Defect::Truncated,
        Defect::NotText,
        Defect::MissingField,
        Defect::WrongType,
        Defect::DuplicateKey,
        Defect::Deep,
        Defect::FarFuture,
    ];

    pub(super) fn any(random: &mut Random) -> Self {
        Self::ALL[random.below(Self::ALL.len() as u64) as usize]
    }

    /// Writes the message with this defect over whatever `json` held.
    pub(super) fn write(self, message: &Message, json: &mut Vec<u8>) {
        match self {
            Defect::Empty => json.clear(),
            Defect::Truncated => {
                message.write(json);
                json.truncate(json.len() * 2 / 3);
            }
            Defect::NotText => {
                message.write(json);
                let inside = json.len() - 4;
                json[inside] = 0xFF;
            }
            Defect::MissingField => rename(message, json, b"\"user\"", b"\"u\""),
            Defect::WrongType => rename(message, json, b"\"ts\":", b"\"ts\":\"now\",\"sent\":"),
            Defect::DuplicateKey => rename(message, json, b"\"country\"", b"\"ad\""),
            Defect::Deep => {
                message.write(json);
                json.pop();
                json.extend_from_slice(b",\"trace\":");
                json.extend(std::iter::repeat_n(b'[', 200).chain(std::iter::repeat_n(b']', 200)));
                json.push(b'}');
            }
            Defect::FarFuture => {
                Message { time_ms: message.time_ms.saturating_add(YEAR_MS), ..*message }.write(json);
            }
        }
    }
}

/// Writes the message with the first `from` replaced by `to`.
fn rename(message: &Message, json: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    message.write(json);
    if let Some(start) = json.windows(from.len()).position(|part| part == from) {
        json.splice(start..start + from.len(), to.iter().copied());
    }
}

impl Message {
    /// Writes the message over whatever `json` held.
    pub(super) fn write(&self, json: &mut Vec<u8>) {
        let traits = mix(u64::from(self.hit.visitor.user));
        json.clear();
        json.extend_from_slice(b"{\"click_id\":\"");
        hexadecimal(json, self.id, 16);
        json.extend_from_slice(b"\",\"ts\":");
        time(json, self.time_ms);
        json.extend_from_slice(b",\"ip\":\"");
        address(json, self.hit.visitor.ip);
        json.extend_from_slice(b"\",\"ad\":\"ad-");
        decimal(json, self.hit.ad.into(), 6);
        json.extend_from_slice(b"\",\"user\":\"u-");
        // An odd factor permutes the numbers: a farm's users look like anybody's.
        hexadecimal(json, self.hit.visitor.user.wrapping_mul(0x9E37_79B1).into(), 8);
        json.extend_from_slice(b"\",\"campaign\":\"cmp-");
        decimal(json, self.campaign.into(), 4);
        json.extend_from_slice(b"\",\"tier\":");
        decimal(json, tier(traits), 1);
        json.extend_from_slice(b",\"cost\":");
        decimal(json, u64::from(self.cost / 10_000), 1);
        json.push(b'.');
        decimal(json, u64::from(self.cost % 10_000), 4);
        json.extend_from_slice(b",\"country\":\"");
        json.extend_from_slice(COUNTRIES[(traits >> 32) as usize % COUNTRIES.len()].as_bytes());
        json.extend_from_slice(b"\",\"device\":\"");
        json.extend_from_slice(DEVICES[(traits >> 40) as usize % DEVICES.len()].as_bytes());
        json.extend_from_slice(b"\"}");
    }
}

fn tier(traits: u64) -> u64 {
    let place = traits % 100;
    1 + TIER_BOUNDS.iter().filter(|bound| place >= **bound).count() as u64
}

fn time(json: &mut Vec<u8>, time_ms: i64) {
    if time_ms < 0 {
        json.push(b'-');
    }
    decimal(json, time_ms.unsigned_abs(), 1);
}

fn address(json: &mut Vec<u8>, ip: u32) {
    for (place, byte) in ip.to_be_bytes().into_iter().enumerate() {
        if place > 0 {
            json.push(b'.');
        }
        decimal(json, byte.into(), 1);
    }
}

/// At least `width` digits, zeros in front.
fn decimal(json: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    json.extend_from_slice(&digits[first.min(digits.len() - width)..]);
}

/// The lowest `width` digits, 16 at most.
fn hexadecimal(json: &mut Vec<u8>, number: u64, width: usize) {
    let digits: [u8; 16] =
        std::array::from_fn(|place| b"0123456789abcdef"[(number >> (60 - 4 * place)) as usize & 0xF]);
    json.extend_from_slice(&digits[digits.len() - width..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::Visitor;

    fn message() -> Message {
        let hit = Hit { visitor: Visitor { ip: 0x0A01_02FF, user: 7 }, ad: 4_213 };
        Message { id: 0x0123_4567_89AB_CDEF, time_ms: 1_700_000_000_123, hit, campaign: 168, cost: 412 }
    }

    fn text(message: &Message) -> String {
        let mut json = b"what was there before".to_vec();
        message.write(&mut json);
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn a_message_is_written_to_the_letter() {
        assert_eq!(
            text(&message()),
            r#"{"click_id":"0123456789abcdef","ts":1700000000123,"ip":"10.1.2.255","ad":"ad-004213","user":"u-538453d7","campaign":"cmp-0168","tier":3,"cost":0.0412,"country":"in","device":"iphone"}"#
        );
    }

    #[test]
    fn numbers_are_those_of_the_standard_formatter() {
        for number in [0, 1, 9, 10, 255, 9_999, 10_000, u64::MAX] {
            for width in [1, 4, 6] {
                let mut json = Vec::new();
                decimal(&mut json, number, width);
                assert_eq!(String::from_utf8(json).unwrap(), format!("{number:0width$}"));
            }
        }
        for time_ms in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert!(text(&Message { time_ms, ..message() }).contains(&format!("\"ts\":{time_ms},")));
        }
    }

    #[test]
    fn users_fall_into_tiers_as_bounded() {
        let mut users = [0u32; 5];
        (0..100_000).for_each(|user| users[tier(mix(user)) as usize] += 1);
        for (tier, percent) in [(1, 60), (2, 25), (3, 12), (4, 3)] {
            assert!(users[tier].abs_diff(percent * 1_000) < 500, "{users:?}");
        }
    }
}
