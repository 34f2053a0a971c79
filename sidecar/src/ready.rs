//! The startup probe: does the worker answer on the control port? Asks neither the vendor nor the
//! API server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The kubelet gives a probe one second by default.
const PATIENCE: Duration = Duration::from_millis(800);

/// Why the sidecar is not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// Nobody listens.
    #[error("nothing listens on {0}: the sidecar has not started yet, see its log")]
    Closed(SocketAddr, #[source] std::io::Error),
    /// The socket is there, the worker behind it does not answer.
    #[error("the worker does not answer on {0}: it is being restarted, see the sidecar's log")]
    Silent(SocketAddr, #[source] std::io::Error),
    /// Somebody else answers.
    #[error("what listens on {0} is not the sidecar; another process uses the port")]
    Other(SocketAddr),
}

/// Asks once.
///
/// # Errors
/// When the sidecar does not serve.
pub fn ask(port: u16) -> Result<(), NotReady> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)
        .map_err(|error| NotReady::Closed(address, error))?;
    let mut answer = [0; 12];
    let asked = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .and_then(|()| {
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        })
        .and_then(|()| stream.read_exact(&mut answer));
    match asked {
        Ok(()) if answer.starts_with(b"HTTP/1.1 200") => Ok(()),
        Ok(()) => Err(NotReady::Other(address)),
        Err(error) => Err(NotReady::Silent(address, error)),
    }
}
