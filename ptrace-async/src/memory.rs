//! Reading a tracee's memory, whether it is alive or a byte map in a test.

/// An address range of the tracee could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("tracee memory at {address:#x} is not readable")]
pub struct Fault {
    /// Where reading began.
    pub address: u64,
}

/// Memory of a stopped task. Implemented over `process_vm_readv` for live
/// tracees, and over byte maps in tests.
pub trait Memory {
    /// Reads up to `buffer.len()` bytes at `address`; returns how many could be
    /// read before an unmapped page (0 if none). One syscall per call.
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize;

    /// Reads exactly `buffer.len()` bytes.
    ///
    /// # Errors
    /// [`Fault`] when part of the range is unmapped.
    fn read_exact(&self, address: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        if self.read(address, buffer) == buffer.len() {
            Ok(())
        } else {
            Err(Fault { address })
        }
    }

    /// Reads a NUL-terminated string (without its NUL) of at most `limit` bytes.
    ///
    /// # Errors
    /// [`Fault`] when no NUL is found in readable memory within the limit.
    fn read_c_string(&self, address: u64, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        let mut at = address;
        // The first read stays short: most strings are, and most lie within a page.
        let mut want = 256;
        while out.len() < limit {
            let mut buffer = [0_u8; 4096];
            let want_now = want.min(limit - out.len()).min(buffer.len());
            let got = self.read(at, &mut buffer[..want_now]);
            if got == 0 {
                return Err(Fault { address });
            }
            if let Some(end) = memchr::memchr(0, &buffer[..got]) {
                out.extend_from_slice(&buffer[..end]);
                return Ok(out);
            }
            out.extend_from_slice(&buffer[..got]);
            at += got as u64;
            want = 4096;
        }
        Err(Fault { address })
    }

    /// Reads a little-endian `u64`.
    ///
    /// # Errors
    /// [`Fault`] when it is not readable.
    fn read_u64(&self, address: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read_exact(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a little-endian `i32`.
    ///
    /// # Errors
    /// [`Fault`] when it is not readable.
    fn read_i32(&self, address: u64) -> Result<i32, Fault> {
        let mut bytes = [0; 4];
        self.read_exact(address, &mut bytes)?;
        Ok(i32::from_le_bytes(bytes))
    }
}
