//! Copies file contents, hashes them meanwhile, and shares extents with the source if the file
//! system can.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::model::fact::Digest;

/// Bytes per read: enough for BLAKE3's widest vectors, little enough to stay in the second-level
/// cache between reading and hashing.
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
        // A sink that hashes data itself uses the buffer already.
        Err(_) => body(&mut vec![0; CHUNK]),
    })
}

/// Returns the digest of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

/// Reads `length` bytes of `source` from `offset` on (its position stays), passes each piece to
/// `sink`, and returns their digest; `None` if the file ends earlier.
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

/// Reads `source` from its start to its end, passes each piece to `sink`, and returns the digest
/// and the length; `None` if it is longer than `limit`.
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

/// Whether a file with `blocks` units of 512 bytes (stat(2)) has holes. Then its zero pages are
/// treated as holes; programs cannot tell the difference.
pub(crate) fn has_holes(blocks: i64, length: u64) -> bool {
    u64::try_from(blocks).is_ok_and(|blocks| blocks.saturating_mul(512) < length)
}

/// Writes a new file sequentially and leaves zero pages as holes.
pub(crate) struct Sparse<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> Sparse<'a> {
    /// Creates a writer for `file`, which is empty.
    pub(crate) fn new(file: &'a File) -> Self {
        Self { file, at: 0 }
    }

    /// Appends a piece; [`Sparse::finish`] sets the final length.
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

/// Copies the rest of `from` to `to`, at their positions: with shared extents if possible,
/// otherwise in the kernel if possible, otherwise through a buffer.
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

/// Renames the file `from` to `to`, and removes an existing file `to`.
///
/// Exchanging the names and removing the old file is as atomic as renaming over it. It is five
/// times as fast on ext4, which writes a file to disk when it is renamed over another. That
/// protects programs that rename instead of fsync. Files replaced here are verified when read, or
/// were written by a program that did neither.
pub(crate) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let exchange = || rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE);
    if exchange().is_err() {
        // There is no file to exchange with, or the file system cannot exchange.
        return std::fs::rename(from, to);
    }
    std::fs::remove_file(from).inspect_err(|_| {
        // The old file is a directory, for example: it gets its name back.
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
            // Pseudo files without positions can only be read sequentially.
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
