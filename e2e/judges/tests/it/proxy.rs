//! A proxy that refuses everything and remembers what it was asked for.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Ends with this value.
pub(crate) struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(refuse(stream, Arc::clone(&book)));
            }
        });
        Self { address, asked, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The variables that send a program through it, but not to the tap.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (String, Option<String>)> {
        let loopback = "127.0.0.1,localhost".to_owned();
        let bypass = ["NO_PROXY", "no_proxy"].map(|name| (name, loopback.clone()));
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"]
            .map(|name| (name, self.url()))
            .into_iter()
            .chain(bypass)
            .map(|(name, value)| (name.to_owned(), Some(value)))
    }

    /// The hosts that it was asked for, in order.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn refuse(mut stream: TcpStream, book: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < 64 << 10 {
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&part[..read]),
        }
    }
    // `CONNECT host:443 HTTP/1.1`, or `POST http://host:port/path HTTP/1.1`.
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let host = target.split_once("://").map_or(target, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default().to_owned();
    book.lock().unwrap().push(host);
    // The client may be gone already.
    let _ = stream.write_all(REFUSAL).await;
    let _ = stream.shutdown().await;
}
