//! A server without free file descriptors accepts again once some are closed. The limit applies to a whole process, so the
//! server runs in a child process: this test binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use super::server::{Client, HANG_TIMEOUT, Server, decision, no_timeouts};
use super::support::logged;

const FILES: usize = 64;
/// Set in the environment of the child process.
const SERVE: &str = "EBB_TEST_SERVE";

#[tokio::test]
async fn server_recovers_from_exhausted_file_descriptors() {
    let limited = format!(
        "ulimit -n {FILES} && exec \"$0\" --ignored --exact --nocapture file_descriptors::serve_in_child_process"
    );
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .env(SERVE, "1")
        .arg(std::env::current_exe().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().split("listens on ").nth(1).map(str::to_owned)).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    // The kernel completes the connections before the server accepts them.
    let connections: Vec<TcpStream> = (0..2 * FILES).map(|_| TcpStream::connect(address).unwrap()).collect();
    child.stdin.as_mut().unwrap().write_all(b"connected\n").unwrap();
    let exhausted = lines.find_map(|line| line.unwrap().contains("out of file descriptors").then_some(()));
    assert!(exhausted.is_some(), "the child process never ran out of file descriptors");
    drop(connections);
    let mut client = Client(tokio::net::TcpStream::connect(address).await.unwrap());
    client.send(decision("connection: close\r\n").as_bytes()).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "started by the test above"]
async fn serve_in_child_process() {
    if std::env::var_os(SERVE).is_none() {
        return;
    }
    let server = Server::start(no_timeouts()).await;
    println!("listens on {}", server.address);
    let mut input = std::io::stdin().lines();
    assert_eq!(input.next().unwrap().unwrap(), "connected");
    let started = std::time::Instant::now();
    while !logged().contains("accept failed") {
        assert!(started.elapsed() < HANG_TIMEOUT, "all connections were accepted");
        tokio::task::yield_now().await;
    }
    println!("out of file descriptors");
    assert!(input.next().is_none());
}
