//! One connection through the proxy: whole frames, each direction independent of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::frame;
use super::{ConnectionState, Direction, FaultRule, NetworkConditions, RequestFault, RequestHeader, Shared, lock};

const READ_BYTES: usize = 64 << 10;
/// A smaller response may contain no records.
const MIN_CORRUPTED_BYTES: usize = 1 << 10;

/// Correlation ids of requests whose response is dropped or corrupted.
#[derive(Debug, Default)]
struct ResponseFaults {
    dropped: Mutex<BTreeSet<i32>>,
    corrupted: Mutex<BTreeMap<i32, RequestHeader>>,
}

/// Forwards frames until either side closes the connection or the proxy ends it.
pub async fn run(
    client: TcpStream,
    upstream: SocketAddr,
    shared: &Shared,
    client_id: Arc<Mutex<String>>,
    mut state: watch::Receiver<ConnectionState>,
) {
    let Ok(broker) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), broker.set_nodelay(true));
    let response_faults = ResponseFaults::default();
    let ended = tokio::select! {
        state = state.wait_for(|state| *state != ConnectionState::Open) => {
            state.map_or(ConnectionState::Closed, |state| *state)
        }
        _ = forward_requests(&client, &broker, shared, &client_id, &response_faults) => ConnectionState::Closed,
        _ = forward_responses(&broker, &client, shared, &response_faults) => ConnectionState::Closed,
    };
    if ended == ConnectionState::Reset {
        let _ = (client.set_zero_linger(), broker.set_zero_linger());
    }
}

async fn forward_requests(
    client: &TcpStream,
    broker: &TcpStream,
    shared: &Shared,
    client_id: &Mutex<String>,
    response_faults: &ResponseFaults,
) -> io::Result<()> {
    let mut reader = FrameReader::new(client, Direction::ToBroker, shared);
    loop {
        let request = reader.next_frame().await?;
        let header = RequestHeader::parse(&request).ok_or_else(|| io::Error::other("malformed request"))?;
        lock(client_id).clone_from(&header.client);
        let mut copies = 1;
        match shared.fault_for(&header) {
            None => {}
            Some(RequestFault::Drop) => copies = 0,
            Some(RequestFault::Cut) => return Ok(()),
            Some(RequestFault::Duplicate) => copies = 2,
            Some(RequestFault::FakeSuccess) => {
                let response = frame::success_response(&request);
                let response = response.ok_or_else(|| io::Error::other("no fake response for this request"))?;
                write_frame(client, &response, shared).await?;
                copies = 0;
            }
            Some(RequestFault::Delay(delay)) => tokio::time::sleep(delay).await,
            Some(RequestFault::DropResponse) => {
                lock(&response_faults.dropped).insert(header.correlation);
            }
            Some(RequestFault::CorruptResponse) => {
                lock(&response_faults.corrupted).insert(header.correlation, header);
            }
            Some(RequestFault::Hold) => {
                lock(&shared.held).push(request.clone());
                copies = 0;
            }
        }
        for _ in 0..copies {
            write_frame(broker, &request, shared).await?;
        }
    }
}

async fn forward_responses(
    broker: &TcpStream,
    client: &TcpStream,
    shared: &Shared,
    response_faults: &ResponseFaults,
) -> io::Result<()> {
    let mut reader = FrameReader::new(broker, Direction::ToClient, shared);
    loop {
        let mut response = reader.next_frame().await?;
        let correlation = frame::response_correlation(&response);
        if correlation.is_some_and(|correlation| lock(&response_faults.dropped).contains(&correlation)) {
            return Ok(());
        }
        if let Some(header) = correlation.and_then(|correlation| lock(&response_faults.corrupted).remove(&correlation))
        {
            corrupt(&mut response, &header, shared);
        }
        write_frame(client, &response, shared).await?;
    }
}

fn corrupt(response: &mut [u8], header: &RequestHeader, shared: &Shared) {
    if response.len() < MIN_CORRUPTED_BYTES {
        let rule = FaultRule::next(header.api, RequestFault::CorruptResponse);
        return lock(&shared.rules).push(FaultRule { client: header.client.clone(), ..rule });
    }
    // Far behind the headers of the response and of its batches, so that a record is hit.
    let at = response.len() * 3 / 4;
    response[at] ^= 1;
    lock(&shared.counts).corrupted += 1;
}

/// Reads whole frames from one side under the conditions of its direction.
struct FrameReader<'a> {
    stream: &'a TcpStream,
    direction: Direction,
    conditions: watch::Receiver<NetworkConditions>,
    buffer: Vec<u8>,
}

impl<'a> FrameReader<'a> {
    fn new(stream: &'a TcpStream, direction: Direction, shared: &Shared) -> Self {
        Self { stream, direction, conditions: shared.conditions.subscribe(), buffer: Vec::new() }
    }

    /// The next frame, length included.
    async fn next_frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<4>() {
                let total = 4 + frame::frame_length(*length)?;
                if self.buffer.len() >= total {
                    let rest = self.buffer.split_off(total);
                    return Ok(std::mem::replace(&mut self.buffer, rest));
                }
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        let direction = self.direction;
        let clear = self.conditions.wait_for(|conditions| conditions.stalled != Some(direction)).await;
        clear.map_err(|_| io::Error::other("the proxy was dropped"))?;
        self.stream.readable().await?;
        // The stall may have begun while the stream was idle.
        if self.conditions.borrow().stalled == Some(direction) {
            return Ok(());
        }
        let mut bytes = vec![0; READ_BYTES];
        match self.stream.try_read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn write_frame(stream: &TcpStream, bytes: &[u8], shared: &Shared) -> io::Result<()> {
    let conditions = *shared.conditions.borrow();
    let mut pause = conditions.delay;
    if !conditions.jitter.is_zero() {
        // A hash of the frame is random enough.
        let hash = bytes.iter().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        pause += conditions.jitter.mul_f64(f64::from(hash % 1000) / 1000.0);
    }
    if let Some(rate) = conditions.bytes_per_second {
        pause += Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
    }
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
