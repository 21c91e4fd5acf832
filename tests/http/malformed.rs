//! Malformed input: it is answered or the connection is closed, and the service continues.

use ebb::http::HttpLimits;
use ebb_sketch::random::Random;

use super::server::{SHORT, Server, decision, no_timeouts, post};

fn short_timeouts() -> HttpLimits {
    HttpLimits {
        header_timeout: SHORT,
        first_byte_timeout: SHORT,
        request_timeout: SHORT,
        idle_timeout: SHORT,
        ..no_timeouts()
    }
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").or(answer.strip_prefix("HTTP/1.0 ")).map_or("", |rest| &rest[..3])
}

#[tokio::test]
async fn input_that_is_not_http_is_refused() {
    let server = Server::start(short_timeouts()).await;
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20);
    let zeros = vec![0; 100_000];
    let cases: [(&[u8], &[&str]); 16] = [
        (b"\x00\x01\x02\x03garbage\r\n\r\n", &["400"]),
        (&hello, &["400"]),
        (&zeros, &["400"]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", &["", "400"]),
        (b"GET\r\n\r\n", &["400"]),
        (b"GET /livez\r\n\r\n", &["400"]),
        (b"GET /livez HTTP/9.9\r\n\r\n", &["400"]),
        (b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n", &["400"]),
        (b"GET /livez HTTP/1.1\r\nname : value\r\n\r\n", &["400"]),
        (b"GET /livez HTTP/1.1\r\nname: a\0b\r\n\r\n", &["400"]),
        (b"GET /livez HTTP/1.1\r\nname: a\r\n folded\r\n\r\n", &["400"]),
        (b"GET /li vez HTTP/1.1\r\n\r\n", &["400"]),
        (b"G\xff\xfeT /livez HTTP/1.1\r\n\r\n", &["400"]),
        (b"GET /v1/streams/\xff\xfe HTTP/1.1\r\nconnection: close\r\n\r\n", &["400", "404"]),
        (b"CONNECT ebb:80 HTTP/1.1\r\nhost: ebb\r\nconnection: close\r\n\r\n", &["404", "405"]),
        (b"OPTIONS * HTTP/1.1\r\nhost: ebb\r\nconnection: close\r\n\r\n", &["404", "405"]),
    ];
    for (bytes, expected) in cases {
        let answer = server.exchange(bytes).await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert!(expected.contains(&status(&answer)), "{shown:?}: {answer:?}");
        server.assert_serving().await;
    }
}

#[tokio::test]
async fn request_smuggling_is_refused() {
    let server = Server::start(short_timeouts()).await;
    let hidden = "GET /metrics HTTP/1.1\r\nhost: ebb\r\n\r\n";
    let both = |lines: &str| post(lines, &format!("0\r\n\r\n{hidden}"));
    let cases = [
        both(&format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", 5 + hidden.len())),
        both(&format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", 5 + hidden.len())),
        both("content-length: 0\r\ncontent-length: 5\r\n"),
        both("content-length: 0, 5\r\n"),
        both("content-length: +5\r\n"),
        both("content-length: -5\r\n"),
        both("content-length: 0x5\r\n"),
        both("transfer-encoding: gzip\r\n"),
        both("transfer-encoding: chunked, identity\r\n"),
        both("transfer-encoding: xchunked\r\n"),
        both("transfer-encoding : chunked\r\n"),
        both("transfer-encoding: chunked\r\n").replace("HTTP/1.1", "HTTP/1.0"),
        post("transfer-encoding: chunked\r\n", &format!("zz\r\n{hidden}")),
        post("transfer-encoding: chunked\r\n", &format!("ffffffffffffffff0\r\n{hidden}")),
        post("transfer-encoding: chunked\r\n", &format!("-1\r\n{hidden}")),
    ];
    for request in cases {
        let answer = server.exchange(request.as_bytes()).await;
        assert_eq!(status(&answer), "400", "{request}\n{answer}");
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "one response, then the connection is closed: {request}\n{answer}"
        );
        assert!(!answer.contains("ebb_ready"), "{answer}");
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn well_formed_chunks_are_accepted() {
    let server = Server::start(no_timeouts()).await;
    let body = format!(r#"{{"event":{}}}"#, super::support::event("a", 0));
    let (one, two) = body.split_at(7);
    let chunks = format!("{:x}\r\n{one}\r\n{:x};note=1\r\n{two}\r\n0\r\nx: y\r\n\r\n", one.len(), two.len());
    let answer = server.exchange(post("transfer-encoding: chunked\r\nconnection: close\r\n", &chunks).as_bytes()).await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed() {
    let server = Server::start(no_timeouts()).await;
    let answer = server.exchange(b"GET /livez HTTP/1.0\r\n\r\n").await;
    assert_eq!(status(&answer), "200", "{answer}");
}

#[tokio::test]
async fn body_of_a_get_request_is_not_a_second_request() {
    let server = Server::start(short_timeouts()).await;
    let hidden = "GET /metrics HTTP/1.1\r\nhost: ebb\r\n\r\n";
    let request = format!("GET /livez HTTP/1.1\r\nhost: ebb\r\ncontent-length: {}\r\n\r\n{hidden}", hidden.len());
    let answer = server.exchange(request.as_bytes()).await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    let endless = "GET /livez HTTP/1.1\r\nhost: ebb\r\ncontent-length: 99999999\r\n\r\n";
    assert_eq!(status(&server.exchange(endless.as_bytes()).await), "200");
    server.assert_serving().await;
}

#[tokio::test]
async fn unusual_paths_and_queries_are_answered() {
    let server = Server::start(short_timeouts()).await;
    let params = |count: usize| (0..count).map(|i| format!("p{i}=v&")).collect::<String>();
    let cases = [
        ("/livez%00".to_owned(), "404"),
        ("/%00".to_owned(), "404"),
        ("/v1/streams/%00".to_owned(), "404"),
        ("/v1/streams/%ff%fe".to_owned(), "400"),
        ("/v1/streams/%".to_owned(), "404"),
        ("/../../etc/passwd".to_owned(), "404"),
        ("//livez".to_owned(), "404"),
        (format!("/livez?{}", params(1_000)), "200"),
        (format!("/livez?{}", params(100_000)), "431"),
        (format!("/{}", "a/".repeat(7_000)), "404"),
        (format!("/{}", "a".repeat(70_000)), "431"),
        ("http://elsewhere/livez".to_owned(), "200"),
    ];
    for (path, expected) in cases {
        let request = format!("GET {path} HTTP/1.1\r\nhost: ebb\r\nconnection: close\r\n\r\n");
        let answer = server.exchange(request.as_bytes()).await;
        assert_eq!(status(&answer), expected, "{}: {answer}", &path[..path.len().min(60)]);
        server.assert_serving().await;
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered() {
    let server = Server::start(no_timeouts()).await;
    let many = decision("").repeat(200) + &decision("connection: close\r\n");
    let answer = server.exchange(many.as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 201);
}

/// Valid requests with random bytes changed, removed or repeated: whatever they become, the connection ends.
#[tokio::test]
async fn damaged_requests_do_not_stop_the_service() {
    let server = Server::start(short_timeouts()).await;
    let cases: u64 = std::env::var("EBB_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut random = Random::new(17);
    let mut clients = Vec::new();
    for case in 0..cases {
        let mut bytes = decision("connection: close\r\n").into_bytes();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes.insert(at, random.below(256) as u8),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.extend_from_within(at..),
            }
        }
        let mut client = server.connect().await;
        client.send(&bytes).await;
        clients.push((case, client));
    }
    for (case, mut client) in clients {
        let answer = client.rest().await;
        let known = ["", "200", "400", "404", "405", "408", "409", "413", "415", "422", "431"];
        assert!(known.contains(&status(&answer)), "case {case}: {answer:?}");
    }
    server.assert_serving().await;
}
