//! Limits on the time, bytes and connections of clients.

use std::time::{Duration, Instant};

use ebb::http::HttpLimits;
use tokio::net::TcpSocket;

use super::server::{Client, ClientInput, HANG_TIMEOUT, SHORT, Server, decision, eventually, no_timeouts, post};

/// Pause between the bytes of a slow client.
const SEND_PAUSE: Duration = Duration::from_millis(25);

#[tokio::test]
async fn silent_connection_is_closed() {
    let server = Server::start(HttpLimits { first_byte_timeout: SHORT, ..no_timeouts() }).await;
    let started = Instant::now();
    let mut silent = server.connect().await;
    assert_eq!(silent.rest().await, "");
    assert!(started.elapsed() >= SHORT);
    assert_eq!(server.timeouts("fresh"), 1);
    server.assert_serving().await;
}

#[tokio::test]
async fn slow_head_is_closed() {
    let server = Server::start(HttpLimits { header_timeout: SHORT, ..no_timeouts() }).await;
    let started = Instant::now();
    let mut client = server.connect().await;
    let mut head = b"GET /livez HTTP/1.1\r\nhost: ebb\r\nx-slow: ".iter().copied().chain(std::iter::repeat(b'a'));
    loop {
        client.send(&[head.next().unwrap()]).await;
        match client.within(SEND_PAUSE).await {
            ClientInput::Nothing => assert!(started.elapsed() < HANG_TIMEOUT, "the slow connection is not closed"),
            ClientInput::End => break,
            ClientInput::Bytes(bytes) => panic!("{bytes}"),
        }
    }
    assert!(started.elapsed() >= SHORT);
    assert_eq!(server.timeouts("head"), 1);
    server.assert_serving().await;
}

#[tokio::test]
async fn slow_second_head_is_closed() {
    let server = Server::start(HttpLimits { header_timeout: SHORT, ..no_timeouts() }).await;
    let mut client = server.connect().await;
    client.send(decision("").as_bytes()).await;
    client.answer().await;
    client.send(b"GET /livez HTTP/1.1\r\n").await;
    assert_eq!(client.rest().await, "");
    assert_eq!(server.timeouts("head"), 1);
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..no_timeouts() }).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(decision("").as_bytes()).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200"));
    }
    let started = Instant::now();
    assert_eq!(client.rest().await, "");
    assert!(started.elapsed() >= SHORT / 2, "the idle timeout applies: {:?}", started.elapsed());
    assert_eq!(server.timeouts("answered"), 1);
}

#[tokio::test]
async fn slow_body_is_answered_with_408() {
    let server = Server::start(HttpLimits { request_timeout: SHORT, ..no_timeouts() }).await;
    for headers in ["content-length: 1000\r\n", "transfer-encoding: chunked\r\n"] {
        let started = Instant::now();
        let mut client = server.connect().await;
        client.send(post(headers, "").as_bytes()).await;
        let answer = loop {
            let next = if headers.starts_with('c') { "a" } else { "1\r\na\r\n" };
            client.send(next.as_bytes()).await;
            match client.within(SEND_PAUSE).await {
                ClientInput::Nothing => assert!(started.elapsed() < HANG_TIMEOUT, "the slow connection is not closed"),
                ClientInput::Bytes(bytes) => break bytes + &client.rest().await,
                ClientInput::End => panic!("closed without an answer"),
            }
        };
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("/problems/body-timeout"), "{answer}");
        assert!(started.elapsed() >= SHORT);
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn declared_body_above_the_limit_is_refused_before_it_is_read() {
    let server = Server::start(HttpLimits { max_body_bytes: 1024, ..no_timeouts() }).await;
    for length in ["1025", "999999999999"] {
        let answer = server.exchange(post(&format!("content-length: {length}\r\n"), "").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("/problems/body-too-large"), "{answer}");
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn oversized_body_is_refused_and_the_client_receives_the_response() {
    let server = Server::start(HttpLimits { max_body_bytes: 1024, ..no_timeouts() }).await;
    let oversized = "x".repeat(600 << 10);
    let declared = post(&format!("content-length: {}\r\n", oversized.len()), &oversized);
    let chunk = format!("{:x}\r\n{oversized}\r\n", oversized.len());
    for request in [declared, post("transfer-encoding: chunked\r\n", &chunk)] {
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    // A client that keeps sending is not reset at once: a reset could destroy the response in transit.
    let mut client = server.connect().await;
    client.send(post("content-length: 100000000\r\n", &oversized).as_bytes()).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 413 "));
    for _ in 0..16 {
        assert!(client.write(&[b'x'; 4096]).await, "the connection was reset");
    }
    // A client that never stops sending is disconnected.
    let mut client = server.connect().await;
    client.send(post("transfer-encoding: chunked\r\n", "").as_bytes()).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let sending = async { while client.write(chunk.as_bytes()).await {} };
    tokio::time::timeout(HANG_TIMEOUT, sending).await.expect("the connection is closed");
    server.assert_serving().await;
}

#[tokio::test]
async fn head_is_limited_in_lines_and_bytes() {
    let server = Server::start(no_timeouts()).await;
    let lines = |count: usize| (0..count).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
    // A valid request has host, content-type, content-length and connection.
    let accepted = server.exchange(decision(&(lines(60) + "connection: close\r\n")).as_bytes()).await;
    assert!(accepted.starts_with("HTTP/1.1 200 "), "{accepted}");
    let bytes = |count: usize| format!("x: {}\r\nconnection: close\r\n", "y".repeat(count));
    let large = server.exchange(decision(&bytes(15 << 10)).as_bytes()).await;
    assert!(large.starts_with("HTTP/1.1 200 "), "{large}");
    for headers in [lines(61) + "connection: close\r\n", lines(5_000), bytes(16 << 10), bytes(3 << 20)] {
        let refused = server.exchange(decision(&headers).as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    }
    let counted = server.service.api.metrics.http_requests.with_label_values(&["other", "431"]);
    eventually("all are counted", || counted.get() == 4).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn client_that_does_not_read_responses_is_closed() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..no_timeouts() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client(socket.connect(server.address).await.unwrap());
    // Each response has about a megabyte: several exceed the socket buffers.
    let body = format!(r#"{{"events":[{}]}}"#, vec!["0"; 10_000].join(","));
    let request = post(&format!("content-length: {}\r\n", body.len()), &body).repeat(30);
    client.send(request.as_bytes()).await;
    eventually("the connection times out", || server.timeouts("answered") == 1).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn connections_above_the_limit_are_closed() {
    let server = Server::start(HttpLimits { max_connections: 3, ..no_timeouts() }).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        client.send(decision("").as_bytes()).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        clients.push(client);
    }
    let metrics = &server.service.api.metrics;
    assert_eq!(metrics.http_connections.get(), 3);
    for refused in 1..=2 {
        assert_eq!(server.exchange(decision("").as_bytes()).await, "");
        assert_eq!(metrics.http_refused.get(), refused);
    }
    clients[0].send(decision("").as_bytes()).await;
    assert!(clients[0].answer().await.starts_with("HTTP/1.1 200 "), "an open connection is kept");
    clients.pop();
    eventually("the connection is closed", || metrics.http_connections.get() == 2).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn connections_per_address_are_limited_if_configured() {
    let server = Server::start(HttpLimits { max_connections_per_address: Some(1), ..no_timeouts() }).await;
    let mut client = server.connect().await;
    client.send(decision("").as_bytes()).await;
    client.answer().await;
    assert_eq!(server.exchange(decision("").as_bytes()).await, "");
    drop(client);
    eventually("the connection is closed", || server.service.api.metrics.http_connections.get() == 0).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn idle_and_slow_connections_do_not_block_requests() {
    let server =
        Server::start(HttpLimits { first_byte_timeout: HANG_TIMEOUT, header_timeout: HANG_TIMEOUT, ..no_timeouts() })
            .await;
    let mut idle = Vec::new();
    for number in 0..300 {
        let mut client = server.connect().await;
        match number % 3 {
            0 => {}
            1 => client.send(b"GET /livez HT").await,
            _ => client.send(post("content-length: 100\r\n", "{").as_bytes()).await,
        }
        idle.push(client);
    }
    for _ in 0..20 {
        server.assert_serving().await;
    }
    assert!(server.service.api.metrics.http_connections.get() >= 300);
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight_and_accepts_no_others() {
    let server = Server::start(no_timeouts()).await;
    let mut idle = server.connect().await;
    idle.send(decision("").as_bytes()).await;
    idle.answer().await;
    let fresh = server.connect().await;
    let mut in_flight = server.connect().await;
    let request = decision("expect: 100-continue\r\n");
    let (first, last) = request.split_at(request.len() - 1);
    in_flight.send(first.as_bytes()).await;
    assert_eq!(in_flight.within(HANG_TIMEOUT).await, ClientInput::Bytes("HTTP/1.1 100 Continue\r\n\r\n".into()));
    eventually("all are accepted", || server.service.api.metrics.http_connections.get() == 3).await;
    let address = server.address;
    let (serving, service) = server.shut_down();
    assert_eq!(idle.rest().await, "");
    assert_eq!(Client(fresh.0).rest().await, "");
    eventually("no connection is accepted", || std::net::TcpStream::connect(address).is_err()).await;
    assert!(!serving.is_finished());
    in_flight.send(last.as_bytes()).await;
    let answer = in_flight.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    tokio::time::timeout(HANG_TIMEOUT, serving).await.expect("no request is left").unwrap();
    assert_eq!(service.api.metrics.http_connections.get(), 0);
}

#[tokio::test]
async fn shutdown_ends_at_the_drain_timeout() {
    let server = Server::start(HttpLimits { drain: SHORT, ..no_timeouts() }).await;
    let mut in_flight = server.connect().await;
    in_flight.send(post("content-length: 100\r\nexpect: 100-continue\r\n", "{").as_bytes()).await;
    assert_eq!(in_flight.within(HANG_TIMEOUT).await, ClientInput::Bytes("HTTP/1.1 100 Continue\r\n\r\n".into()));
    let started = Instant::now();
    let (serving, service) = server.shut_down();
    tokio::time::timeout(HANG_TIMEOUT, serving).await.expect("shutdown ends").unwrap();
    assert!(started.elapsed() >= SHORT);
    assert_eq!(in_flight.rest().await, "");
    assert_eq!(service.api.metrics.http_connections.get(), 0);
}
