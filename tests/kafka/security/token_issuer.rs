//! An OAuth 2.0 token endpoint that issues a token for the right client secret. Tokens are unsigned, which the broker's
//! development validator accepts: the tests cover the token flow, not signatures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

pub const CLIENT: &str = "ebb";
pub const SECRET: &str = "of-the-client";
const LIFETIME_SECONDS: u64 = 300;

/// Serves until the test process ends.
#[derive(Debug)]
pub struct TokenIssuer {
    pub url: String,
    issued: Arc<AtomicUsize>,
}

impl TokenIssuer {
    pub fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a port");
        let url = format!("http://{}/token", listener.local_addr().expect("a bound address"));
        let issued = Arc::new(AtomicUsize::new(0));
        let count = issued.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if serve(client).unwrap_or(false) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { url, issued }
    }

    /// The number of issued tokens.
    pub fn issued(&self) -> usize {
        self.issued.load(Ordering::Relaxed)
    }
}

/// Handles one request; returns whether a token was issued.
fn serve(client: TcpStream) -> std::io::Result<bool> {
    let mut reader = BufReader::new(client);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        head.push_str(&std::mem::take(&mut line));
    }
    // Closing the connection before the request is read could discard the response.
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    reader.read_exact(&mut vec![0; length.unwrap_or(0)])?;
    let expected = format!("Basic {}", base64(format!("{CLIENT}:{SECRET}").as_bytes(), STANDARD));
    let is_authorized = head.contains(&expected);
    let (status, body) = if is_authorized {
        ("200 OK", format!(r#"{{"access_token":"{}","token_type":"Bearer","expires_in":300}}"#, token()))
    } else {
        ("401 Unauthorized", r#"{"error":"invalid_client"}"#.into())
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    reader.get_mut().write_all(response.as_bytes())?;
    Ok(is_authorized)
}

fn token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let claims = format!(r#"{{"sub":"ebb","iat":{now},"exp":{}}}"#, now + LIFETIME_SECONDS);
    let encode = |text: &str| base64(text.as_bytes(), URL_SAFE).trim_end_matches('=').to_owned();
    format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&claims))
}

const STANDARD: [u8; 2] = *b"+/";
const URL_SAFE: [u8; 2] = *b"-_";

fn base64(bytes: &[u8], last_digits: [u8; 2]) -> String {
    let digit = |value: u32| match value {
        0..=25 => (b'A' + value as u8) as char,
        26..=51 => (b'a' + value as u8 - 26) as char,
        52..=61 => (b'0' + value as u8 - 52) as char,
        _ => last_digits[value as usize - 62] as char,
    };
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().chain([0; 2].iter()).take(3).fold(0, |group, byte| group << 8 | u32::from(*byte));
        let digits = (0..4).map(|index| digit(group >> (18 - 6 * index) & 63));
        text.extend(digits.take(chunk.len() + 1));
        text.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    text
}
