//! Parameters and state bytes of the timing filter: invalid specs, golden bytes, damaged bytes.

use ebb_sketch::filter::structure::layout::CellLayout;
use ebb_sketch::filter::structure::timing::{ClockSpec, TimingError, TimingFilter, TimingSpec};
use ebb_sketch::hash::Fingerprint;
use ebb_sketch::random::mix;

fn item(number: u64) -> Fingerprint {
    Fingerprint(u128::from(mix(number)) << 64 | u128::from(mix(number ^ 0xEBB)))
}

#[test]
fn invalid_specs_report_the_nearest_valid_one() {
    let clock = |window, block| ClockSpec::Count { window, block };
    let new = |clock, layout, bits, k| TimingSpec::new(clock, layout, bits, k).unwrap_err();
    let lines = CellLayout::Lines(1);
    assert_eq!(new(clock(10, 1), lines, 4, 0), TimingError::CellsPerItem { requested: 0, nearest: 1 });
    assert_eq!(new(clock(10, 1), lines, 4, 17), TimingError::CellsPerItem { requested: 17, nearest: 16 });
    assert_eq!(new(clock(10, 1), lines, 2, 4), TimingError::TimerBits { requested: 2, nearest: 3 });
    assert_eq!(new(clock(10, 1), lines, 9, 4), TimingError::TimerBits { requested: 9, nearest: 8 });
    assert_eq!(new(clock(5, 6), lines, 4, 4), TimingError::WindowBelowBlock { window: 5, block: 6, nearest: 5 });
    assert_eq!(new(clock(0, 6), lines, 4, 4), TimingError::Zero("the window"));
    assert_eq!(new(clock(6, 0), lines, 4, 4), TimingError::Zero("the block"));
    let expected = TimingError::TooManyBlocks { blocks: 14, bits: 4, max: 13, nearest: 11 };
    assert_eq!(new(clock(140, 10), lines, 4, 4), expected);
    assert!(TimingSpec::new(clock(140, 11), lines, 4, 4).is_ok(), "the nearest is valid");
    assert_eq!(
        new(clock(10, 1), CellLayout::Lines(0), 4, 4),
        TimingError::MemoryTooSmall { requested: 0, nearest: 64 }
    );
    assert_eq!(
        new(clock(10, 1), CellLayout::Spread(0), 4, 4),
        TimingError::MemoryTooSmall { requested: 0, nearest: 8 }
    );
    assert!(matches!(new(clock(10, 1), CellLayout::Lines(u64::MAX), 4, 4), TimingError::MemoryTooLarge { .. }));
    assert!(matches!(new(clock(u64::MAX, u64::MAX / 2), lines, 4, 4), TimingError::WindowTooLong { .. }));
    assert!(TimingSpec::time(1000, 0, 63).is_err() && TimingSpec::time(1000, 0, 64).is_ok());
    let full = TimingSpec::new(clock(130, 10), lines, 4, 4).unwrap();
    assert_eq!(full.with_spare(1), Err(TimingError::TooMuchSpare { spare: 1, bits: 4, blocks: 13, nearest: 0 }));
}

#[test]
fn state_bytes_are_stable_across_releases() {
    let spec = TimingSpec::time(60_000, 5_000, 64).unwrap();
    let mut filter = TimingFilter::new(spec).unwrap();
    for number in 0..4 {
        filter.insert(item(number), 1_700_000_000_000 + 7_000 * number as i64);
        filter.count_arrival(1_700_000_000_000 + 7_000 * number as i64);
    }
    let hex: String = filter.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
}

const GOLDEN: &str = "74696d66010000e0d4038827a92a00010404010108bae5cf8b01000004000000000000000000000000000001010001\
    0100000000000008000000000000700000000000ba000a0000b000000700080000000000000000000000b070000800000000a0000000b0000000\
    0080000000000007000a001b2e1f08094932b4";

#[test]
fn damaged_or_mismatched_bytes_are_rejected() {
    let spec = TimingSpec::count(1000, 128).unwrap();
    let mut filter = TimingFilter::new(spec).unwrap();
    (0..50).for_each(|number| {
        filter.insert(item(number), 0);
        filter.count_arrival(0);
    });
    let bytes = filter.encode();
    assert!(TimingFilter::decode(spec, &bytes).is_ok());
    for other in [TimingSpec::count(1001, 128), TimingSpec::count(1000, 192), TimingSpec::time(1000, 0, 128)] {
        assert!(TimingFilter::decode(other.unwrap(), &bytes).is_err());
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(TimingFilter::decode(spec, &damaged).is_err(), "byte {at}");
        assert!(TimingFilter::decode(spec, &bytes[..at]).is_err(), "cut at {at}");
    }
}
