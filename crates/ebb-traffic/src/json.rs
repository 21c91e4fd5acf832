//! The JSON payload of a click, and ways to damage it. Written by hand, so that it never limits a bench.

use super::visitors::Hit;
use ebb_sketch::random::{Random, mix};

const COUNTRIES: [&str; 8] = ["de", "us", "fr", "gb", "in", "br", "jp", "pl"];
const DEVICES: [&str; 4] = ["android", "iphone", "desktop", "tablet"];
/// Cumulative percentages of users in tiers 1 to 3; the rest is tier 4.
const TIER_BOUNDS: [u64; 3] = [60, 85, 97];
const YEAR_MS: i64 = 365 * 86_400_000;

/// The content of a payload; the same content always gives the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClickMessage {
    pub(super) id: u64,
    pub(super) time_ms: i64,
    pub(super) hit: Hit,
    pub(super) campaign: u32,
    /// In ten-thousandths.
    pub(super) cost: u32,
}

/// How a payload is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The payload is empty.
    Empty,
    /// The payload is truncated.
    Truncated,
    /// The payload contains a byte that is not valid in UTF-8.
    NotText,
    /// `user` is missing.
    MissingField,
    /// `ts` is a string.
    WrongType,
    /// `ad` occurs twice.
    DuplicateKey,
    /// An additional field is nested 200 levels deep.
    Deep,
    /// `ts` is a year in the future.
    FarFuture,
}

impl Defect {
    /// All defects.
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

    pub(super) fn draw(random: &mut Random) -> Self {
        Self::ALL[random.below(Self::ALL.len() as u64) as usize]
    }

    /// Replaces `json` by the message with this defect.
    pub(super) fn write(self, message: &ClickMessage, json: &mut Vec<u8>) {
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
            Defect::MissingField => write_replaced(message, json, b"\"user\"", b"\"u\""),
            Defect::WrongType => write_replaced(message, json, b"\"ts\":", b"\"ts\":\"now\",\"sent\":"),
            Defect::DuplicateKey => write_replaced(message, json, b"\"country\"", b"\"ad\""),
            Defect::Deep => {
                message.write(json);
                json.pop();
                json.extend_from_slice(b",\"trace\":");
                json.extend(std::iter::repeat_n(b'[', 200).chain(std::iter::repeat_n(b']', 200)));
                json.push(b'}');
            }
            Defect::FarFuture => {
                ClickMessage { time_ms: message.time_ms.saturating_add(YEAR_MS), ..*message }.write(json);
            }
        }
    }
}

/// Replaces `json` by the message in which the first `from` is replaced by `to`.
fn write_replaced(message: &ClickMessage, json: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    message.write(json);
    if let Some(start) = json.windows(from.len()).position(|window| window == from) {
        json.splice(start..start + from.len(), to.iter().copied());
    }
}

impl ClickMessage {
    /// Replaces `json` by the message.
    pub(super) fn write(&self, json: &mut Vec<u8>) {
        let traits = mix(u64::from(self.hit.visitor.user));
        json.clear();
        json.extend_from_slice(b"{\"click_id\":\"");
        write_hexadecimal(json, self.id, 16);
        json.extend_from_slice(b"\",\"ts\":");
        write_time(json, self.time_ms);
        json.extend_from_slice(b",\"ip\":\"");
        write_address(json, self.hit.visitor.ip);
        json.extend_from_slice(b"\",\"ad\":\"ad-");
        write_decimal(json, self.hit.ad.into(), 6);
        json.extend_from_slice(b"\",\"user\":\"u-");
        // An odd factor permutes the numbers, so that the farm's users cannot be recognised by their ids.
        write_hexadecimal(json, self.hit.visitor.user.wrapping_mul(0x9E37_79B1).into(), 8);
        json.extend_from_slice(b"\",\"campaign\":\"cmp-");
        write_decimal(json, self.campaign.into(), 4);
        json.extend_from_slice(b"\",\"tier\":");
        write_decimal(json, tier(traits), 1);
        json.extend_from_slice(b",\"cost\":");
        write_decimal(json, u64::from(self.cost / 10_000), 1);
        json.push(b'.');
        write_decimal(json, u64::from(self.cost % 10_000), 4);
        json.extend_from_slice(b",\"country\":\"");
        json.extend_from_slice(COUNTRIES[(traits >> 32) as usize % COUNTRIES.len()].as_bytes());
        json.extend_from_slice(b"\",\"device\":\"");
        json.extend_from_slice(DEVICES[(traits >> 40) as usize % DEVICES.len()].as_bytes());
        json.extend_from_slice(b"\"}");
    }
}

fn tier(traits: u64) -> u64 {
    let percentile = traits % 100;
    1 + TIER_BOUNDS.iter().filter(|bound| percentile >= **bound).count() as u64
}

fn write_time(json: &mut Vec<u8>, time_ms: i64) {
    if time_ms < 0 {
        json.push(b'-');
    }
    write_decimal(json, time_ms.unsigned_abs(), 1);
}

fn write_address(json: &mut Vec<u8>, ip: u32) {
    for (index, byte) in ip.to_be_bytes().into_iter().enumerate() {
        if index > 0 {
            json.push(b'.');
        }
        write_decimal(json, byte.into(), 1);
    }
}

/// At least `width` digits, padded with zeros.
fn write_decimal(json: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    json.extend_from_slice(&digits[first.min(digits.len() - width)..]);
}

/// The lowest `width` digits, at most 16.
fn write_hexadecimal(json: &mut Vec<u8>, number: u64, width: usize) {
    let digits: [u8; 16] =
        std::array::from_fn(|index| b"0123456789abcdef"[(number >> (60 - 4 * index)) as usize & 0xF]);
    json.extend_from_slice(&digits[digits.len() - width..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitors::Visitor;

    fn message() -> ClickMessage {
        let hit = Hit { visitor: Visitor { ip: 0x0A01_02FF, user: 7 }, ad: 4_213 };
        ClickMessage { id: 0x0123_4567_89AB_CDEF, time_ms: 1_700_000_000_123, hit, campaign: 168, cost: 412 }
    }

    fn text(message: &ClickMessage) -> String {
        let mut json = b"previous content".to_vec();
        message.write(&mut json);
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn message_has_the_expected_bytes() {
        assert_eq!(
            text(&message()),
            r#"{"click_id":"0123456789abcdef","ts":1700000000123,"ip":"10.1.2.255","ad":"ad-004213","user":"u-538453d7","campaign":"cmp-0168","tier":3,"cost":0.0412,"country":"in","device":"iphone"}"#
        );
    }

    #[test]
    fn numbers_match_the_standard_formatter() {
        for number in [0, 1, 9, 10, 255, 9_999, 10_000, u64::MAX] {
            for width in [1, 4, 6] {
                let mut json = Vec::new();
                write_decimal(&mut json, number, width);
                assert_eq!(String::from_utf8(json).unwrap(), format!("{number:0width$}"));
            }
        }
        for time_ms in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert!(text(&ClickMessage { time_ms, ..message() }).contains(&format!("\"ts\":{time_ms},")));
        }
    }

    #[test]
    fn tiers_have_their_shares_of_users() {
        let mut users = [0u32; 5];
        (0..100_000).for_each(|user| users[tier(mix(user)) as usize] += 1);
        for (tier, percent) in [(1, 60), (2, 25), (3, 12), (4, 3)] {
            assert!(users[tier].abs_diff(percent * 1_000) < 500, "{users:?}");
        }
    }
}
