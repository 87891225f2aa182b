//! Memory in a tracee that belongs to the tracer.
//!
//! Injected calls need room for paths and structures. The stack below the red zone would do
//! for a moment, but not while other code of the tracee runs, and the heap is the tracee's.
//! So an anonymous mapping is injected, far from the mappings of the kernel and of
//! allocators, and kept for later requests. Tasks that share memory share the mappings, a
//! forked child inherits a copy of them, and an execve ends them. Do not ask for it before
//! the first execve of a program that the runtime starts: that memory is the host's
//! ([`Runtime::spawn`](crate::runtime::Runtime::spawn)), and would keep the mapping.
//!
//! **Invariant:** two [`Scratch`] values of one address space never overlap.

use std::io;
use std::rc::Rc;

use super::states::{Prehook, Tracee};
use super::stop::Stop;
use crate::invocation::Invocation;
use crate::runtime::space::Space;
use crate::syscall::errno::error_of;

/// The address that mappings ask for; the kernel takes another one if it is in use.
/// `unstopped::CODE` explains the choice.
const HINT: u64 = 0x7ea0_0000_0000;
const PAGE: u64 = 4096;

/// A part of the tracee's memory that belongs to the tracer until this value is
/// dropped; the mapping then waits for the next request.
#[derive(Debug)]
pub struct Scratch {
    space: Rc<Space>,
    address: u64,
    len: usize,
}

impl Scratch {
    /// Its address in the tracee, a multiple of the page size.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none were asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.space.give_back(self.address);
    }
}

impl Tracee<Prehook> {
    /// Memory in the tracee for the tracer's use: readable, writable, not zeroed
    /// when it was used before. The first request in an address space injects an
    /// `mmap`, later ones are answered from what was given back.
    ///
    /// A fork copies the mapping to the child like everything else, and an
    /// execve removes it: a value kept across the tracee's execve is of no use.
    ///
    /// # Errors
    /// The stop that came instead when the task died. The inner error is
    /// `mmap`'s (`ENOMEM` under `RLIMIT_AS`, say); the tracee is unharmed.
    pub async fn scratch(self, len: usize) -> Result<(Self, io::Result<Scratch>), Stop> {
        let space = self.space();
        let size = (len as u64).max(1).next_multiple_of(PAGE);
        if let Some(address) = space.take(size) {
            return Ok((
                self,
                Ok(Scratch {
                    space,
                    address,
                    len,
                }),
            ));
        }
        let map = Invocation {
            nr: libc::SYS_mmap as u64,
            args: [
                HINT,
                size,
                (libc::PROT_READ | libc::PROT_WRITE) as u64,
                (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
                u64::MAX,
                0,
            ],
        };
        let (same, value) = self.inject(map).await?;
        if let Some(error) = error_of(value) {
            return Ok((same, Err(io::Error::from_raw_os_error(error))));
        }
        let address = value.cast_unsigned();
        space.add(address, size);
        Ok((
            same,
            Ok(Scratch {
                space,
                address,
                len,
            }),
        ))
    }

    /// Unmaps all scratch memory of the address space that no [`Scratch`] value uses.
    ///
    /// # Errors
    /// The stop that came instead when the task died.
    pub async fn release_scratch(mut self) -> Result<Self, Stop> {
        let space = self.space();
        while let Some(area) = space.remove_free() {
            let unmap = Invocation {
                nr: libc::SYS_munmap as u64,
                args: [area.address, area.len, 0, 0, 0, 0],
            };
            (self, _) = self.inject(unmap).await?;
        }
        Ok(self)
    }
}
