//! Memory for the arguments of one syscall: a pattern with buffers in it.
#![expect(unsafe_code, reason = "the kernel writes to this memory by address")]

use ptrace_async::memory::Memory;

/// The size of the arena.
const SIZE: usize = 16 * 4096;

/// Bytes of pattern between buffers.
const GUARD: usize = 64;

/// A mapped region, filled with a pattern, from which buffers are cut.
pub(crate) struct Arena {
    base: *mut u8,
    next: usize,
    pattern: u8,
}

impl Arena {
    /// Maps and fills an arena.
    pub(crate) fn new(pattern: u8) -> Self {
        // SAFETY: a new private mapping at an address of the kernel's choice
        // touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "no memory for the arena");
        let mut arena = Self {
            base: base.cast(),
            next: GUARD,
            pattern,
        };
        let fill: Vec<u8> = (0..SIZE).map(|at| arena.pattern_at(at)).collect();
        arena.set(0, &fill);
        arena
    }

    fn pattern_at(&self, at: usize) -> u8 {
        // Not periodic in a power of two, so that shifted copies differ.
        self.pattern ^ (at % 251) as u8
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            at.checked_add(bytes.len()).is_some_and(|end| end <= SIZE),
            "the arena is full"
        );
        // SAFETY: the range was just checked to lie in the mapping, which is
        // writable and lives as long as the process.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) }
    }

    /// Inverts every byte for which `keep` is false.
    pub(crate) fn poison(&mut self, keep: impl Fn(u64) -> bool) {
        let mut bytes = self.snapshot();
        for (at, byte) in bytes.iter_mut().enumerate() {
            if !keep(self.start() + at as u64) {
                *byte = !*byte;
            }
        }
        self.set(0, &bytes);
    }

    /// A copy of the whole arena.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        // SAFETY: the mapping is readable, `SIZE` bytes long, and no other
        // thread of this process exists.
        unsafe { std::slice::from_raw_parts(self.base, SIZE) }.to_vec()
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.base as u64
    }

    fn take(&mut self, len: usize, align: usize) -> usize {
        let at = self.next.next_multiple_of(align);
        self.next = at + len + GUARD;
        assert!(self.next <= SIZE, "the arena is full");
        at
    }

    /// A buffer of `len` bytes of pattern, aligned to 16 bytes.
    pub(crate) fn out(&mut self, len: usize) -> u64 {
        self.start() + self.take(len, 16) as u64
    }

    /// Whole pages of pattern.
    pub(crate) fn pages(&mut self, count: usize) -> u64 {
        self.start() + self.take(count * 4096, 4096) as u64
    }

    /// A buffer with these bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let at = self.take(bytes.len(), 16);
        self.set(at, bytes);
        self.start() + at as u64
    }

    /// A NUL-terminated string.
    pub(crate) fn text(&mut self, text: &str) -> u64 {
        self.bytes(&[text.as_bytes(), b"\0"].concat())
    }

    /// An array of 64-bit words.
    pub(crate) fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    /// The 64-bit word at an address in the arena.
    pub(crate) fn read_word(&self, address: u64) -> u64 {
        let at = usize::try_from(address - self.start()).expect("an address in the arena");
        let bytes = &self.snapshot()[at..at + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// An array of 32-bit words.
    pub(crate) fn ints(&mut self, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }
}

/// The memory of this process, read through the kernel so that bad addresses
/// are results and not crashes.
pub(crate) struct Own;

impl Memory for Own {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let local = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut _,
            iov_len: buffer.len(),
        };
        // SAFETY: `local` describes `buffer`, which outlives the call; the
        // kernel checks the remote range itself.
        let got = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        usize::try_from(got).unwrap_or(0)
    }
}
