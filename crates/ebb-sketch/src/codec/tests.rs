//! Round trips, damaged blocks and non-canonical values.

use super::*;

const KIND: Kind = *b"test";

fn sealed(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new(KIND, 1);
    fill(&mut writer);
    writer.seal()
}

#[test]
fn written_values_are_read_back() {
    let block = sealed(|w| {
        w.u8(1);
        w.u32(2);
        w.u64(u64::MAX);
        w.u128(u128::MAX - 1);
        w.i64(i64::MIN);
        w.f64(-0.0);
        w.option_i64(None);
        w.option_i64(Some(-5));
        for value in [0, 127, 128, u64::from(u32::MAX), u64::MAX] {
            w.varint(value);
        }
        w.bytes(b"ebb");
        w.raw(&[9; 3]);
    });
    let mut r = Reader::open(KIND, 1, &block).unwrap();
    assert_eq!((r.u8(), r.u32(), r.u64()), (Ok(1), Ok(2), Ok(u64::MAX)));
    assert_eq!((r.u128(), r.i64()), (Ok(u128::MAX - 1), Ok(i64::MIN)));
    assert_eq!(r.f64().map(f64::to_bits), Ok((-0.0f64).to_bits()));
    assert_eq!((r.option_i64("a"), r.option_i64("b")), (Ok(None), Ok(Some(-5))));
    for value in [0, 127, 128, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(r.varint(), Ok(value));
    }
    assert_eq!((r.bytes(), r.raw(3)), (Ok(&b"ebb"[..]), Ok(&[9; 3][..])));
    assert_eq!(r.finish(), Ok(()));
}

#[test]
fn every_flipped_bit_is_detected() {
    let block = sealed(|w| w.bytes(b"some state"));
    for bit in 0..block.len() * 8 {
        let mut bad = block.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Reader::open(KIND, 1, &bad).is_err(), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_detected() {
    let block = sealed(|w| w.bytes(b"some state"));
    assert!((0..block.len()).all(|length| Reader::open(KIND, 1, &block[..length]).is_err()));
}

#[test]
fn a_newer_version_is_rejected_by_name() {
    let block = Writer::new(KIND, 3).seal();
    let expected = CodecError::Version { kind: "test".into(), found: 3, newest: 2 };
    assert_eq!(Reader::open(KIND, 2, &block).unwrap_err(), expected);
}

#[test]
fn a_count_that_cannot_fit_is_rejected_before_allocating() {
    let block = sealed(|w| w.varint(u64::MAX));
    assert!(Reader::open(KIND, 1, &block).unwrap().count(1).is_err());
}

#[test]
fn padded_and_overlong_varints_are_rejected() {
    for bad in [&[0x80, 0x00][..], &[0xFF; 10], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]] {
        let block = sealed(|w| w.raw(bad));
        assert!(Reader::open(KIND, 1, &block).unwrap().varint().is_err(), "{bad:?}");
    }
}

#[test]
fn trailing_bytes_are_rejected() {
    let block = sealed(|w| w.raw(&[1, 2]));
    assert_eq!(Reader::open(KIND, 1, &block).unwrap().finish(), Err(CodecError::Trailing(2)));
}
