//! What a client may cost: time, bytes, connections.

use std::time::{Duration, Instant};

use ebb::http::HttpLimits;
use tokio::net::TcpSocket;

use super::server::{Came, Client, FOR_EVER, SHORT, Server, decision, eventually, patient, post};

/// Between the bytes of a client that drips.
const DRIP: Duration = Duration::from_millis(25);

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let server = Server::start(HttpLimits { first_byte_timeout: SHORT, ..patient() }).await;
    let started = Instant::now();
    let mut silent = server.connect().await;
    assert_eq!(silent.rest().await, "");
    assert!(started.elapsed() >= SHORT);
    assert_eq!(server.timeouts("fresh"), 1);
    server.assert_answers().await;
}

#[tokio::test]
async fn a_head_that_drips_is_closed_however_steadily_it_comes() {
    let server = Server::start(HttpLimits { header_timeout: SHORT, ..patient() }).await;
    let started = Instant::now();
    let mut client = server.connect().await;
    let mut head = b"GET /livez HTTP/1.1\r\nhost: ebb\r\nx-slow: ".iter().copied().chain(std::iter::repeat(b'a'));
    loop {
        client.send(&[head.next().unwrap()]).await;
        match client.within(DRIP).await {
            Came::Nothing => assert!(started.elapsed() < FOR_EVER, "dripping has no end"),
            Came::End => break,
            Came::Bytes(bytes) => panic!("{bytes}"),
        }
    }
    assert!(started.elapsed() >= SHORT);
    assert_eq!(server.timeouts("head"), 1);
    server.assert_answers().await;
}

#[tokio::test]
async fn a_second_head_that_drips_is_closed_too() {
    let server = Server::start(HttpLimits { header_timeout: SHORT, ..patient() }).await;
    let mut client = server.connect().await;
    client.send(decision("").as_bytes()).await;
    client.answer().await;
    client.send(b"GET /livez HTTP/1.1\r\n").await;
    assert_eq!(client.rest().await, "");
    assert_eq!(server.timeouts("head"), 1);
}

#[tokio::test]
async fn a_connection_that_waits_for_its_next_request_is_kept_only_so_long() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..patient() }).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(decision("").as_bytes()).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200"));
    }
    let started = Instant::now();
    assert_eq!(client.rest().await, "");
    assert!(started.elapsed() >= SHORT / 2, "it was given time: {:?}", started.elapsed());
    assert_eq!(server.timeouts("answered"), 1);
}

#[tokio::test]
async fn a_body_that_drips_is_answered_with_408() {
    let server = Server::start(HttpLimits { request_timeout: SHORT, ..patient() }).await;
    for headers in ["content-length: 1000\r\n", "transfer-encoding: chunked\r\n"] {
        let started = Instant::now();
        let mut client = server.connect().await;
        client.send(post(headers, "").as_bytes()).await;
        let answer = loop {
            let drip = if headers.starts_with('c') { "a" } else { "1\r\na\r\n" };
            client.send(drip.as_bytes()).await;
            match client.within(DRIP).await {
                Came::Nothing => assert!(started.elapsed() < FOR_EVER, "dripping has no end"),
                Came::Bytes(bytes) => break bytes + &client.rest().await,
                Came::End => panic!("closed without an answer"),
            }
        };
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("/problems/body-timeout"), "{answer}");
        assert!(started.elapsed() >= SHORT);
    }
    server.assert_answers().await;
}

#[tokio::test]
async fn a_declared_body_above_the_limit_is_refused_before_it_comes() {
    let server = Server::start(HttpLimits { max_body_bytes: 1024, ..patient() }).await;
    for length in ["1025", "999999999999"] {
        let answer = server.exchange(post(&format!("content-length: {length}\r\n"), "").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("/problems/body-too-large"), "{answer}");
    }
    server.assert_answers().await;
}

#[tokio::test]
async fn a_client_that_pours_is_refused_and_still_reads_why() {
    let server = Server::start(HttpLimits { max_body_bytes: 1024, ..patient() }).await;
    let poured = "x".repeat(600 << 10);
    let declared = post(&format!("content-length: {}\r\n", poured.len()), &poured);
    let chunk = format!("{:x}\r\n{poured}\r\n", poured.len());
    for request in [declared, post("transfer-encoding: chunked\r\n", &chunk)] {
        let answer = server.exchange(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    // Who goes on after the answer is not reset at once, or the answer might be lost on its way.
    let mut client = server.connect().await;
    client.send(post("content-length: 100000000\r\n", &poured).as_bytes()).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 413 "));
    for _ in 0..16 {
        assert!(client.write(&[b'x'; 4096]).await, "the connection was reset");
    }
    // Without an end, the answer cannot be awaited: the connection is closed in the face of the one who pours.
    let mut client = server.connect().await;
    client.send(post("transfer-encoding: chunked\r\n", "").as_bytes()).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let pouring = async { while client.write(chunk.as_bytes()).await {} };
    tokio::time::timeout(FOR_EVER, pouring).await.expect("pouring has an end");
    server.assert_answers().await;
}

#[tokio::test]
async fn heads_are_limited_in_lines_and_bytes() {
    let server = Server::start(patient()).await;
    let lines = |count: usize| (0..count).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
    // A healthy request has host, content-type, content-length and connection.
    let most = server.exchange(decision(&(lines(60) + "connection: close\r\n")).as_bytes()).await;
    assert!(most.starts_with("HTTP/1.1 200 "), "{most}");
    let bytes = |count: usize| format!("x: {}\r\nconnection: close\r\n", "y".repeat(count));
    let large = server.exchange(decision(&bytes(15 << 10)).as_bytes()).await;
    assert!(large.starts_with("HTTP/1.1 200 "), "{large}");
    for headers in [lines(61) + "connection: close\r\n", lines(5_000), bytes(16 << 10), bytes(3 << 20)] {
        let refused = server.exchange(decision(&headers).as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
    }
    let counted = server.service.api.metrics.http_requests.with_label_values(&["other", "431"]);
    eventually("all are counted", || counted.get() == 4).await;
    server.assert_answers().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_its_answers_is_closed() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..patient() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client(socket.connect(server.address).await.unwrap());
    // Each answer has about a megabyte: several do not fit the buffers between.
    let body = format!(r#"{{"events":[{}]}}"#, vec!["0"; 10_000].join(","));
    let request = post(&format!("content-length: {}\r\n", body.len()), &body).repeat(30);
    client.send(request.as_bytes()).await;
    eventually("the connection is cut", || server.timeouts("answered") == 1).await;
    server.assert_answers().await;
}

#[tokio::test]
async fn more_connections_than_the_limit_are_closed_at_once() {
    let server = Server::start(HttpLimits { max_connections: 3, ..patient() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = server.connect().await;
        client.send(decision("").as_bytes()).await;
        assert!(client.answer().await.starts_with("HTTP/1.1 200 "));
        held.push(client);
    }
    let metrics = &server.service.api.metrics;
    assert_eq!(metrics.http_connections.get(), 3);
    for refused in 1..=2 {
        assert_eq!(server.exchange(decision("").as_bytes()).await, "");
        assert_eq!(metrics.http_refused.get(), refused);
    }
    held[0].send(decision("").as_bytes()).await;
    assert!(held[0].answer().await.starts_with("HTTP/1.1 200 "), "who has a seat keeps it");
    held.pop();
    eventually("the seat is free", || metrics.http_connections.get() == 2).await;
    server.assert_answers().await;
}

#[tokio::test]
async fn connections_from_one_address_are_limited_where_wanted() {
    let server = Server::start(HttpLimits { max_connections_per_address: Some(1), ..patient() }).await;
    let mut client = server.connect().await;
    client.send(decision("").as_bytes()).await;
    client.answer().await;
    assert_eq!(server.exchange(decision("").as_bytes()).await, "");
    drop(client);
    eventually("the seat is free", || server.service.api.metrics.http_connections.get() == 0).await;
    server.assert_answers().await;
}

#[tokio::test]
async fn idle_and_slow_sockets_do_not_stop_healthy_requests() {
    let server =
        Server::start(HttpLimits { first_byte_timeout: FOR_EVER, header_timeout: FOR_EVER, ..patient() }).await;
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
        server.assert_answers().await;
    }
    assert!(server.service.api.metrics.http_connections.get() >= 300);
}

#[tokio::test]
async fn a_stop_lets_requests_in_flight_finish_and_takes_no_others() {
    let server = Server::start(patient()).await;
    let mut idle = server.connect().await;
    idle.send(decision("").as_bytes()).await;
    idle.answer().await;
    let fresh = server.connect().await;
    let mut flying = server.connect().await;
    let request = decision("expect: 100-continue\r\n");
    let (first, last) = request.split_at(request.len() - 1);
    flying.send(first.as_bytes()).await;
    assert_eq!(flying.within(FOR_EVER).await, Came::Bytes("HTTP/1.1 100 Continue\r\n\r\n".into()));
    eventually("all are accepted", || server.service.api.metrics.http_connections.get() == 3).await;
    let address = server.address;
    let (serving, service) = server.ask_to_stop();
    assert_eq!(idle.rest().await, "");
    assert_eq!(Client(fresh.0).rest().await, "");
    eventually("no connection is taken", || std::net::TcpStream::connect(address).is_err()).await;
    assert!(!serving.is_finished());
    flying.send(last.as_bytes()).await;
    let answer = flying.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    tokio::time::timeout(FOR_EVER, serving).await.expect("nothing is left to wait for").unwrap();
    assert_eq!(service.api.metrics.http_connections.get(), 0);
}

#[tokio::test]
async fn a_stop_waits_for_nobody_beyond_its_deadline() {
    let server = Server::start(HttpLimits { drain: SHORT, ..patient() }).await;
    let mut flying = server.connect().await;
    flying.send(post("content-length: 100\r\nexpect: 100-continue\r\n", "{").as_bytes()).await;
    assert_eq!(flying.within(FOR_EVER).await, Came::Bytes("HTTP/1.1 100 Continue\r\n\r\n".into()));
    let started = Instant::now();
    let (serving, service) = server.ask_to_stop();
    tokio::time::timeout(FOR_EVER, serving).await.expect("the stop has an end").unwrap();
    assert!(started.elapsed() >= SHORT);
    assert_eq!(flying.rest().await, "");
    assert_eq!(service.api.metrics.http_connections.get(), 0);
}
