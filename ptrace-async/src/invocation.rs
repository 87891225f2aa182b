//! A syscall as a tracee makes it.

/// A syscall's number and its six argument registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Invocation {
    /// The number (x86-64).
    pub nr: u64,
    /// `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`.
    pub args: [u64; 6],
}
