//! Stack frames of a replayed task.
//!
//! Frames come from the tables for exceptions (`.eh_frame`), or from frame pointers where a
//! file has no tables. Names and lines come from debug information and symbols. All of it is
//! best effort: unknown parts are left out, and a frame that makes no sense ends the list.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::{Object, ObjectSection, ObjectSegment};
use ptrace_async::memory::Memory;
use ptrace_async::runtime::Observer;

use crate::buffer;
use crate::memory::maps::{self, Area};

/// How many frames are shown.
const DEEPEST: usize = 64;
/// Files that are larger are not looked into, in bytes.
const LARGEST: u64 = 1 << 30;

/// A function that a task is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The instruction that comes next.
    pub address: u64,
    /// The file that it is from, and where it is there.
    pub module: Option<(PathBuf, u64)>,
    /// The function.
    pub function: Option<String>,
    /// File and line of its source.
    pub location: Option<String>,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)?;
        if let Some(function) = &self.function {
            write!(f, " {function}")?;
        }
        if let Some(location) = &self.location {
            write!(f, " at {location}")?;
        }
        match &self.module {
            Some((path, offset)) => write!(f, " ({}+{offset:#x})", path.display()),
            None => write!(f, " (in no file)"),
        }
    }
}

/// A file that is mapped.
struct Mapped {
    path: PathBuf,
    /// The difference of its addresses in memory and in the file.
    bias: u64,
    start: u64,
    end: u64,
    loader: Option<Loader>,
}

/// A replayed task, and what its files were called when they were recorded.
pub(super) struct Here<'a> {
    pub(super) task: &'a Observer,
    pub(super) recorded_path: &'a dyn Fn(&Path) -> Option<PathBuf>,
}

/// The frames of a task that is in a stop, the innermost first.
pub(super) fn take(here: &Here<'_>) -> Vec<Frame> {
    let task = here.task;
    let (Ok(regs), Ok(areas)) = (task.registers(), maps::read(task.tgid())) else {
        return Vec::new();
    };
    let mut unwinder = UnwinderX86_64::<Vec<u8>>::new();
    let mut files = Vec::new();
    for (path, areas) in executables(&areas) {
        if let Some((module, mut file)) = load(path, &areas) {
            unwinder.add_module(module);
            file.path = (here.recorded_path)(path).unwrap_or(file.path);
            files.push(file);
        }
    }
    let ip = origin(task, regs.rip, &areas);
    let registers = UnwindRegsX86_64::new(ip, regs.rsp, regs.rbp);
    let mut cache = CacheX86_64::<_>::new();
    let mut read = |address| task.read_u64(address).map_err(drop);
    let mut found = Vec::new();
    let mut frames = unwinder.iter_frames(ip, registers, &mut cache, &mut read);
    while found.len() < DEEPEST
        && let Ok(Some(frame)) = frames.next()
    {
        found.extend(describe(frame, &files));
    }
    found.truncate(DEEPEST);
    found
}

/// Where the program itself is, if it is in code of ours that a call goes through.
fn origin(task: &Observer, ip: u64, areas: &[Area]) -> u64 {
    let ip = if buffer::contains(ip) {
        task.read_u64(buffer::returns_to()).unwrap_or(ip)
    } else {
        ip
    };
    let is_of_a_file = |ip| {
        let mut here = areas
            .iter()
            .filter(|area| (area.start..area.end).contains(&ip));
        here.any(|area| area.inode != 0)
    };
    if is_of_a_file(ip) {
        return ip;
    }
    // A trampoline ends with a jump to where it belongs.
    let mut code = [0; 64];
    let got = task.read(ip, &mut code);
    let decoder = Decoder::with_ip(64, &code[..got], ip, DecoderOptions::NONE);
    let jump = decoder
        .into_iter()
        .take(8)
        .find(|instruction| instruction.flow_control() == FlowControl::UnconditionalBranch);
    let target = jump.map(|jump| jump.near_branch_target());
    target.filter(|&target| is_of_a_file(target)).unwrap_or(ip)
}

/// The files that code is mapped from, with all their mappings.
fn executables(areas: &[Area]) -> BTreeMap<&Path, Vec<&Area>> {
    let mut files: BTreeMap<&Path, Vec<&Area>> = BTreeMap::new();
    for area in areas.iter().filter(|area| area.name.starts_with(b"/")) {
        let path = Path::new(OsStr::from_bytes(&area.name));
        files.entry(path).or_default().push(area);
    }
    let is_code = |area: &&Area| i32::from(area.prot) & libc::PROT_EXEC != 0;
    files.retain(|_, areas| areas.iter().any(is_code));
    files
}

fn load(path: &Path, areas: &[&Area]) -> Option<(Module<Vec<u8>>, Mapped)> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let bias = areas.iter().find_map(|area| bias(&file, area))?;
    let base = file.segments().map(|segment| segment.address()).min()?;
    let start = areas.iter().map(|area| area.start).min()?;
    let end = areas.iter().map(|area| area.end).max()?;
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let range = section.address()..section.address().checked_add(section.size())?;
        Some((range, section.data().ok()?.to_vec()))
    };
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    let (text_svma, text) = section(".text").unzip();
    let info = ExplicitModuleSectionInfo {
        base_svma: base,
        text_svma,
        text,
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..ExplicitModuleSectionInfo::default()
    };
    let name = path.display().to_string();
    let module = Module::new(name, start..end, base.wrapping_add(bias), info);
    let mapped = Mapped {
        path: path.to_owned(),
        bias,
        start,
        end,
        loader: Loader::new(path).ok(),
    };
    Some((module, mapped))
}

/// The difference of addresses in memory and in the file, from one mapped part.
fn bias(file: &object::File<'_>, area: &Area) -> Option<u64> {
    file.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let page = offset & !0xfff;
        let end = offset.checked_add(size)?;
        (page..end).contains(&area.offset).then(|| {
            let address = segment
                .address()
                .wrapping_sub(offset)
                .wrapping_add(area.offset);
            area.start.wrapping_sub(address)
        })
    })
}

/// The functions at an address: more than one where some are inlined.
fn describe(frame: FrameAddress, files: &[Mapped]) -> Vec<Frame> {
    let address = frame.address();
    // The call, and not what comes after it.
    let at = frame.address_for_lookup();
    let mut here = Frame {
        address,
        module: None,
        function: None,
        location: None,
    };
    let mut around = files.iter();
    let Some(file) = around.find(|file| (file.start..file.end).contains(&at)) else {
        return vec![here];
    };
    let own = at.wrapping_sub(file.bias);
    here.module = Some((file.path.clone(), address.wrapping_sub(file.bias)));
    let Some(loader) = &file.loader else {
        return vec![here];
    };
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(own) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame
                .function
                .and_then(|name| Some(name.demangle().ok()?.into_owned()));
            found.push(Frame {
                function: name,
                location: frame.location.and_then(|location| source_line(&location)),
                ..here.clone()
            });
        }
    }
    if found.is_empty() {
        found.push(here);
    }
    if let [.., outermost] = &mut found[..]
        && outermost.function.is_none()
    {
        let symbol = loader.find_symbol(own);
        let name = symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
        outermost.function = name;
    }
    found
}

/// A line of a source.
fn source_line(location: &addr2line::Location<'_>) -> Option<String> {
    let file = location.file?;
    Some(match location.line {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    })
}
