//! Moving file contents: hashed on the way, shared with the source where the
//! file system can.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::model::fact::Digest;

/// How much is read at once: enough for BLAKE3's widest vectors, little enough
/// to stay in the second-level cache between reading and hashing.
const CHUNK: usize = 128 * 1024;

/// The unit in which file systems leave out zeros.
const PAGE: u64 = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` with this thread's buffer of [`CHUNK`] bytes.
fn with_buffer<T>(body: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with(|cell| match cell.try_borrow_mut() {
        Ok(mut buffer) => {
            buffer.resize(CHUNK, 0);
            body(&mut buffer)
        }
        // A sink that hashes something itself.
        Err(_) => body(&mut vec![0; CHUNK]),
    })
}

/// The digest of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

/// Reads `length` bytes of `source` from `offset` on (its position stays), hands
/// each piece to `sink`, and returns their digest; `None` if the file ends
/// before.
pub(crate) fn hash_range(
    source: &File,
    offset: u64,
    length: u64,
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Option<Digest>> {
    with_buffer(|buffer| {
        let mut hasher = blake3::Hasher::new();
        let mut done = 0;
        while done < length {
            let want = usize::try_from(length - done).map_or(CHUNK, |left| left.min(CHUNK));
            let count = read_some(source, &mut buffer[..want], offset + done)?;
            if count == 0 {
                return Ok(None);
            }
            hasher.update(&buffer[..count]);
            sink(&buffer[..count])?;
            done += count as u64;
        }
        Ok(Some(Digest(*hasher.finalize().as_bytes())))
    })
}

/// Reads `source` from its start to its end, hands each piece to `sink`, and
/// returns the digest and the length; `None` if it is longer than `limit`.
pub(crate) fn hash_whole(
    source: &File,
    limit: u64,
    mut sink: impl FnMut(&[u8]),
) -> io::Result<Option<(Digest, u64)>> {
    with_buffer(|buffer| {
        let mut hasher = blake3::Hasher::new();
        let mut done = 0u64;
        loop {
            let count = read_some(source, buffer, done)?;
            if count == 0 {
                return Ok(Some((Digest(*hasher.finalize().as_bytes()), done)));
            }
            hasher.update(&buffer[..count]);
            sink(&buffer[..count]);
            done += count as u64;
            if done > limit {
                return Ok(None);
            }
        }
    })
}

/// Whether a file that takes `blocks` units of 512 bytes (stat(2)) has parts
/// that take no room. Then those of its pages that are zero are such parts, as
/// far as its programs can tell.
pub(crate) fn has_holes(blocks: i64, length: u64) -> bool {
    u64::try_from(blocks).is_ok_and(|blocks| blocks.saturating_mul(512) < length)
}

/// Writes a new file from its start on and leaves out its pages of zeros.
pub(crate) struct Sparse<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> Sparse<'a> {
    /// Writes into `file`, which is empty.
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file, at: 0 }
    }

    /// Appends a piece; [`Sparse::finish`] makes it part of the file.
    pub(crate) fn write(&mut self, mut piece: &[u8]) -> io::Result<()> {
        while !piece.is_empty() {
            let left = PAGE - self.at % PAGE;
            let len = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            let (page, rest) = piece.split_at(len);
            if page.iter().any(|byte| *byte != 0) {
                self.file.write_all_at(page, self.at)?;
            }
            self.at += len as u64;
            piece = rest;
        }
        Ok(())
    }

    /// Gives the file its length.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.set_len(self.at)
    }
}

/// Copies what remains of `from` to `to`, at their positions: shared extents
/// where possible, in the kernel where possible, through a buffer otherwise.
pub(crate) fn copy_all(from: &File, to: &mut File, length: u64) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(&*to, from).is_ok() {
        return Ok(());
    }
    let mut done = 0;
    while done < length {
        let want = usize::try_from(length - done)
            .unwrap_or(usize::MAX)
            .min(1 << 30);
        let mut offset = done;
        match rustix::fs::copy_file_range(from, Some(&mut offset), &*to, None, want) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NOSPC) => return Err(rustix::io::Errno::NOSPC.into()),
            Err(_) => {
                let rest = plain_copy(from, to, done, length - done)?;
                done += rest;
            }
        }
    }
    Ok(())
}

/// Puts the file `from` in the place of the file `to`, which vanishes if it is
/// there.
///
/// Exchanging the names and removing the old file is as atomic as renaming over
/// it, and five times as fast on ext4, which writes a file out when it is
/// renamed over another. That protects programs that rename instead of fsync;
/// what is replaced here is verified when read, or was written by a program
/// that did neither.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let exchange = || rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE);
    if exchange().is_err() {
        // Nothing to exchange with, or a file system that cannot.
        return std::fs::rename(from, to);
    }
    std::fs::remove_file(from).inspect_err(|_| {
        // A directory, say: it gets its name back.
        let _ = exchange();
    })
}

fn plain_copy(from: &File, to: &mut File, offset: u64, length: u64) -> io::Result<u64> {
    with_buffer(|buffer| {
        let mut done = 0;
        while done < length {
            let want = usize::try_from(length - done).map_or(CHUNK, |left| left.min(CHUNK));
            let count = read_some(from, &mut buffer[..want], offset + done)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            to.write_all(&buffer[..count])?;
            done += count as u64;
        }
        Ok(done)
    })
}

fn read_some(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Pseudo files without positions can be read forwards only.
            Err(error) if error.raw_os_error() == Some(libc::ESPIPE) => {
                return io::Read::read(&mut &*file, buffer);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn pages_of_zeros_are_left_out_and_nothing_else() {
        for len in [0_usize, 5, 4096, 4101, 20_000, 40_960] {
            for step in [1000, 4096, 9000] {
                let mut bytes = vec![0; len];
                for at in [4200, 19_999] {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = 7;
                    }
                }
                let mut file = tempfile::tempfile().unwrap();
                let mut sparse = Sparse::new(&file);
                for piece in bytes.chunks(step) {
                    sparse.write(piece).unwrap();
                }
                sparse.finish().unwrap();
                let mut found = Vec::new();
                io::Read::read_to_end(&mut file, &mut found).unwrap();
                assert_eq!(found, bytes);
                let blocks = file.metadata().unwrap().blocks();
                let written = bytes.chunks(4096).filter(|page| page.contains(&7)).count();
                assert!(blocks <= 8 * written as u64, "{blocks} for {len}");
            }
        }
    }
}
