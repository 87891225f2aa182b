//! Calls that look at the file tree or change it.

use super::decode::{AT_FDCWD, Context, Step};
use crate::event::{IoEvent, PathRef, Place, TimeChange};

const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;
/// The kernel's limit of an attribute's name, with its NUL.
const XATTR_NAME_MAX: usize = 256;

/// How an extended attribute call names its file.
type Namer<'a> = fn(&mut Context<'a>) -> Option<Place>;

// Looking.
impl<'a> Context<'a> {
    pub(super) fn stat(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<Step> {
        let event = match self.place(dirfd, address, flags)? {
            Place::Path(path) => IoEvent::Stat { path },
            Place::File(file) => IoEvent::StatFile { file },
        };
        self.push(event);
        None
    }

    pub(super) fn fstat(&mut self) -> Option<Step> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::StatFile { file });
        None
    }

    pub(super) fn access(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: i32,
        flags: i32,
    ) -> Option<Step> {
        let effective = flags & libc::AT_EACCESS != 0;
        let path = match self.place(dirfd, address, flags)? {
            Place::Path(path) => path,
            Place::File(file) => match &file.path {
                Some(path) => PathRef {
                    path: path.clone(),
                    follow: true,
                },
                None => {
                    self.push(IoEvent::StatFile { file });
                    return None;
                }
            },
        };
        self.push(IoEvent::Access {
            path,
            mode,
            effective,
        });
        None
    }

    /// The empty path asks a descriptor that was opened on the link itself.
    pub(super) fn readlink(&mut self, dirfd: i32, address: u64) -> Option<Step> {
        let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
        let path = match self.place(dirfd, address, flags)? {
            Place::Path(path) => path,
            Place::File(file) => PathRef {
                path: file.path.clone()?,
                follow: false,
            },
        };
        self.push(IoEvent::ReadLink { path });
        None
    }

    pub(super) fn statfs(&mut self) -> Option<Step> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.push(IoEvent::StatFs {
            place: Place::Path(path),
        });
        None
    }

    pub(super) fn fstatfs(&mut self) -> Option<Step> {
        let place = self.by_descriptor()?;
        self.push(IoEvent::StatFs { place });
        None
    }

    pub(super) fn by_path(&mut self) -> Option<Place> {
        self.place(AT_FDCWD, self.args[0], 0)
    }

    pub(super) fn by_link(&mut self) -> Option<Place> {
        self.place(AT_FDCWD, self.args[0], libc::AT_SYMLINK_NOFOLLOW)
    }

    pub(super) fn by_descriptor(&mut self) -> Option<Place> {
        self.file(self.int(0)).map(Place::File)
    }

    pub(super) fn by_at(&mut self) -> Option<Place> {
        self.place(self.int(0), self.args[1], self.int(2))
    }

    pub(super) fn xattr_read(&mut self, namer: Namer<'a>, name: Option<usize>) -> Option<Step> {
        let place = namer(self)?;
        let name = match name {
            Some(index) => Some(self.attribute(index)?),
            None => None,
        };
        self.push(IoEvent::XattrRead { place, name });
        None
    }

    fn attribute(&self, index: usize) -> Option<Vec<u8>> {
        let address = self.args[index];
        self.memory.read_c_string(address, XATTR_NAME_MAX).ok()
    }
}

// Changing.
impl<'a> Context<'a> {
    pub(super) fn xattr_write(&mut self, namer: Namer<'a>, name: usize) -> Option<Step> {
        let place = namer(self)?;
        let name = self.attribute(name)?;
        self.change(IoEvent::XattrWrite { place, name })
    }

    pub(super) fn mkdir(&mut self, dirfd: i32, address: u64, mode: u32) -> Option<Step> {
        let path = self.path(dirfd, address, false)?;
        self.change(IoEvent::MakeDir { path, mode })
    }

    pub(super) fn mknod(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: u32,
        device: u64,
    ) -> Option<Step> {
        let path = self.path(dirfd, address, false)?;
        self.change(IoEvent::MakeNode { path, mode, device })
    }

    pub(super) fn unlink(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<Step> {
        let path = self.path(dirfd, address, false)?;
        self.change(if flags & libc::AT_REMOVEDIR != 0 {
            IoEvent::RemoveDir { path }
        } else {
            IoEvent::Unlink { path }
        })
    }

    pub(super) fn rename(&mut self, from: (i32, u64), to: (i32, u64), flags: u32) -> Option<Step> {
        let from = self.path(from.0, from.1, false)?;
        let to = self.path(to.0, to.1, false)?;
        if flags & RENAME_WHITEOUT != 0 {
            self.unsupported("the rename leaves a whiteout behind");
        }
        self.change(IoEvent::Rename {
            from,
            to,
            exchange: flags & RENAME_EXCHANGE != 0,
        })
    }

    pub(super) fn link(&mut self, from: (i32, u64), to: (i32, u64), flags: i32) -> Option<Step> {
        let nofollow = if flags & libc::AT_SYMLINK_FOLLOW == 0 {
            libc::AT_SYMLINK_NOFOLLOW
        } else {
            0
        };
        let mut from = self.place(from.0, from.1, flags & libc::AT_EMPTY_PATH | nofollow)?;
        let to = self.path(to.0, to.1, false)?;
        // An unnamed file is given a name through its link in /proc.
        if let Place::Path(path) = &from
            && let Some(file) = self.published(path)
        {
            from = Place::File(file);
        }
        self.about_to_change.push(to.clone());
        Some(Step::Change(IoEvent::Link { from, to }))
    }

    pub(super) fn symlink(&mut self, target: u64, dirfd: i32, address: u64) -> Option<Step> {
        let path = self.path(dirfd, address, false)?;
        let target = self.memory.read_c_string(target, 4096).ok()?;
        self.change(IoEvent::Symlink { target, path })
    }

    pub(super) fn truncate(&mut self) -> Option<Step> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        self.change(IoEvent::Truncate {
            place: Place::Path(path),
            length: self.args[1],
        })
    }

    pub(super) fn ftruncate(&mut self, length: u64) -> Option<Step> {
        let place = self.by_descriptor()?;
        self.change(IoEvent::Truncate { place, length })
    }

    pub(super) fn chmod(
        &mut self,
        dirfd: i32,
        address: u64,
        mode: u32,
        flags: i32,
    ) -> Option<Step> {
        let place = self.place(dirfd, address, flags)?;
        self.change(IoEvent::Chmod { place, mode })
    }

    pub(super) fn fchmod(&mut self) -> Option<Step> {
        let place = self.by_descriptor()?;
        let mode = self.uint(1);
        self.change(IoEvent::Chmod { place, mode })
    }

    pub(super) fn chown(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<Step> {
        let place = self.place(dirfd, address, flags)?;
        self.change(IoEvent::Chown { place })
    }

    pub(super) fn fchown(&mut self) -> Option<Step> {
        let place = self.by_descriptor()?;
        self.change(IoEvent::Chown { place })
    }
}

// Timestamps.
impl Context<'_> {
    /// `struct utimbuf`: two times in seconds.
    pub(super) fn utime(&mut self) -> Option<Step> {
        let path = self.path(AT_FDCWD, self.args[0], true)?;
        let times = match self.args[1] {
            0 => [TimeChange::Now; 2],
            address => {
                let [accessed, modified] = self.words(address)?;
                [TimeChange::At(accessed, 0), TimeChange::At(modified, 0)]
            }
        };
        self.set_times(Place::Path(path), times)
    }

    /// `struct timeval[2]`: seconds and microseconds.
    pub(super) fn utimes(&mut self, dirfd: i32, path: u64, times: u64) -> Option<Step> {
        let place = self.times_place(dirfd, path, 0)?;
        let times = match times {
            0 => [TimeChange::Now; 2],
            address => {
                let [a, a_micros, m, m_micros] = self.words(address)?;
                [(a, a_micros), (m, m_micros)]
                    .map(|(seconds, micros)| TimeChange::At(seconds, micros.wrapping_mul(1000)))
            }
        };
        self.set_times(place, times)
    }

    /// `struct timespec[2]`, with values that mean "now" and "leave".
    pub(super) fn utimensat(&mut self) -> Option<Step> {
        let place = self.times_place(self.int(0), self.args[1], self.int(3))?;
        let change = |seconds: i64, nanos: i64| match nanos {
            libc::UTIME_NOW => TimeChange::Now,
            libc::UTIME_OMIT => TimeChange::Keep,
            nanos => TimeChange::At(seconds, nanos),
        };
        let times = match self.args[2] {
            0 => [TimeChange::Now; 2],
            address => {
                let [a, a_nanos, m, m_nanos] = self.words(address)?;
                [change(a, a_nanos), change(m, m_nanos)]
            }
        };
        self.set_times(place, times)
    }

    /// These calls take NULL for "the descriptor itself".
    fn times_place(&mut self, dirfd: i32, path: u64, flags: i32) -> Option<Place> {
        if path == 0 {
            return self.file(dirfd).map(Place::File);
        }
        self.place(dirfd, path, flags)
    }

    fn set_times(&mut self, place: Place, times: [TimeChange; 2]) -> Option<Step> {
        let [accessed, modified] = times;
        self.change(IoEvent::SetTimes {
            place,
            accessed,
            modified,
        })
    }

    fn words<const N: usize>(&self, address: u64) -> Option<[i64; N]> {
        let mut bytes = [0; 32];
        let bytes = &mut bytes[..N * 8];
        self.memory.read_exact(address, bytes).ok()?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = i64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(words)
    }
}
