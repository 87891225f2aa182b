//! Sockets.

use super::decode::{Announce, Context, Step};
use super::{New, nr, paths};
use crate::event::{FileKind, IoEvent, PathRef};

/// `sockaddr_un`: the family and up to 108 bytes of path.
const SOCKADDR_UN: usize = 110;

impl Context<'_> {
    /// Making a socket touches nothing yet; the event is there for tools that
    /// care about the family.
    pub(super) fn socket(&mut self) -> Option<Step> {
        let (family, flags) = (self.int(0), self.int(1));
        let new = New::anonymous(FileKind::Socket(family), flags & libc::SOCK_NONBLOCK != 0);
        let cloexec = flags & libc::SOCK_CLOEXEC != 0;
        self.create(new, cloexec, Announce::Network("socket"))
    }

    pub(super) fn accept(&mut self, flags: i32) -> Option<Step> {
        let listener = self.file(self.int(0))?;
        let new = New::anonymous(listener.kind.clone(), flags & libc::SOCK_NONBLOCK != 0);
        let cloexec = flags & libc::SOCK_CLOEXEC != 0;
        self.create(new, cloexec, Announce::Network("accept"))
    }

    /// Any other socket operation, under its own name.
    pub(super) fn network(&mut self) -> Option<Step> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::Network {
            what: nr::name(self.nr),
            file: Some(file),
        });
        None
    }

    /// The path of a local address in the file system (not an abstract one).
    fn local_address(&mut self) -> Option<PathRef> {
        let length = (self.uint(2) as usize).min(SOCKADDR_UN);
        let mut bytes = [0; SOCKADDR_UN];
        let got = self.memory.read(self.args[1], &mut bytes[..length]);
        let [low, high, path @ ..] = &bytes[..got] else {
            return None;
        };
        if i32::from(u16::from_le_bytes([*low, *high])) != libc::AF_UNIX {
            return None;
        }
        let end = memchr::memchr(0, path).unwrap_or(path.len());
        let path = &path[..end];
        let base = match path.first()? {
            b'/' => self.model.root(self.tid),
            _ => self.model.cwd(self.tid),
        };
        Some(paths::join(base?, path, true))
    }

    /// That nobody listens at a path is an observation like any other.
    pub(super) fn connect(&mut self) -> Option<Step> {
        let Some(path) = self.local_address() else {
            return self.network();
        };
        let file = Some(self.file(self.int(0))?);
        Some(Step::Connect { path, file })
    }

    pub(super) fn bind(&mut self) -> Option<Step> {
        self.network();
        let mut path = self.local_address()?;
        path.follow = false;
        self.change(IoEvent::MakeNode {
            path,
            mode: libc::S_IFSOCK | 0o777,
            device: 0,
        })
    }

    pub(super) fn receive_messages(&mut self, many: bool) -> Option<Step> {
        self.network();
        Some(Step::Messages {
            address: self.args[1],
            many,
        })
    }
}
