//! The weak key: identifies a unit before it has made any observation.
//!
//! The key is the digest of the program's content, arguments, environment, working directory,
//! mask, limits, ids, signal state and CPU affinity. It includes the inherited descriptors: their
//! kinds, access modes, flags, positions, and which of them share an open file description. It
//! omits parts that count for few runs of a program ([`LeftOut`]).

mod descriptors;
mod environment;
pub mod exec_context;
mod hasher;
mod limits;
pub mod machine;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ptrace_async::event::{FileKind, OfdId, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::process::read_record;
use rustix::fs::Stat;

use crate::model::fact::Parts;
use crate::model::fact::{Answer, Digest, Part, Query};
use crate::model::file_key::FileKey;
use crate::model::inherited::Inherited;
use crate::model::outcome::Ending;
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;
use crate::platform::defect::{Defect, planted};
use crate::platform::os;
use crate::policy::base_dirs::BaseDirs;
use crate::policy::config::Config;
use crate::policy::{Policy, policy};
use crate::world::World;
use crate::world::executable::{Format, format};

use self::descriptors::hash_descriptors;
pub use self::descriptors::status_flags;
use self::environment::LastVariables;
pub use self::environment::Texts;
use self::hasher::Hasher;
use self::limits::Hashed;
pub use self::limits::{Known, Limits};

/// Part of every weak key: keys of other versions are not found.
pub(crate) const VERSION: u32 = 7;
const CONTEXT: &str = "pcache weak key 7";
/// The version of keys in which names of base directories replace their paths.
pub(crate) const MOVED_VERSION: u32 = 6;
const MOVED_CONTEXT: &str = "pcache weak key of any place 6";

/// One inherited descriptor.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// Its number.
    pub fd: i32,
    /// Its open file description.
    pub file: OfdId,
    /// Its kind.
    pub kind: FileKind,
    /// The path it was opened by.
    pub path: Option<PathBuf>,
    /// Readable, writable, append, non-blocking.
    pub modes: [bool; 4],
    /// Whether it belongs to a jobserver of make.
    pub jobserver: bool,
}

/// An execve that is about to happen.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The task (0: this process).
    pub tid: Tid,
    /// The absolute path of the file, as it was given.
    pub path: FilePath,
    /// Arguments.
    pub argv: Vec<Vec<u8>>,
    /// Environment.
    pub envp: Texts,
    /// Working directory.
    pub cwd: PathBuf,
    /// Descriptors that stay open.
    pub descriptors: Vec<Descriptor>,
    /// Limits of its resources.
    pub limits: Arc<Limits>,
    /// [`crate::key::machine::digest`].
    pub machine: Digest,
    /// Whether nothing is ignored.
    pub strict: bool,
}

/// A key with data from its computation.
#[derive(Debug, Clone)]
pub struct Keyed {
    /// The key.
    pub key: WeakKey,
    /// One entry for each open file description.
    pub inherited: Vec<Inherited>,
    /// Files that the kernel reads to start the program: the program, its interpreter, and so on.
    pub images: Vec<FilePath>,
    /// The program whose policy counts: the last interpreter.
    pub program: FilePath,
    /// Its policy.
    pub policy: Policy,
    /// Parts that the key omits.
    pub left_out: LeftOut,
    /// User and group of the process.
    pub ids: Ids,
    /// The inputs of the key, for explanations.
    pub key_parts: KeyParts,
    /// The key with the names of base directories, if there are any.
    pub moved: Option<WeakKey>,
}

impl Keyed {
    /// Returns the files from which the program is started, with their contents.
    pub fn read(&self) -> impl Iterator<Item = (&FilePath, Digest)> {
        self.images
            .iter()
            .zip(self.key_parts.digests.iter().copied())
    }
}

/// Digests of the parts that a key omits, one for each [`Part`]; `None` if the key contains that
/// part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut([Option<Digest>; Part::ALL.len()]);

impl LeftOut {
    /// Returns the answer to [`Query::LeftOut`].
    pub fn answer(self, part: Part) -> Answer {
        let digest = self.0[part as usize];
        digest.map_or(Answer::Error(libc::ENOENT), Answer::Summary)
    }

    /// Returns the omitted ones among these parts, as facts.
    pub fn facts(self, parts: Parts) -> impl Iterator<Item = (Query, Answer)> {
        let is_used = move |part: &Part| parts.contains(*part) && self.0[*part as usize].is_some();
        let parts = Part::ALL.into_iter().filter(is_used);
        parts.map(move |part| (Query::LeftOut(part), self.answer(part)))
    }
}

/// The inputs of a key, besides the arguments.
#[derive(Debug, Clone, Default)]
pub struct KeyParts {
    /// [`crate::key::machine::digest`].
    pub machine: Digest,
    /// Digests of the images.
    pub digests: Vec<Digest>,
    /// The variables that count, sorted.
    pub environment: Arc<[Vec<u8>]>,
    /// The working directory.
    pub cwd: FilePath,
    /// Lines of `/proc/PID/status`.
    pub process: Vec<u8>,
    /// Resource limits: pairs of numbers.
    pub limits: Vec<u8>,
    /// Each inherited descriptor in words.
    pub descriptors: Vec<Vec<u8>>,
}

/// User and group of a process, if its four kinds of each (real, effective, saved and file access)
/// are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ids {
    user: Option<u32>,
    group: Option<u32>,
}

impl Ids {
    /// Whether its four kinds of each are equal.
    pub fn are_single(&self) -> bool {
        self.user.is_some() && self.group.is_some()
    }

    /// Whether a call sets ids to their present values (setresuid(2)).
    pub fn keep(&self, call: &Invocation) -> bool {
        let present = match call.nr.cast_signed() {
            libc::SYS_setresuid => self.user,
            libc::SYS_setresgid => self.group,
            _ => None,
        };
        let is_kept = |wanted: u32, id: u32| wanted == u32::MAX || wanted == id;
        present.is_some_and(|id| call.args[..3].iter().all(|arg| is_kept(*arg as u32, id)))
    }

    /// Reads the ids from lines of `/proc/PID/status`.
    fn read(status: &[u8]) -> Self {
        let only = |wanted: &[u8]| {
            let (_, line) = lines(status).find(|(name, _)| *name == wanted)?;
            let line = line.get(wanted.len() + 1..)?;
            let mut ids = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
            let first = ids.next()?;
            ids.all(|id| id == first).then(|| first.parse().ok())?
        };
        Self {
            user: only(b"Uid"),
            group: only(b"Gid"),
        }
    }
}

/// Why a program runs without a lookup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{0} cannot be read")]
    Unreadable(String),
    /// The kernel will refuse it.
    #[error("{0} cannot be executed")]
    Forbidden(String),
    /// Set-uid, set-gid or with file capabilities.
    #[error("{0} runs with other rights (set-uid)")]
    Privileged(String),
    /// A 32-bit program or one for another machine.
    #[error("{0} is no 64-bit x86 program: its system calls cannot be followed")]
    Foreign(String),
    /// A format that the kernel is not known to execute.
    #[error("{0} has no known executable format")]
    Unknown(String),
    /// Its process does not see the files, ids or processes that pcache sees, or has other rights.
    #[error(
        "{0} runs in other namespaces, another root directory or with other rights than pcache"
    )]
    Elsewhere(String),
}

/// Examines a file, through links, and returns the resolved path if that is known.
pub type Look<'l> = dyn FnMut(&FilePath) -> rustix::io::Result<(Stat, Option<FilePath>)> + 'l;

/// Makes weak keys.
#[derive(Debug, Default)]
pub struct KeyMaker {
    config: Arc<Config>,
    base_dirs: Option<Arc<BaseDirs>>,
    /// The variables of the previous key.
    variables: LastVariables,
}

impl KeyMaker {
    /// Creates a maker of keys that omits parts according to `config`. With `base_dirs`, it also
    /// makes keys with names of base directories.
    pub fn new(config: Arc<Config>, base_dirs: Option<Arc<BaseDirs>>) -> Self {
        Self {
            config,
            base_dirs,
            variables: LastVariables::default(),
        }
    }

    /// Computes the key.
    ///
    /// # Errors
    /// The reason why the program must run without a lookup.
    pub fn weak_key(&self, execution: &Execution, world: &World) -> Result<Keyed, KeyError> {
        let mut look = |image: &FilePath| Ok((rustix::fs::stat(image.as_path())?, None));
        self.key_with(execution, world, &mut look, &mut |image, stat| {
            world
                .known(image, stat)
                .map_or_else(|| world.digest_file(image).map(|(digest, _)| digest), Ok)
        })
    }

    /// Computes the key if no whole files need to be read; see [`KeyMaker::weak_key`]. `look`
    /// returns the metadata of a file.
    pub fn key_at_once(
        &self,
        execution: &Execution,
        world: &World,
        look: &mut Look<'_>,
    ) -> Option<Result<Keyed, KeyError>> {
        let mut is_known = true;
        let keyed = self.key_with(execution, world, look, &mut |image, stat| {
            let known = world.known(image, stat);
            is_known &= known.is_some();
            known.ok_or_else(|| io::ErrorKind::WouldBlock.into())
        });
        is_known.then_some(keyed)
    }

    /// Computes the key, with the digests of the files from which the program is started.
    fn key_with(
        &self,
        execution: &Execution,
        world: &World,
        look: &mut Look<'_>,
        digest: &mut dyn FnMut(&FilePath, &Stat) -> io::Result<Digest>,
    ) -> Result<Keyed, KeyError> {
        let base_dirs = self.base_dirs.as_deref().filter(|_| !execution.strict);
        let mut hasher = Hasher::new(base_dirs);
        hasher.bytes(&execution.machine.0);
        hash_assumptions(&mut hasher, &self.config, execution.strict);
        let Images {
            files: images,
            digests,
            program,
            real,
        } = Images::find(execution, world, look, digest)?;
        digests.iter().for_each(|content| hasher.bytes(&content.0));
        let mut policy = match &real {
            Some(real) => policy(real.as_bytes(), &execution.argv, execution.strict),
            None => Policy::STRICT,
        };
        // An interpreter gets its script as an argument.
        policy.from_input &= program == execution.path;

        hasher.path(execution.path.as_bytes());
        hasher.number(execution.argv.len() as u64);
        for argument in &execution.argv {
            hasher.text(argument);
        }
        let variables = self
            .variables
            .of(execution, &program, &policy, &self.config);
        if !planted(Defect::EnvironmentKey) {
            hasher.texts(&variables.sorted, &variables.hashed);
        }
        hasher.number(0);
        if !planted(Defect::DirectoryKey) {
            hasher.path(execution.cwd.as_os_str().as_bytes());
        }
        hasher.transcript();
        let ids = hash_process(&mut hasher, execution.tid);
        let process = hasher.transcript();
        match &execution.limits.hashed {
            Hashed::Numbers(numbers) => hasher.numbers(numbers, &execution.limits.shown),
            Hashed::Text(text) => hasher.bytes(text),
        }
        let limits = hasher.transcript();
        let descriptors =
            hash_descriptors(&mut hasher, execution, policy.streams, base_dirs.is_some());
        let key = |hasher: &blake3::Hasher| WeakKey(Digest(*hasher.finalize().as_bytes()));
        Ok(Keyed {
            key: key(&hasher.digest),
            moved: hasher.moved.as_ref().map(|(hasher, _)| key(hasher)),
            inherited: descriptors.inherited,
            images,
            program,
            policy,
            left_out: LeftOut([
                descriptors.input,
                descriptors.output,
                variables.nesting,
                Some(descriptors.size),
            ]),
            ids,
            key_parts: KeyParts {
                machine: execution.machine,
                digests,
                environment: variables.sorted.clone(),
                cwd: execution.cwd.as_path().into(),
                process,
                limits,
                descriptors: descriptors.words,
            },
        })
    }
}

/// The files that the kernel reads to start a program.
struct Images {
    /// The program, its interpreter, and so on.
    files: Vec<FilePath>,
    /// Their contents.
    digests: Vec<Digest>,
    /// The last interpreter.
    program: FilePath,
    /// The resolved path of the program.
    real: Option<FilePath>,
}

impl Images {
    fn find(
        execution: &Execution,
        world: &World,
        look: &mut Look<'_>,
        digest: &mut dyn FnMut(&FilePath, &Stat) -> io::Result<Digest>,
    ) -> Result<Self, KeyError> {
        let shown = |path: &FilePath| path.display().to_string();
        let mut digests = Vec::new();
        let mut images = Vec::new();
        let mut program = execution.path.clone();
        let real = loop {
            let unreadable = |_| KeyError::Unreadable(shown(&program));
            let (stat, real) = look(&program).map_err(|_| KeyError::Unreadable(shown(&program)))?;
            may_be_executed(&program, &stat, world)?;
            if stat.st_mode & 0o6000 != 0 {
                return Err(KeyError::Privileged(shown(&program)));
            }
            let content = digest(&program, &stat).map_err(unreadable)?;
            digests.push(content);
            images.push(program.clone());
            match format_of(&program, &content, &stat, world).map_err(unreadable)? {
                Format::Elf(None) => break real,
                Format::Elf(Some(interpreter)) => {
                    let (stat, _) =
                        look(&interpreter).map_err(|_| KeyError::Forbidden(shown(&interpreter)))?;
                    may_be_executed(&interpreter, &stat, world)?;
                    let digest = digest(&interpreter, &stat).map_err(unreadable)?;
                    digests.push(digest);
                    images.push(interpreter);
                    break real;
                }
                Format::Script(interpreter) if images.len() < 5 => {
                    program = if interpreter.is_absolute() {
                        interpreter
                    } else {
                        FilePath::from(execution.cwd.join(interpreter.as_path()))
                    };
                }
                Format::Foreign => return Err(KeyError::Foreign(shown(&program))),
                // execvp runs it as a shell script, which is another exec.
                Format::Script(_) | Format::Other => {
                    return Err(KeyError::Unknown(shown(&program)));
                }
            }
        };
        let real = real.or_else(|| Some(std::fs::canonicalize(program.as_path()).ok()?.into()));
        Ok(Self {
            files: images,
            digests,
            program,
            real,
        })
    }
}

/// Returns the format of an executable with this content, and caches it if the file still has that
/// content.
fn format_of(
    program: &FilePath,
    content: &Digest,
    stat: &Stat,
    world: &World,
) -> io::Result<Format> {
    if let Some(known) = world.format(content) {
        return Ok(known);
    }
    let found = format(program)?;
    let now = rustix::fs::stat(program.as_path()).ok();
    if now.is_some_and(|now| FileKey::of(&now) == FileKey::of(stat)) {
        world.learn_format(*content, &found);
    }
    Ok(found)
}

/// Whether an image may be executed now, or could be executed earlier in this run. [`allowed`]
/// repeats the check before a skip.
fn may_be_executed(image: &FilePath, stat: &Stat, world: &World) -> Result<(), KeyError> {
    if !world.could_be_executed(image, stat) {
        allowed(image)?;
        world.learn_executable(image, stat);
    }
    Ok(())
}

/// Checks that an image may be executed: a program whose execve fails must not be skipped.
///
/// # Errors
/// [`KeyError::Forbidden`].
pub fn allowed(image: &FilePath) -> Result<(), KeyError> {
    let (mode, flags) = (rustix::fs::Access::EXEC_OK, rustix::fs::AtFlags::EACCESS);
    rustix::fs::accessat(rustix::fs::CWD, image.as_path(), mode, flags)
        .map_err(|_| KeyError::Forbidden(image.display().to_string()))
}

/// Returns the descriptors of the jobserver that an environment announces. They are both ends of
/// one pipe; `pipe_of` returns the pipe of a descriptor. If they differ, a program has replaced
/// one of them by another pipe (`a | b` without a standard input, whose number make may have used
/// for its jobserver).
pub fn jobserver(envp: &Texts, pipe_of: impl Fn(i32) -> Option<u64>) -> Vec<i32> {
    envp.iter()
        .filter_map(|entry| {
            entry
                .strip_prefix(b"MAKEFLAGS=")
                .or_else(|| entry.strip_prefix(b"CARGO_MAKEFLAGS="))
        })
        .flat_map(|flags| flags.split(|&b| b == b' '))
        .filter_map(|word| {
            word.strip_prefix(b"--jobserver-auth=")
                .or_else(|| word.strip_prefix(b"--jobserver-fds="))
        })
        .filter_map(|pair| {
            let (reading, writing) = std::str::from_utf8(pair).ok()?.split_once(',')?;
            let pair: [i32; 2] = [reading.parse().ok()?, writing.parse().ok()?];
            let [reading, writing] = pair.map(&pipe_of);
            (reading.is_some() && reading == writing).then_some(pair)
        })
        .flatten()
        .collect()
}

/// Reads `/proc/PID/status` (0: this process).
fn status(tid: Tid) -> Vec<u8> {
    let status = match tid {
        0 => read_record("/proc/self/status"),
        _ => read_record(format!("/proc/{tid}/status")),
    };
    status.unwrap_or_default()
}

/// Returns the lines of a status, each with its name.
fn lines(status: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    status.split(|&byte| byte == b'\n').map(|line| {
        let name = memchr::memchr(b':', line).unwrap_or(line.len());
        (&line[..name], line)
    })
}

/// Returns ids and capabilities of a process (0: this process) in the kernel's format.
pub fn rights(tid: Tid) -> Vec<u8> {
    let wanted = |name: &[u8]| matches!(name, b"Uid" | b"Gid" | b"Groups" | b"CapPrm" | b"CapEff");
    lines(&status(tid))
        .filter(|(name, _)| wanted(name))
        .flat_map(|(_, line)| line)
        .copied()
        .collect()
}

/// Hashes what the user configured about results: a result that was stored under other
/// assumptions is not used. Nothing is hashed for the usual case, an empty configuration without
/// `--strict`.
fn hash_assumptions(hasher: &mut Hasher<'_>, config: &Config, strict: bool) {
    if !config.stores(Ending::Exited(1)) {
        hasher.bytes(b"no failures");
    }
    if strict {
        // The rest of the configuration does not count.
        hasher.bytes(b"strict");
        return;
    }
    let uncacheable = config.uncacheable.iter().map(|name| name.as_bytes());
    let constant = config.constant_paths.iter();
    let constant = constant.map(|path| path.as_os_str().as_bytes());
    let lists: [(&[u8], BTreeSet<&[u8]>); 2] = [
        (b"uncacheable", uncacheable.collect()),
        (b"constant_paths", constant.collect()),
    ];
    for (name, entries) in lists.iter().filter(|(_, entries)| !entries.is_empty()) {
        hasher.bytes(name);
        hasher.number(entries.len() as u64);
        entries.iter().for_each(|entry| hasher.path(entry));
    }
}

/// Hashes ids, masks, signals and affinity of the process.
fn hash_process(hasher: &mut Hasher<'_>, tid: Tid) -> Ids {
    let status = status(tid);
    for (name, line) in lines(&status) {
        match name {
            b"SigIgn" => {
                let mut ignored = ignored_signals(line);
                if tid == 0 {
                    // The Rust runtime ignores it; the command starts with the original state.
                    let bit = 1 << (libc::SIGPIPE - 1);
                    ignored = if os::pipe_was_ignored() {
                        ignored | bit
                    } else {
                        ignored & !bit
                    };
                }
                hasher.number(ignored);
            }
            b"Umask" | b"Uid" | b"Gid" | b"Groups" | b"SigBlk" | b"CapInh" | b"CapPrm"
            | b"CapEff" | b"CapBnd" | b"CapAmb" | b"Cpus_allowed" => hasher.bytes(line),
            _ => {}
        }
    }
    Ids::read(&status)
}

/// Parses the signals in a line of `/proc/PID/status`, without 32 and 33: these belong to the C
/// library, and posix_spawn(3) leaves them ignored.
fn ignored_signals(line: &[u8]) -> u64 {
    let hex = line.strip_prefix(b"SigIgn:").unwrap_or(line).trim_ascii();
    let set = std::str::from_utf8(hex)
        .ok()
        .and_then(|hex| u64::from_str_radix(hex, 16).ok());
    set.map_or(u64::MAX, |set| set & !(0b11 << 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contexts_of_keys_end_with_their_versions() {
        assert!(CONTEXT.ends_with(&format!(" {VERSION}")));
        assert!(MOVED_CONTEXT.ends_with(&format!(" {MOVED_VERSION}")));
    }

    #[test]
    fn ids_are_kept_by_calls_that_name_them_or_nothing() {
        const KEEP: u64 = u64::MAX;
        let ids = Ids::read(b"Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t9\t8\n");
        let keeps = |nr: i64, wanted: [u64; 3]| {
            let args = [wanted[0], wanted[1], wanted[2], 0, 0, 0];
            let nr = nr.cast_unsigned();
            ids.keep(&Invocation { nr, args })
        };
        for kept in [
            [7, 7, 7],
            [KEEP, 7, KEEP],
            [KEEP; 3],
            [u64::from(u32::MAX), 7, 7],
        ] {
            assert!(keeps(libc::SYS_setresuid, kept), "{kept:?}");
        }
        for changed in [[0, 7, 7], [7, 7, 8], [KEEP, 0, KEEP]] {
            assert!(!keeps(libc::SYS_setresuid, changed), "{changed:?}");
        }
        // The ids are not equal.
        assert!(!keeps(libc::SYS_setresgid, [8, 8, 8]));
        assert!(!keeps(libc::SYS_setuid, [7, 7, 7]));
        assert_eq!(Ids::read(b""), Ids::default());
    }
}
