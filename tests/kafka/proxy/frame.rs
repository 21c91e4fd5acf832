//! The beginning of a Kafka request: length, API key, version, correlation id, client id.

use std::io;

/// Longer than any request a broker takes.
const MOST_BYTES: i32 = 128 << 20;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api(pub i16);

impl Api {
    pub const PRODUCE: Api = Api(0);
    pub const FETCH: Api = Api(1);
    pub const METADATA: Api = Api(3);
    pub const OFFSET_COMMIT: Api = Api(8);
    pub const OFFSET_FETCH: Api = Api(9);
    pub const JOIN_GROUP: Api = Api(11);
    pub const HEARTBEAT: Api = Api(12);
    pub const INIT_PRODUCER_ID: Api = Api(22);
    pub const ADD_PARTITIONS_TO_TXN: Api = Api(24);
    pub const ADD_OFFSETS_TO_TXN: Api = Api(25);
    pub const END_TXN: Api = Api(26);
    pub const TXN_OFFSET_COMMIT: Api = Api(28);
}

/// What a request says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub api: Api,
    pub version: i16,
    pub correlation: i32,
    pub client: String,
}

impl Head {
    /// From a whole frame, length included.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let short = |at: usize| Some(i16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
        let client_bytes = usize::try_from(short(12)?).unwrap_or(0);
        Some(Self {
            api: Api(short(4)?),
            version: short(6)?,
            correlation: correlation_of(frame)?.1,
            client: String::from_utf8_lossy(frame.get(14..14 + client_bytes)?).into_owned(),
        })
    }
}

/// The correlation ids of a frame read as a reply, and as a request.
pub fn correlation_of(frame: &[u8]) -> Option<(i32, i32)> {
    let number = |at: usize| Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
    Some((number(4)?, number(8).unwrap_or(0)))
}

/// The length that a frame's first four bytes declare.
pub fn length_of(bytes: [u8; 4]) -> io::Result<usize> {
    match i32::from_be_bytes(bytes) {
        length @ 0..=MOST_BYTES => Ok(length as usize),
        length => Err(io::Error::other(format!("a frame of {length} bytes"))),
    }
}

/// What a coordinator answers that has done what `ADD_PARTITIONS_TO_TXN` or `ADD_OFFSETS_TO_TXN` (version 0) ask for.
pub fn agreement(frame: &[u8]) -> Option<Vec<u8>> {
    let head = Head::parse(frame).filter(|head| head.version == 0)?;
    let body = match head.api {
        Api::ADD_PARTITIONS_TO_TXN => added_partitions(frame, &head)?,
        Api::ADD_OFFSETS_TO_TXN => [&head.correlation.to_be_bytes()[..], &[0; 6]].concat(),
        _ => return None,
    };
    Some([&(body.len() as u32).to_be_bytes()[..], &body].concat())
}

fn added_partitions(frame: &[u8], head: &Head) -> Option<Vec<u8>> {
    let mut rest = frame.get(14 + head.client.len()..)?;
    let mut take = |bytes: usize| {
        let (taken, behind) = rest.split_at_checked(bytes)?;
        rest = behind;
        Some(taken)
    };
    let short = |bytes: &[u8]| Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)));
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let name_bytes = short(take(2)?)?;
    // The transaction's name, the producer's number and its epoch.
    take(name_bytes + 8 + 2)?;
    let topics = take(4)?;
    let mut body = [&head.correlation.to_be_bytes()[..], &[0; 4], topics].concat();
    for _ in 0..number(topics)? {
        let length = take(2)?;
        body.extend_from_slice(length);
        body.extend_from_slice(take(short(length)?)?);
        let partitions = take(4)?;
        body.extend_from_slice(partitions);
        for _ in 0..number(partitions)? {
            body.extend_from_slice(take(4)?);
            body.extend_from_slice(&[0; 2]);
        }
    }
    Some(body)
}
