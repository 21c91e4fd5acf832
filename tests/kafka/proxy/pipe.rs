//! One connection through the proxy: whole frames, each way on its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::frame::{self, Head};
use super::{Act, Fate, Rule, Shared, Way, Weather, lock};

const PIECE_BYTES: usize = 64 << 10;

/// A reply this small may hold no records.
const LEAST_DAMAGED_BYTES: usize = 1 << 10;

/// Requests whose reply must not arrive, or not as it was sent.
#[derive(Debug, Default)]
struct Doomed {
    lost: Mutex<BTreeSet<i32>>,
    damaged: Mutex<BTreeMap<i32, Head>>,
}

/// Carries frames until either side closes or fate strikes.
pub async fn run(
    client: TcpStream,
    upstream: SocketAddr,
    shared: &Shared,
    name: Arc<Mutex<String>>,
    mut fated: watch::Receiver<Fate>,
) {
    let Ok(broker) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), broker.set_nodelay(true));
    let doomed = Doomed::default();
    let ended = tokio::select! {
        fate = fated.wait_for(|fate| *fate != Fate::Alive) => fate.map_or(Fate::Closed, |fate| *fate),
        _ = requests(&client, &broker, shared, &name, &doomed) => Fate::Closed,
        _ = replies(&broker, &client, shared, &doomed) => Fate::Closed,
    };
    if ended == Fate::Reset {
        let _ = (client.set_zero_linger(), broker.set_zero_linger());
    }
}

async fn requests(
    client: &TcpStream,
    broker: &TcpStream,
    shared: &Shared,
    name: &Mutex<String>,
    doomed: &Doomed,
) -> io::Result<()> {
    let mut source = Source::new(client, Way::ToBroker, shared);
    loop {
        let request = source.frame().await?;
        let head = Head::parse(&request).ok_or_else(|| io::Error::other("not a request"))?;
        lock(name).clone_from(&head.client);
        let mut copies = 1;
        match shared.judge(&head) {
            None => {}
            Some(Act::Lose) => copies = 0,
            Some(Act::Cut) => return Ok(()),
            Some(Act::Repeat) => copies = 2,
            Some(Act::Pretend) => {
                let reply = frame::agreement(&request).ok_or_else(|| io::Error::other("nothing to agree to"))?;
                write_all(client, &reply, shared).await?;
                copies = 0;
            }
            Some(Act::Delay(delay)) => tokio::time::sleep(delay).await,
            Some(Act::LoseReply) => {
                lock(&doomed.lost).insert(head.correlation);
            }
            Some(Act::Damage) => {
                lock(&doomed.damaged).insert(head.correlation, head);
            }
            Some(Act::Hold) => {
                lock(&shared.held).push(request.clone());
                copies = 0;
            }
        }
        for _ in 0..copies {
            write_all(broker, &request, shared).await?;
        }
    }
}

async fn replies(broker: &TcpStream, client: &TcpStream, shared: &Shared, doomed: &Doomed) -> io::Result<()> {
    let mut source = Source::new(broker, Way::ToClient, shared);
    loop {
        let mut reply = source.frame().await?;
        let correlation = frame::correlation_of(&reply).map(|(reply, _)| reply);
        if correlation.is_some_and(|correlation| lock(&doomed.lost).contains(&correlation)) {
            return Ok(());
        }
        if let Some(head) = correlation.and_then(|correlation| lock(&doomed.damaged).remove(&correlation)) {
            damage(&mut reply, &head, shared);
        }
        write_all(client, &reply, shared).await?;
    }
}

fn damage(reply: &mut [u8], head: &Head, shared: &Shared) {
    if reply.len() < LEAST_DAMAGED_BYTES {
        return lock(&shared.rules).push(Rule { client: head.client.clone(), ..Rule::next(head.api, Act::Damage) });
    }
    // Far behind the heads of the reply and of its parts: in a record, that is.
    let at = reply.len() * 3 / 4;
    reply[at] ^= 1;
    lock(&shared.counts).damaged += 1;
}

/// Whole frames from one side, under the weather of their way.
struct Source<'a> {
    stream: &'a TcpStream,
    way: Way,
    weather: watch::Receiver<Weather>,
    bytes: Vec<u8>,
}

impl<'a> Source<'a> {
    fn new(stream: &'a TcpStream, way: Way, shared: &Shared) -> Self {
        Self { stream, way, weather: shared.weather.subscribe(), bytes: Vec::new() }
    }

    /// The next frame, length included.
    async fn frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = self.bytes.first_chunk::<4>() {
                let whole = 4 + frame::length_of(*length)?;
                if self.bytes.len() >= whole {
                    let rest = self.bytes.split_off(whole);
                    return Ok(std::mem::replace(&mut self.bytes, rest));
                }
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        let way = self.way;
        let clear = self.weather.wait_for(|weather| weather.stalled != Some(way)).await;
        clear.map_err(|_| io::Error::other("the proxy has ended"))?;
        self.stream.readable().await?;
        // A stall that began while nothing came holds what comes now.
        if self.weather.borrow().stalled == Some(way) {
            return Ok(());
        }
        let mut piece = vec![0; PIECE_BYTES];
        match self.stream.try_read(&mut piece) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.bytes.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn write_all(stream: &TcpStream, bytes: &[u8], shared: &Shared) -> io::Result<()> {
    let weather = *shared.weather.borrow();
    let mut pause = weather.delay;
    if !weather.jitter.is_zero() {
        // What passes is as good as a die here.
        let lot = bytes.iter().fold(0u32, |lot, byte| lot.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        pause += weather.jitter.mul_f64(f64::from(lot % 1000) / 1000.0);
    }
    if let Some(rate) = weather.bytes_per_second {
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
