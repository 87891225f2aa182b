//! Copies of processes and their tasks, from which checkpoints are made.
//!
//! Memory is kept as copies of processes, made by injected forks (Flashback's shadow
//! processes, Srinivasan et al., 2004; rr's checkpoints). The kernel copies a page when a
//! process writes it. A copy never runs: to restore it, it is copied once more. A replayed
//! process has almost no kernel state (no descriptors, handlers or timers), so the rest of a
//! checkpoint is registers and the replay's own knowledge. A fork copies one thread; the other
//! threads are created again and given their registers.
//!
//! Memory that a fork shares instead of copying is read and kept here: shared memory without a
//! file, and our copies of files that change.
//!
//! **Invariant:** one present of a replay runs at a time. Shared memory is shared with the
//! checkpoints, too, and gets its old content when the replay is restored.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::Observer;
use rustc_hash::FxHashMap;

use super::address_space::AddressSpace;
use crate::memory::maps::{self, Area};
use crate::trace::Task;
use crate::trace::event::{Call, FileNumber};

const PAGE: usize = 4096;

/// The state of a task without its memory.
#[derive(Clone)]
pub(super) struct TaskSnapshot {
    pub(super) task: Task,
    /// The process that it belongs to, in the replay that was kept.
    pub(super) process: Tid,
    pub(super) registers: libc::user_regs_struct,
    pub(super) extended: Rc<[u8]>,
    pub(super) events: u64,
    pub(super) entry: Option<libc::user_regs_struct>,
    pub(super) call: Option<Call>,
    pub(super) returned: Option<i64>,
    pub(super) given: Option<u64>,
    pub(super) child: Option<Task>,
}

/// The description that a task gives of itself.
pub(super) struct TaskDescription {
    pub(super) kept: TaskSnapshot,
    pub(super) space: Rc<AddressSpace>,
    /// The copy that it has made, if it was asked to.
    pub(super) copy: Option<FrozenCopy>,
}

/// An address space, and the tasks that share it.
pub(super) struct SpaceSnapshot {
    pub(super) copy: FrozenCopy,
    pub(super) space: AddressSpace,
    pub(super) first: TaskSnapshot,
    pub(super) others: Vec<TaskSnapshot>,
}

/// A copy of a process, which ends when it is dropped.
pub(super) struct FrozenCopy(pub(super) Rc<FrozenProcess>);

impl FrozenCopy {
    pub(super) fn frozen(&self) -> &FrozenProcess {
        &self.0
    }
}

impl Drop for FrozenCopy {
    fn drop(&mut self) {
        self.0.order(CopyRequest::End);
    }
}

/// A task that goes on from a checkpoint, and those that it has to make.
pub(super) struct RestoredTask {
    pub(super) kept: TaskSnapshot,
    pub(super) space: Rc<AddressSpace>,
    pub(super) others: Vec<TaskSnapshot>,
    pub(super) fork_advice: Rc<[ForkAdvice]>,
}

/// A request to a frozen copy.
pub(super) enum CopyRequest {
    /// Make a copy that runs.
    Restore(Box<RestoredTask>),
    /// Ends the copy.
    End,
}

/// A part of memory of which a fork would not copy what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForkAdvice {
    pub(super) address: u64,
    pub(super) length: u64,
    /// The advice that makes it so, and the one that ends that.
    pub(super) advice: i32,
    pub(super) opposite: i32,
}

/// A copy of a process, which does not run.
#[derive(Default)]
pub(super) struct FrozenProcess {
    request: RefCell<Option<CopyRequest>>,
    waker: RefCell<Option<Waker>>,
    /// Advice that copies of it have to undo.
    pub(super) fork_advice: RefCell<Rc<[ForkAdvice]>>,
    /// Whether it is there.
    pub(super) is_there: Cell<bool>,
}

impl FrozenProcess {
    pub(super) fn order(&self, request: CopyRequest) {
        // Of two the later one is meant.
        *self.request.borrow_mut() = Some(request);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits for the next request.
    pub(super) async fn next(&self) -> CopyRequest {
        poll_fn(|context| match self.request.borrow_mut().take() {
            Some(request) => Poll::Ready(request),
            None => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// Files that change, as they were.
pub(super) struct FileSnapshots {
    pub(super) contents: FxHashMap<FileNumber, (Rc<File>, Vec<u8>)>,
    /// Whether one has been shorter since: private copies of its pages were lost then.
    pub(super) is_truncated: Cell<bool>,
}

/// A part of memory that processes share, as it was.
pub(super) struct SharedMemory {
    /// A task that has it, and where.
    pub(super) task: Task,
    address: u64,
    length: u64,
    /// The protection (`PROT_*`).
    prot: u8,
    /// Its pages that are not all zeros, by their number.
    pages: FxHashMap<usize, Box<[u8]>>,
}

/// Whether a mapping is memory that forks share and that has no file.
fn is_shared(area: &Area) -> bool {
    area.shared && area.name.starts_with(b"/dev/zero")
}

/// The content of memory that processes share, each read through one task.
///
/// # Errors
/// When a process is gone.
pub(super) fn shared(tasks: &[(Task, Rc<Observer>)]) -> io::Result<Vec<SharedMemory>> {
    let mut all = Vec::new();
    let mut known: Vec<(u64, std::ops::Range<u64>)> = Vec::new();
    for (task, observer) in tasks {
        for area in maps::read(observer.tgid())?
            .iter()
            .filter(|area| is_shared(area))
        {
            let range = area.offset..area.offset + (area.end - area.start);
            let is_known = known.iter().any(|(inode, other)| {
                *inode == area.inode && other.start <= range.start && range.end <= other.end
            });
            if is_known {
                continue;
            }
            known.push((area.inode, range));
            let mut pages = FxHashMap::default();
            each_page(
                observer.as_ref(),
                area.start,
                area.end - area.start,
                |at, page| {
                    if page.iter().any(|&byte| byte != 0) {
                        pages.insert(at, page.into());
                    }
                },
            );
            all.push(SharedMemory {
                task: *task,
                address: area.start,
                length: area.end - area.start,
                prot: area.prot,
                pages,
            });
        }
    }
    Ok(all)
}

/// Writes to shared memory.
pub(super) struct SharedWrites {
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) prot: u8,
    pub(super) writes: Vec<(u64, Vec<u8>)>,
}

impl SharedMemory {
    /// The writes to this memory.
    pub(super) fn with(&self, writes: Vec<(u64, Vec<u8>)>) -> SharedWrites {
        SharedWrites {
            address: self.address,
            length: self.length,
            prot: self.prot,
            writes,
        }
    }

    /// The writes that restore the old content: addresses and pages.
    pub(super) fn differing(&self, memory: &dyn Memory) -> Vec<(u64, Vec<u8>)> {
        let zeros = [0; PAGE];
        let mut writes = Vec::new();
        each_page(memory, self.address, self.length, |at, page| {
            let then = self.pages.get(&at).map_or(&zeros[..], |page| page);
            if then[..page.len()] != *page {
                writes.push((
                    self.address + (at * PAGE) as u64,
                    then[..page.len()].to_vec(),
                ));
            }
        });
        writes
    }
}

/// Reads memory page by page, with their numbers.
fn each_page(memory: &dyn Memory, start: u64, length: u64, mut page: impl FnMut(usize, &[u8])) {
    let mut buffer = vec![0; 256 * PAGE];
    let mut at = 0;
    while at < length {
        let want = buffer.len().min((length - at) as usize);
        let got = memory.read(start + at, &mut buffer[..want]) / PAGE * PAGE;
        for (index, bytes) in buffer[..got].chunks_exact(PAGE).enumerate() {
            page(at as usize / PAGE + index, bytes);
        }
        // What cannot be read is skipped.
        at += got.max(PAGE) as u64;
    }
}

/// The parts of a process's memory of which a fork does not copy what is there (proc(5),
/// VmFlags).
///
/// # Errors
/// When the process is gone.
pub(super) fn fork_advice(process: Tid) -> io::Result<Vec<ForkAdvice>> {
    let text = ptrace_async::process::read_proc(format!("/proc/{process}/smaps"))?;
    let mut fork_advice = Vec::new();
    let mut range = None;
    for line in String::from_utf8_lossy(&text).lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let Some((address, length)) = range else {
                continue;
            };
            for flag in flags.split_whitespace() {
                let (advice, opposite) = match flag {
                    "dc" => (libc::MADV_DONTFORK, libc::MADV_DOFORK),
                    "wf" => (libc::MADV_WIPEONFORK, libc::MADV_KEEPONFORK),
                    _ => continue,
                };
                fork_advice.push(ForkAdvice {
                    address,
                    length,
                    advice,
                    opposite,
                });
            }
        } else if let Some((start, rest)) = line.split_once('-')
            && let Some((end, _)) = rest.split_once(' ')
            && let (Ok(start), Ok(end)) =
                (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            range = Some((start, end - start));
        }
    }
    Ok(fork_advice)
}

/// Why no checkpoint of these tasks can be taken, who share memory; nothing if one can. The
/// first of them is the one that would be copied.
pub(super) fn arrange(tasks: &mut [TaskSnapshot]) -> Result<(), ()> {
    tasks.sort_by_key(|kept| kept.task);
    let of = |process: Tid, tasks: &[TaskSnapshot]| {
        tasks.iter().filter(|kept| kept.process == process).count()
    };
    let crowded: Vec<Tid> = tasks
        .iter()
        .map(|kept| kept.process)
        .filter(|&process| of(process, tasks) > 1)
        .collect();
    let Some(&process) = crowded.first() else {
        return Ok(());
    };
    // One makes the threads of its own process.
    tasks.sort_by_key(|kept| (kept.process != process, kept.task));
    if crowded.iter().all(|&other| other == process) {
        Ok(())
    } else {
        Err(())
    }
}
