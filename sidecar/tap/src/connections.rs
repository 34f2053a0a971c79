//! What proves that the program is the one that asked before: its open connections, which end with
//! its process, and the tasks that it names, whose ids nobody else has.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;

/// Tasks that are remembered as named. More prove nothing, which costs a wait.
const ROOM: usize = 4096;

/// What is known, at one request, of the time before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ties {
    /// Since when the program has been connected without a break: whatever ran then runs still.
    pub since: Option<Timestamp>,
    /// Tasks that the program has asked about or cancelled since then.
    pub named: BTreeSet<String>,
}

/// The open connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// The connections by number.
    links: BTreeMap<u64, Link>,
    /// When a task was last named.
    named: BTreeMap<String, Timestamp>,
}

/// One open connection.
#[derive(Debug)]
struct Link {
    /// Since when it is certain that the same program is connected.
    since: Timestamp,
    /// To ask the kernel whether the program has closed it.
    socket: Option<OwnedFd>,
}

impl Open {
    /// Leaves out what the program has closed, although its end has not been read here yet: a
    /// worker that was held up may read the first request of the next program before it.
    fn leave_out_closed(&mut self) {
        self.links.retain(|_, link| !link.socket.as_ref().is_some_and(is_closed));
    }

    fn oldest(&self) -> Option<Timestamp> {
        self.links.values().map(|link| link.since).min()
    }
}

/// Whether the other end has closed a connection. Whatever it sent before may still be unread.
fn is_closed(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // What the kernel does not tell proves nothing.
    let told = poll(&mut asked, Some(&now)).unwrap_or(0);
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    told > 0 && asked[0].revents().intersects(ends)
}

impl Connections {
    /// Counts a connection until the guard is dropped.
    pub(crate) fn opened(&self, stream: &TcpStream) -> Connected {
        self.opened_at(Timestamp::now(), stream.as_fd().try_clone_to_owned().ok())
    }

    fn opened_at(&self, at: Timestamp, socket: Option<OwnedFd>) -> Connected {
        let mut open = self.lock();
        let id = open.next;
        open.next += 1;
        open.links.insert(id, Link { since: at, socket });
        Connected { all: self.clone(), id }
    }

    /// A request has arrived whole, over any of the connections; `task` is the one that it names.
    ///
    /// All connections that are open now are of one program, so what one of them proves holds for
    /// all, also after that one is closed. This is not said when a connection is opened: a worker
    /// that was held up sees the end of the last program and the first connection of the next in
    /// one moment, but its requests only later.
    pub(crate) fn request(&self, task: Option<&str>) {
        self.request_at(task, Timestamp::now());
    }

    fn request_at(&self, task: Option<&str>, at: Timestamp) {
        let mut open = self.lock();
        open.leave_out_closed();
        let Some(oldest) = open.oldest() else { return };
        for link in open.links.values_mut() {
            link.since = oldest;
        }
        if let Some(task) = task {
            if open.named.len() >= ROOM {
                open.named.retain(|_, named| *named >= oldest);
            }
            if open.named.len() < ROOM || open.named.contains_key(task) {
                open.named.insert(task.to_owned(), at);
            }
        }
    }

    /// What is known now.
    pub(crate) fn ties(&self) -> Ties {
        let mut open = self.lock();
        open.leave_out_closed();
        let Some(since) = open.oldest() else { return Ties::default() };
        let named = open.named.iter().filter(|(_, at)| **at >= since).map(|(id, _)| id.clone());
        Ties { since: Some(since), named: named.collect() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connected {
    all: Connections,
    id: u64,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.links.remove(&self.id);
        if open.links.is_empty() {
            // Nobody is connected: nothing of it proves anything about who comes next.
            open.named.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    #[test]
    fn connections_that_overlap_at_a_request_are_one_program() {
        let all = Connections::default();
        assert_eq!(all.ties(), Ties::default());
        let first = all.opened_at(at(1), None);
        let second = all.opened_at(at(2), None);
        all.request_at(None, at(3));
        drop(first);
        assert_eq!(all.ties().since, Some(at(1)), "the first one's time lives on in the second");
        let third = all.opened_at(at(4), None);
        drop(second);
        // No request came while both were open.
        assert_eq!(all.ties().since, Some(at(4)));
        drop(third);
        assert_eq!(all.ties(), Ties::default());
    }

    #[test]
    fn a_named_task_proves_something_until_the_program_is_gone() {
        let all = Connections::default();
        let first = all.opened_at(at(1), None);
        all.request_at(Some("t"), at(2));
        assert!(all.ties().named.contains("t"));
        let second = all.opened_at(at(3), None);
        drop(first);
        assert!(!all.ties().named.contains("t"), "named before the second was open");
        all.request_at(Some("t"), at(4));
        assert!(all.ties().named.contains("t"));
        drop(second);
        let _third = all.opened_at(at(4), None);
        assert_eq!(all.ties().named, BTreeSet::new());
    }

    #[tokio::test]
    async fn what_the_program_has_closed_proves_nothing_although_nobody_has_read_its_end() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let all = Connections::default();
        let mut first = std::net::TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let _first = all.opened(&accepted);
        std::io::Write::write_all(&mut first, b"GET / HTTP/1.1\r\n").unwrap();
        all.request(Some("t"));
        assert!(all.ties().named.contains("t"), "open, with something unread");
        drop(first);
        let _second = std::net::TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let before = Timestamp::now();
        let _next = all.opened(&accepted);
        all.request(None);
        let ties = all.ties();
        assert!(ties.since.is_some_and(|since| since >= before), "{ties:?}");
        assert!(ties.named.is_empty(), "{ties:?}");
    }

    #[test]
    fn the_memory_of_names_has_an_end() {
        let all = Connections::default();
        let _open = all.opened_at(at(1), None);
        for n in 0..ROOM + 10 {
            all.request_at(Some(&n.to_string()), at(2));
        }
        assert_eq!(all.ties().named.len(), ROOM);
    }
}
