//! Capture of a program right after execve: all that a replay needs to build it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Exec, Tracee};

use crate::code::registers::Registers;
use crate::memory::maps::{self, Area};
use crate::record::descriptors::FileKey;
use crate::record::mappings::address_space::AddressSpace;
use crate::record::scheduler::Scheduler;
use crate::record::session::Session;
use crate::trace::event::{FileNumber, Image, Mapping, Write};
use crate::trace::{Error, Task};

const PAGE: u64 = 4096;

/// The number of a file, and what tells it from others if it can change.
type KnownSites = (FileNumber, Option<FileKey>);

/// Captures the program that `tracee` has just executed.
pub(in crate::record) fn capture(
    tracee: &Tracee<Exec>,
    session: &Session,
    task: Task,
    scheduler: &Scheduler,
    space: &AddressSpace,
) -> Option<Image> {
    let pid = tracee.tgid();
    let proc = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let areas = match maps::read(pid) {
        Ok(areas) => areas,
        Err(error) => {
            session.fail(pid, Error::io(&proc("maps"))(error));
            return None;
        }
    };
    let mut registers = tracee.registers().ok()?;
    // This stop is inside of execve, which is yet to return.
    registers.rax = 0;
    let mut image = Image {
        program: std::fs::read_link(proc("exe"))
            .map(|path| path.into_os_string().into_encoded_bytes())
            .unwrap_or_default(),
        pid,
        group: scheduler.number(),
        cpu: scheduler.cpu(),
        registers: Registers::from(&registers),
        mappings: Vec::new(),
        writes: Vec::new(),
    };
    let mut files: Vec<(u64, &[u8], KnownSites)> = Vec::new();
    for area in areas.iter().filter(|area| !area.is_kernels()) {
        let stack = area.name == b"[stack]";
        let known = files
            .iter()
            .find(|(inode, name, _)| (*inode, *name) == (area.inode, &area.name[..]));
        let known = match known {
            _ if area.inode == 0 => None,
            Some((.., known)) => Some(*known),
            None => {
                let open = open_path(pid, area);
                let known = session.fresh_file(task, pid, &open, &area.name)?;
                files.push((area.inode, &area.name, known));
                Some(known)
            }
        };
        if let Some((_, Some(key))) = known {
            space.add(area.start, area.end - area.start, key);
        }
        let file = known.map(|(number, _)| (number, area.offset));
        let writable = i32::from(area.prot) & libc::PROT_WRITE != 0;
        if stack {
            let start = registers.rsp & !15;
            keep(&mut image, tracee, start, area.end);
            let is_saved = |write: &Write| write.bytes.len() as u64 == area.end - start;
            if !image.writes.last().is_some_and(is_saved) {
                let reason = "the program is executable but not readable";
                let error = std::io::Error::new(std::io::ErrorKind::PermissionDenied, reason);
                session.fail(pid, Error::io(&proc("mem"))(error));
                return None;
            }
        } else if writable && file.is_some() {
            // The kernel clears what lies behind the data in its last page.
            keep(&mut image, tracee, area.end - PAGE, area.end);
        }
        image.mappings.push(Mapping {
            start: area.start,
            end: area.end,
            prot: area.prot,
            grows_down: stack,
            file,
        });
    }
    Some(image)
}

fn keep(image: &mut Image, tracee: &Tracee<Exec>, start: u64, end: u64) {
    let mut bytes = vec![0; (end - start) as usize];
    let got = tracee.read(start, &mut bytes);
    bytes.truncate(got);
    image.writes.push(Write {
        address: start,
        bytes,
    });
}

/// A path that leads to the file of a mapping, whatever has become of its name.
fn open_path(pid: i32, area: &Area) -> PathBuf {
    let path = PathBuf::from(format!("/proc/{pid}/root")).join(
        PathBuf::from(OsStr::from_bytes(area.name.trim_ascii_start()))
            .strip_prefix("/")
            .unwrap_or(OsStr::new("").as_ref()),
    );
    let is_it = std::fs::metadata(&path).is_ok_and(|metadata| metadata.ino() == area.inode);
    if is_it {
        path
    } else {
        // Deleted, or replaced. It is the program itself, or its loader; only the first
        // can be had without a privilege.
        PathBuf::from(format!("/proc/{pid}/exe"))
    }
}
