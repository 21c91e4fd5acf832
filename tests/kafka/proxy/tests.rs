//! Each fault of the proxy in front of an echo server.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::{Api, Direction, FaultRule, NetworkConditions, Proxy, RequestFault, RequestHeader};

const READ_TIMEOUT: Duration = Duration::from_secs(5);

fn request(api: Api, correlation: i32, client: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(api.0.to_be_bytes());
    body.extend(1i16.to_be_bytes());
    body.extend(correlation.to_be_bytes());
    body.extend((client.len() as i16).to_be_bytes());
    body.extend(client.as_bytes());
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes(), body].concat()
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Responds with the correlation id and body of each request until the test process ends.
fn start_echo_broker() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                while let Ok(body) = read_frame(&mut stream) {
                    let client_bytes = usize::from(u16::from_be_bytes([body[8], body[9]]));
                    if stream.write_all(&framed(&[&body[4..8], &body[10 + client_bytes..]].concat())).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

fn proxy() -> Proxy {
    let proxy = Proxy::listen(0);
    proxy.set_upstream(start_echo_broker());
    proxy
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection");
    stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
    stream
}

/// Sends a request and returns the correlation id of the response.
fn exchange(stream: &mut TcpStream, api: Api, correlation: i32) -> std::io::Result<i32> {
    stream.write_all(&request(api, correlation, "tester"))?;
    Ok(i32::from_be_bytes(read_frame(stream)?[..4].try_into().expect("four bytes")))
}

#[test]
fn frames_pass_unchanged_and_are_counted_by_api_key() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    for correlation in 0..5 {
        assert_eq!(exchange(&mut stream, Api::PRODUCE, correlation).unwrap(), correlation);
    }
    assert_eq!(exchange(&mut stream, Api::END_TXN, 9).unwrap(), 9);
    let counts = proxy.counts();
    assert_eq!((counts.requests[&0], counts.requests[&26], counts.faults), (5, 1, 0));
}

#[test]
fn request_header_is_parsed_and_a_truncated_one_is_rejected() {
    let frame = request(Api::END_TXN, 7, "ebb-1");
    let header = RequestHeader { api: Api::END_TXN, version: 1, correlation: 7, client: "ebb-1".into() };
    assert_eq!(RequestHeader::parse(&frame), Some(header));
    assert_eq!(RequestHeader::parse(&frame[..15]), None);
    let mut anonymous = request(Api::FETCH, 1, "");
    anonymous[12..14].copy_from_slice(&(-1i16).to_be_bytes());
    assert_eq!(RequestHeader::parse(&anonymous).unwrap().client, "");
}

#[test]
fn rule_applies_only_to_its_api_client_and_position() {
    let proxy = proxy();
    proxy.add_rule(FaultRule { client: "other".into(), ..FaultRule::next(Api::END_TXN, RequestFault::Cut) });
    proxy.add_rule(FaultRule { after: 1, ..FaultRule::next(Api::FETCH, RequestFault::Cut) });
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, Api::END_TXN, 1).unwrap(), 1);
    assert_eq!(exchange(&mut stream, Api::FETCH, 2).unwrap(), 2);
    assert_eq!(exchange(&mut stream, Api::FETCH, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!((proxy.counts().faults, proxy.clear_rules()), (1, 1));
}

#[test]
fn held_request_is_delivered_on_release_and_its_client_can_retry() {
    let proxy = proxy();
    proxy.add_rule(FaultRule::next(Api::END_TXN, RequestFault::Hold));
    let mut stream = connect(&proxy);
    stream.write_all(&request(Api::END_TXN, 77, "tester")).unwrap();
    proxy.wait_for("a request is held", READ_TIMEOUT, |counts| counts.faults == 1);
    assert_eq!(exchange(&mut connect(&proxy), Api::END_TXN, 78).unwrap(), 78);
    assert_eq!(proxy.held(), 1);
    assert_eq!(proxy.release(), [77i32.to_be_bytes().to_vec()]);
    assert_eq!(proxy.held(), 0);
}

#[test]
fn dropped_requests_dropped_responses_and_duplicates_differ() {
    let proxy = proxy();
    for fault in [RequestFault::Drop, RequestFault::DropResponse, RequestFault::Duplicate] {
        proxy.add_rule(FaultRule::next(Api::PRODUCE, fault));
    }
    let mut stream = connect(&proxy);
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(
        exchange(&mut stream, Api::PRODUCE, 1).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "the connection was closed"
    );
    assert_eq!(exchange(&mut stream, Api::FETCH, 2).unwrap(), 2);
    assert_eq!(exchange(&mut stream, Api::PRODUCE, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, Api::PRODUCE, 4).unwrap(), 4);
    assert_eq!(read_frame(&mut stream).unwrap(), 4i32.to_be_bytes(), "the second response");
}

#[test]
fn corruption_flips_one_bit_of_one_large_response() {
    let proxy = proxy();
    proxy.add_rule(FaultRule::next(Api::FETCH, RequestFault::CorruptResponse));
    let mut stream = connect(&proxy);
    assert_eq!((exchange(&mut stream, Api::FETCH, 1).unwrap(), proxy.counts().corrupted), (1, 0));
    let large = [&request(Api::FETCH, 2, "tester")[4..], &[0; 4_000]].concat();
    let mut flipped_bits = || {
        stream.write_all(&framed(&large)).unwrap();
        read_frame(&mut stream).unwrap()[4..].iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    assert_eq!((flipped_bits(), flipped_bits()), (1, 0));
    assert_eq!((proxy.counts().corrupted, proxy.clear_rules()), (1, 0));
}

#[test]
fn connections_are_cut_and_reset_by_client_id_prefix() {
    let proxy = proxy();
    let (mut one, mut two) = (connect(&proxy), connect(&proxy));
    one.write_all(&request(Api::FETCH, 1, "a-1")).unwrap();
    two.write_all(&request(Api::FETCH, 1, "b-1")).unwrap();
    read_frame(&mut one).unwrap();
    read_frame(&mut two).unwrap();
    assert_eq!(proxy.cut("a-"), 1);
    assert_eq!(read_frame(&mut one).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(proxy.reset("b-"), 1);
    assert_eq!(read_frame(&mut two).unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.set_conditions(NetworkConditions { refuses_connections: true, ..NetworkConditions::default() });
    let refused = exchange(&mut connect(&proxy), Api::FETCH, 1).unwrap_err().kind();
    assert!(matches!(refused, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
}

#[test]
fn stalled_direction_is_silent_until_the_stall_ends() {
    for direction in [Direction::ToBroker, Direction::ToClient] {
        let proxy = proxy();
        let mut stream = connect(&proxy);
        assert_eq!(exchange(&mut stream, Api::FETCH, 1).unwrap(), 1);
        proxy.set_conditions(NetworkConditions { stalled: Some(direction), ..NetworkConditions::default() });
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(exchange(&mut stream, Api::FETCH, 2).unwrap_err().kind(), ErrorKind::WouldBlock, "{direction:?}");
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        proxy.set_conditions(NetworkConditions::default());
        assert_eq!(read_frame(&mut stream).unwrap(), 2i32.to_be_bytes());
    }
}

#[test]
fn delay_and_throttle_take_at_least_their_time() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    for conditions in [
        NetworkConditions {
            delay: Duration::from_millis(40),
            jitter: Duration::from_millis(10),
            ..NetworkConditions::default()
        },
        NetworkConditions { bytes_per_second: Some(300), ..NetworkConditions::default() },
    ] {
        proxy.set_conditions(conditions);
        let begun = Instant::now();
        exchange(&mut stream, Api::FETCH, 1).unwrap();
        assert!(begun.elapsed() > Duration::from_millis(75), "{conditions:?}: {:?}", begun.elapsed());
    }
}
