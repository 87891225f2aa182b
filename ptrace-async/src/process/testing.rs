//! The fixture of the decoders' tests: a model with one artificial process, memory made of
//! bytes, and a short printed form of events.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use smallvec::SmallVec;

use super::model::{Location, Processes, Task};
use super::nr;
use super::table::Table;
use super::watch::watch;
use crate::event::{FileKind, FileRef, IoEvent, OpenFile, PathRef, Tid};
use crate::invocation::Invocation;
use crate::memory::Memory;

/// Above every possible task id, so that `/proc` knows nothing of it.
pub(super) const TID: Tid = 2_000_000_000;
const BASE: u64 = 0x10_000;
pub(super) const CWD: u64 = libc::AT_FDCWD as u64;

/// Bytes from [`BASE`] on; everything else is unmapped.
#[derive(Debug, Default)]
pub(super) struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Some(start) = address.checked_sub(BASE) else {
            return 0;
        };
        let rest = self.0.get(start as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    }
}

/// A process in `/base` with a terminal at 0, a pipe to write at 1, and the file
/// `/log` at 2, all older than the session.
pub(super) struct Case {
    pub(super) model: Processes,
    pub(super) memory: Bytes,
    /// The paths that the last call announced.
    pub(super) about: Vec<String>,
    /// Whether the last call asked for its exit.
    pub(super) exited: bool,
}

impl Case {
    pub(super) fn new() -> Self {
        let mut model = Processes::new();
        let mut table = Table::default();
        let inherited = [
            (FileKind::Terminal, Some("/dev/pts/9"), true, true),
            (FileKind::Pipe { pipe: 77 }, None, false, true),
            (FileKind::Regular, Some("/log"), false, true),
        ];
        for (fd, (kind, path, readable, writable)) in (0..).zip(inherited) {
            let file = Rc::new(OpenFile {
                id: model.fresh_file(),
                kind,
                path: path.map(PathBuf::from),
                readable,
                writable,
                path_only: false,
                append: Cell::new(false),
                nonblocking: Cell::new(false),
                creator: None,
            });
            table.set(fd, file, false);
        }
        let task = Task {
            tgid: TID,
            files: model.tables.insert(table),
            location: model.locations.insert(Location {
                cwd: "/base".into(),
                root: "/".into(),
                umask: 0o022,
            }),
        };
        model.tasks.insert(TID, task);
        Self {
            model,
            memory: Bytes::default(),
            about: Vec::new(),
            exited: false,
        }
    }

    /// Puts bytes into memory; their address.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let padding = self.memory.0.len().next_multiple_of(8);
        self.memory.0.resize(padding, 0);
        let address = BASE + padding as u64;
        self.memory.0.extend_from_slice(bytes);
        address
    }

    /// Puts a string into memory; its address.
    pub(super) fn text(&mut self, text: &str) -> u64 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(&bytes)
    }

    /// Puts numbers into memory; their address.
    pub(super) fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Puts C integers into memory; their address.
    pub(super) fn ints(&mut self, ints: &[i32]) -> u64 {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Makes a call that returns `result`. One that the filter lets through is
    /// not shown to the model.
    pub(super) fn call_by(&mut self, tid: Tid, nr: u64, args: &[u64], result: i64) -> Vec<IoEvent> {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let call = Invocation { nr, args: all };
        let mut out = SmallVec::new();
        self.about.clear();
        self.exited = false;
        if watch(nr).stops(&all) {
            let entry = self.model.entry(tid, &call, &self.memory, &mut out);
            self.about
                .extend(entry.about_to_change.iter().map(show_path));
            if let Some(pending) = entry.pending {
                self.exited = true;
                self.model
                    .exit(tid, pending, result, &self.memory, &mut out);
            }
        }
        out.into_vec()
    }

    pub(super) fn call(&mut self, nr: u64, args: &[u64], result: i64) -> Vec<IoEvent> {
        self.call_by(TID, nr, args, result)
    }

    /// Makes a call and compares its events, in the words of [`show`].
    #[track_caller]
    pub(super) fn check(&mut self, nr: u64, args: &[u64], result: i64, expected: &[&str]) {
        let events = self.call(nr, args, result);
        let shown: Vec<String> = events.iter().map(show).collect();
        assert_eq!(shown, expected, "{}", nr::name(nr));
    }

    /// Makes a call on a path relative to the working directory.
    #[track_caller]
    pub(super) fn check_path(&mut self, nr: u64, path: &str, rest: &[u64], expected: &[&str]) {
        let path = self.text(path);
        let mut args = vec![path];
        args.extend(rest);
        self.check(nr, &args, 0, expected);
    }

    /// Opens a path at a descriptor.
    #[track_caller]
    pub(super) fn open(&mut self, path: &str, flags: i32, fd: i32) {
        let path = self.text(path);
        let args = [CWD, path, flags as u64, 0o666];
        self.call(nr::openat, &args, i64::from(fd));
        assert!(self.model.file(TID, fd).is_some());
    }

    pub(super) fn path_of(&self, fd: i32) -> Option<&Path> {
        self.model.file(TID, fd)?.path.as_deref()
    }

    /// The descriptors that are open, the close-on-exec ones with a star.
    pub(super) fn descriptors(&self, tid: Tid) -> String {
        let shown = self.model.descriptors(tid);
        let shown = shown.map(|(fd, _, cloexec)| format!("{fd}{}", if cloexec { "*" } else { "" }));
        shown.collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn show_path(path: &PathRef) -> String {
    let link = if path.follow { "" } else { "@" };
    format!("{}{link}", path.path.display())
}

fn show_file(file: &OpenFile) -> String {
    match &file.path {
        Some(path) => format!("<{}>", path.display()),
        None => format!("<{:?}>", file.kind),
    }
}

fn show_file_ref(file: &FileRef) -> String {
    match file {
        FileRef::Path(path) => show_path(path),
        FileRef::File(file) => show_file(file),
    }
}

/// An event in few words; a path that is not followed at its end has an `@`, a
/// descriptor's file stands in angle brackets.
pub(super) fn show(event: &IoEvent) -> String {
    use IoEvent as E;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        E::Open {
            path,
            error: Some(error),
            ..
        } => format!("open {} fails {error}", show_path(path)),
        E::Open { path, mode, .. } => {
            let mut shown = format!("open {}", show_path(path));
            let flags = [
                (mode.read, "read"),
                (mode.write, "write"),
                (mode.exclusive, "exclusive"),
                (mode.truncate, "truncate"),
                (mode.append, "append"),
                (mode.directory, "directory"),
                (mode.path_only, "path"),
                (mode.tmpfile, "tmpfile"),
                (mode.no_access_time, "noatime"),
            ];
            for (_, name) in flags.iter().filter(|(set, _)| *set) {
                shown += &format!(" {name}");
            }
            if let Some(mode) = mode.create {
                shown += &format!(" create {mode:o}");
            }
            shown
        }
        E::Stat { path } => format!("stat {}", show_path(path)),
        E::Find { path } => format!("find {}", show_path(path)),
        E::StatFile { file } => format!("stat {}", show_file(file)),
        E::Access {
            path,
            mode,
            effective,
        } => {
            let effective = if *effective { " effective" } else { "" };
            format!("access {} {mode}{effective}", show_path(path))
        }
        E::ReadLink { path } => format!("readlink {}", show_path(path)),
        E::List { file } => format!("list {}", show_file(file)),
        E::StatFs { file } => format!("statfs {}", show_file_ref(file)),
        E::XattrRead { file, name } => {
            let name = name.as_deref().map_or("*".to_owned(), lossy);
            format!("xattr {} {name}", show_file_ref(file))
        }
        E::XattrWrite { file, name, how } => {
            let how = format!("{how:?}").to_lowercase();
            format!("{how} xattr {} {}", show_file_ref(file), lossy(name))
        }
        E::MakeDir { path, mode } => format!("mkdir {} {mode:o}", show_path(path)),
        E::MakeNode { path, mode, device } => {
            format!("mknod {} {mode:o} {device}", show_path(path))
        }
        E::Unlink { path } => format!("unlink {}", show_path(path)),
        E::RemoveDir { path } => format!("rmdir {}", show_path(path)),
        E::Rename { from, to, exchange } => {
            let arrow = if *exchange { "<->" } else { "->" };
            format!("rename {} {arrow} {}", show_path(from), show_path(to))
        }
        E::Link { from, to } => format!("link {} -> {}", show_file_ref(from), show_path(to)),
        E::Symlink { target, path } => format!("symlink {} -> {}", show_path(path), lossy(target)),
        E::Truncate { file, length } => format!("truncate {} {length}", show_file_ref(file)),
        E::Chmod { file, mode } => format!("chmod {} {mode:o}", show_file_ref(file)),
        E::Chown { file } => format!("chown {}", show_file_ref(file)),
        E::SetTimes {
            file,
            accessed,
            modified,
        } => {
            format!("times {} {accessed:?} {modified:?}", show_file_ref(file))
        }
        E::Write {
            fd,
            file,
            length,
            positioned,
            source,
            buffers,
        } => {
            let mut shown = format!("write {fd} {} {length}", show_file(file));
            if *positioned {
                shown += " positioned";
            }
            if let Some(source) = source {
                shown += &format!(" from {}", show_file(source));
            }
            for (_, length) in buffers {
                shown += &format!(" [{length}]");
            }
            shown
        }
        E::Read {
            fd,
            file,
            positioned,
        } => {
            let positioned = if *positioned { " positioned" } else { "" };
            format!("read {fd} {}{positioned}", show_file(file))
        }
        E::Seek { fd, file, measures } => {
            let what = if *measures { "measure" } else { "seek" };
            format!("{what} {fd} {}", show_file(file))
        }
        E::MapShared { file } => format!("map {}", show_file(file)),
        E::Lock { file } => format!("lock {}", show_file(file)),
        E::Ioctl { file, request } => format!("ioctl {} {request:#x}", show_file(file)),
        E::ChangeDir { path, error: None } => format!("chdir {}", show_path(path)),
        E::ChangeDir {
            path,
            error: Some(error),
        } => format!("chdir {} fails {error}", show_path(path)),
        E::ChangeRoot { path } => format!("chroot {}", show_path(path)),
        E::Umask { mask } => format!("umask {mask:o}"),
        E::Spawn { thread, vfork, .. } => format!("spawn thread={thread} vfork={vfork}"),
        E::ExecAttempt { path, .. } => format!("exec {}", show_path(path)),
        E::ExecFailed { path, error } => format!("exec {} fails {error}", show_path(path)),
        E::Clock { clock } => format!("clock {clock}"),
        E::Random { length, flags } => format!("random {length} {flags}"),
        E::Identity { what } => format!("identity {what:?}"),
        E::SetLimit { resource } => format!("limit {resource}"),
        E::StateChange { what } => format!("state {what}"),
        E::SignalSent { target, signal } => format!("signal {signal} to {target}"),
        E::Network { what, file } => {
            let file = file.as_deref().map_or(String::new(), show_file);
            format!("network {what} {file}")
        }
        E::Channel { read, write } => format!("channel {} {}", kind(read), kind(write)),
        E::Received { fd } => format!("received {fd}"),
        E::SharedMemory { what } => format!("shared {what}"),
        E::Failed { call, paths, error } => {
            let paths: Vec<String> = paths.iter().map(show_path).collect();
            format!("{call} {} fails {error}", paths.join(" "))
        }
        E::Unsupported { name, reason, .. } => format!("unsupported {name}: {reason}"),
    }
}

/// The kind of a file, without the numbers of pipes.
fn kind(file: &OpenFile) -> &'static str {
    match file.kind {
        FileKind::Pipe { .. } => "pipe",
        FileKind::Socket(_) => "socket",
        _ => "other",
    }
}
