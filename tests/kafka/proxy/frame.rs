//! Headers of Kafka requests: length, API key, version, correlation id, client id.

use std::io;

/// Above the request size limit of any broker.
const MAX_FRAME_BYTES: i32 = 128 << 20;

/// The API key of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Api(pub i16);

impl Api {
    pub const PRODUCE: Api = Api(0);
    pub const FETCH: Api = Api(1);
    pub const ADD_PARTITIONS_TO_TXN: Api = Api(24);
    pub const ADD_OFFSETS_TO_TXN: Api = Api(25);
    pub const END_TXN: Api = Api(26);
    pub const TXN_OFFSET_COMMIT: Api = Api(28);
}

/// The header of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    pub api: Api,
    pub version: i16,
    pub correlation: i32,
    pub client: String,
}

impl RequestHeader {
    /// Parses a whole frame, length included.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let read_i16 = |at: usize| Some(i16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
        let client_bytes = usize::try_from(read_i16(12)?).unwrap_or(0);
        Some(Self {
            api: Api(read_i16(4)?),
            version: read_i16(6)?,
            correlation: read_i32(frame, 8)?,
            client: String::from_utf8_lossy(frame.get(14..14 + client_bytes)?).into_owned(),
        })
    }
}

fn read_i32(frame: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// The correlation id of a response.
pub fn response_correlation(frame: &[u8]) -> Option<i32> {
    read_i32(frame, 4)
}

/// Decodes the length at the start of a frame.
pub fn frame_length(bytes: [u8; 4]) -> io::Result<usize> {
    match i32::from_be_bytes(bytes) {
        length @ 0..=MAX_FRAME_BYTES => Ok(length as usize),
        length => Err(io::Error::other(format!("invalid frame length {length}"))),
    }
}

/// The success response to an `ADD_PARTITIONS_TO_TXN` or `ADD_OFFSETS_TO_TXN` request, version 0.
pub fn success_response(request: &[u8]) -> Option<Vec<u8>> {
    let header = RequestHeader::parse(request).filter(|header| header.version == 0)?;
    let body = match header.api {
        Api::ADD_PARTITIONS_TO_TXN => add_partitions_response(request, &header)?,
        Api::ADD_OFFSETS_TO_TXN => [&header.correlation.to_be_bytes()[..], &[0; 6]].concat(),
        _ => return None,
    };
    Some([&(body.len() as u32).to_be_bytes()[..], &body].concat())
}

fn add_partitions_response(request: &[u8], header: &RequestHeader) -> Option<Vec<u8>> {
    let mut rest = request.get(14 + header.client.len()..)?;
    let mut take = |bytes: usize| {
        let (head, tail) = rest.split_at_checked(bytes)?;
        rest = tail;
        Some(head)
    };
    let to_u16 = |bytes: &[u8]| Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)));
    let to_u32 = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let id_bytes = to_u16(take(2)?)?;
    // Transactional id, producer id, producer epoch.
    take(id_bytes + 8 + 2)?;
    let topics = take(4)?;
    let mut body = [&header.correlation.to_be_bytes()[..], &[0; 4], topics].concat();
    for _ in 0..to_u32(topics)? {
        let length = take(2)?;
        body.extend_from_slice(length);
        body.extend_from_slice(take(to_u16(length)?)?);
        let partitions = take(4)?;
        body.extend_from_slice(partitions);
        for _ in 0..to_u32(partitions)? {
            body.extend_from_slice(take(4)?);
            // Error code 0.
            body.extend_from_slice(&[0; 2]);
        }
    }
    Some(body)
}
