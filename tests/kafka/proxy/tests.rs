//! The proxy's cruelties, one by one, on a broker that only echoes.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::{Act, Api, Head, Proxy, Rule, Way, Weather};

const SOON: Duration = Duration::from_secs(5);

/// A request of our making.
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

/// Answers each request with its correlation id and what follows its client's name; serves until the test process ends.
fn echoing_broker() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                while let Ok(body) = read_frame(&mut stream) {
                    let name_bytes = usize::from(u16::from_be_bytes([body[8], body[9]]));
                    if stream.write_all(&framed(&[&body[4..8], &body[10 + name_bytes..]].concat())).is_err() {
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
    proxy.point_at(echoing_broker());
    proxy
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    stream
}

/// Sends and returns the correlation id of the reply.
fn ask(stream: &mut TcpStream, api: Api, correlation: i32) -> std::io::Result<i32> {
    stream.write_all(&request(api, correlation, "tester"))?;
    Ok(i32::from_be_bytes(read_frame(stream)?[..4].try_into().expect("four bytes")))
}

#[test]
fn frames_pass_unchanged_and_are_counted_by_kind() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    for correlation in 0..5 {
        assert_eq!(ask(&mut stream, Api::PRODUCE, correlation).unwrap(), correlation);
    }
    assert_eq!(ask(&mut stream, Api::END_TXN, 9).unwrap(), 9);
    let counts = proxy.counts();
    assert_eq!((counts.requests[&0], counts.requests[&26], counts.acts), (5, 1, 0));
}

#[test]
fn a_head_is_read_and_a_short_one_is_not() {
    let whole = request(Api::END_TXN, 7, "ebb-1");
    let head = Head { api: Api::END_TXN, version: 1, correlation: 7, client: "ebb-1".into() };
    assert_eq!(Head::parse(&whole), Some(head));
    assert_eq!(Head::parse(&whole[..15]), None);
    let mut nameless = request(Api::FETCH, 1, "");
    nameless[12..14].copy_from_slice(&(-1i16).to_be_bytes());
    assert_eq!(Head::parse(&nameless).unwrap().client, "");
}

#[test]
fn a_rule_waits_for_its_kind_its_client_and_its_turn() {
    let proxy = proxy();
    proxy.add_rule(Rule { client: "other".into(), ..Rule::next(Api::END_TXN, Act::Cut) });
    proxy.add_rule(Rule { after: 1, ..Rule::next(Api::FETCH, Act::Cut) });
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, Api::END_TXN, 1).unwrap(), 1);
    assert_eq!(ask(&mut stream, Api::FETCH, 2).unwrap(), 2);
    assert_eq!(ask(&mut stream, Api::FETCH, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!((proxy.counts().acts, proxy.clear_rules()), (1, 1));
}

#[test]
fn a_held_request_arrives_later_and_the_client_may_try_again() {
    let proxy = proxy();
    proxy.add_rule(Rule::next(Api::END_TXN, Act::Hold));
    let mut stream = connect(&proxy);
    stream.write_all(&request(Api::END_TXN, 77, "tester")).unwrap();
    proxy.wait_for("held request", SOON, |counts| counts.acts == 1);
    assert_eq!(ask(&mut connect(&proxy), Api::END_TXN, 78).unwrap(), 78);
    assert_eq!(proxy.held(), 1);
    assert_eq!(proxy.release(), [77i32.to_be_bytes().to_vec()]);
    assert_eq!(proxy.held(), 0);
}

#[test]
fn lost_requests_lost_replies_and_repeats_are_told_apart() {
    let proxy = proxy();
    for act in [Act::Lose, Act::LoseReply, Act::Repeat] {
        proxy.add_rule(Rule::next(Api::PRODUCE, act));
    }
    let mut stream = connect(&proxy);
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(ask(&mut stream, Api::PRODUCE, 1).unwrap_err().kind(), ErrorKind::WouldBlock, "the connection stays");
    assert_eq!(ask(&mut stream, Api::FETCH, 2).unwrap(), 2);
    assert_eq!(ask(&mut stream, Api::PRODUCE, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, Api::PRODUCE, 4).unwrap(), 4);
    assert_eq!(read_frame(&mut stream).unwrap(), 4i32.to_be_bytes(), "the second reply");
}

#[test]
fn one_bit_of_one_large_reply_is_flipped() {
    let proxy = proxy();
    proxy.add_rule(Rule::next(Api::FETCH, Act::Damage));
    let mut stream = connect(&proxy);
    assert_eq!((ask(&mut stream, Api::FETCH, 1).unwrap(), proxy.counts().damaged), (1, 0));
    let large = [&request(Api::FETCH, 2, "tester")[4..], &[0; 4_000]].concat();
    let mut flipped = || {
        stream.write_all(&framed(&large)).unwrap();
        read_frame(&mut stream).unwrap()[4..].iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    assert_eq!((flipped(), flipped()), (1, 0));
    assert_eq!((proxy.counts().damaged, proxy.clear_rules()), (1, 0));
}

#[test]
fn connections_are_cut_and_reset_by_client() {
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
    proxy.set_weather(Weather { refuses: true, ..Weather::default() });
    let refused = ask(&mut connect(&proxy), Api::FETCH, 1).unwrap_err().kind();
    assert!(matches!(refused, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
}

#[test]
fn a_stalled_way_says_nothing_until_the_stall_is_over() {
    for way in [Way::ToBroker, Way::ToClient] {
        let proxy = proxy();
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, Api::FETCH, 1).unwrap(), 1);
        proxy.set_weather(Weather { stalled: Some(way), ..Weather::default() });
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(ask(&mut stream, Api::FETCH, 2).unwrap_err().kind(), ErrorKind::WouldBlock, "{way:?}");
        stream.set_read_timeout(Some(SOON)).unwrap();
        proxy.set_weather(Weather::default());
        assert_eq!(read_frame(&mut stream).unwrap(), 2i32.to_be_bytes());
    }
}

#[test]
fn delay_and_throttle_cost_at_least_their_time() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    for weather in [
        Weather { delay: Duration::from_millis(40), jitter: Duration::from_millis(10), ..Weather::default() },
        Weather { bytes_per_second: Some(300), ..Weather::default() },
    ] {
        proxy.set_weather(weather);
        let begun = Instant::now();
        ask(&mut stream, Api::FETCH, 1).unwrap();
        assert!(begun.elapsed() > Duration::from_millis(75), "{weather:?}: {:?}", begun.elapsed());
    }
}
