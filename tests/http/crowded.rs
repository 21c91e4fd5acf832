//! A process without free file descriptors accepts again once there are some. The limit is the process's own, so the server
//! is another one: this test binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use super::server::{Client, FOR_EVER, Server, decision, patient};
use super::support::logged;

const FILES: usize = 64;
/// Set where the server is wanted.
const SERVE: &str = "EBB_TEST_SERVE";

#[tokio::test]
async fn running_out_of_file_descriptors_is_survived() {
    let limited =
        format!("ulimit -n {FILES} && exec \"$0\" --ignored --exact --nocapture crowded::serve_another_process");
    let mut other = Command::new("sh")
        .args(["-c", &limited])
        .env(SERVE, "1")
        .arg(std::env::current_exe().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().split("listens on ").nth(1).map(str::to_owned)).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    // The kernel completes them, accepted or not.
    let crowd: Vec<TcpStream> = (0..2 * FILES).map(|_| TcpStream::connect(address).unwrap()).collect();
    other.stdin.as_mut().unwrap().write_all(b"crowd\n").unwrap();
    let crowded = lines.find_map(|line| line.unwrap().contains("is crowded").then_some(()));
    assert!(crowded.is_some(), "the other process never ran out of file descriptors");
    drop(crowd);
    let mut client = Client(tokio::net::TcpStream::connect(address).await.unwrap());
    client.send(decision("connection: close\r\n").as_bytes()).await;
    let answer = client.rest().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "serves the test above, which starts it"]
async fn serve_another_process() {
    if std::env::var_os(SERVE).is_none() {
        return;
    }
    let server = Server::start(patient()).await;
    println!("listens on {}", server.address);
    let mut said = std::io::stdin().lines();
    assert_eq!(said.next().unwrap().unwrap(), "crowd");
    let started = std::time::Instant::now();
    while !logged().contains("accept failed") {
        assert!(started.elapsed() < FOR_EVER, "all connections were accepted");
        tokio::task::yield_now().await;
    }
    println!("is crowded");
    assert!(said.next().is_none());
}
