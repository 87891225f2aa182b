//! The printed form of a call: `openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3`.
//!
//! It follows strace, so that people need not learn a second notation: flags by
//! name, errors as `-1 ENOENT`, strings with C escapes and `...` where they are
//! cut, outputs as the kernel left them.

use std::fmt::{self, Display, Formatter, Write as _};

use super::call::Syscall;
use super::decode::{Decoded, Message, Value, field_value};
use super::errno::{self, error_of};
use super::flags;
use super::layout::Layout;
use super::model::{Return, Type};

impl Display for Decoded {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.syscall {
            Syscall::Known(spec) => out.write_str(spec.name)?,
            Syscall::Unknown(number) => write!(out, "syscall_{number:#x}")?,
        }
        out.write_char('(')?;
        for (index, arg) in self.args.iter().enumerate() {
            if index > 0 {
                out.write_str(", ")?;
            }
            write!(out, "{}", arg.value)?;
        }
        out.write_char(')')?;
        match self.result {
            Some(result) => {
                out.write_str(" = ")?;
                write_result(self.syscall, result, out)
            }
            None => Ok(()),
        }
    }
}

fn write_result(syscall: Syscall, result: i64, out: &mut Formatter<'_>) -> fmt::Result {
    if let Some(error) = error_of(result) {
        return match errno::name(error) {
            // Not the program's result: the kernel restarts the call, or turns
            // it into EINTR.
            Some(name) if error >= 512 => write!(out, "? {name}"),
            Some(name) => write!(out, "-1 {name}"),
            None => write!(out, "-1 errno {error}"),
        };
    }
    match syscall.spec().map(|spec| spec.returns) {
        Some(Return::Address) | None => write!(out, "{result:#x}"),
        Some(Return::Never) => out.write_char('?'),
        Some(_) => write!(out, "{result}"),
    }
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(out, "{number}"),
            Self::UInt(number) => write!(out, "{number}"),
            Self::Word(word) | Self::Address(word) => write!(out, "{word:#x}"),
            Self::Unwritten(address) | Self::Unreadable(address) => write!(out, "{address:#x}"),
            Self::Null => out.write_str("NULL"),
            Self::Fd(fd) => write!(out, "{fd}"),
            Self::DirFd(libc::AT_FDCWD) => out.write_str("AT_FDCWD"),
            Self::DirFd(fd) => write!(out, "{fd}"),
            Self::Id(Some(id)) => write!(out, "{id}"),
            Self::Id(None) => out.write_str("-1"),
            Self::Mode(mode) => write_mode(*mode, out),
            Self::Device(device) => {
                write!(
                    out,
                    "makedev({:#x}, {:#x})",
                    libc::major(*device),
                    libc::minor(*device)
                )
            }
            Self::Signal(number) => write_signal(*number, out),
            Self::Flags(set, word) => set.write(*word, out),
            Self::Text { bytes, complete } => write_text(bytes, *complete, out),
            Self::Bytes { bytes, len } => write_text(bytes, bytes.len() as u64 == *len, out),
            Self::Strings { items, complete } => {
                let more = if *complete { "" } else { ", ..." };
                out.write_char('[')?;
                write_list(items, out, |item, out| write_text(item, true, out))?;
                write!(out, "{more}]")
            }
            Self::Struct { layout, bytes } => write_struct(*layout, bytes, true, out),
            Self::Structs {
                layout,
                items,
                count,
            } => {
                out.write_char('[')?;
                write_list(items, out, |item, out| {
                    write_struct(*layout, item, false, out)
                })?;
                write!(
                    out,
                    "{}]",
                    if items.len() as u64 == *count {
                        ""
                    } else {
                        ", ..."
                    }
                )
            }
            Self::Vectors { items, count } => {
                write_vectors(items, out)?;
                let more = (items.len() as u64) < *count;
                out.write_str(if more { "..." } else { "" })
            }
            Self::Message(message) => write_message(message, out),
            Self::Messages(messages) => {
                out.write_char('[')?;
                write_list(messages, out, |(message, len), out| {
                    out.write_str("{msg_hdr=")?;
                    write_message(message, out)?;
                    write!(out, ", msg_len={len}}}")
                })?;
                out.write_char(']')
            }
        }
    }
}

fn write_list<T>(
    items: &[T],
    out: &mut Formatter<'_>,
    write: impl Fn(&T, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write(item, out)?;
    }
    Ok(())
}

/// A string with C escapes.
fn write_text(bytes: &[u8], complete: bool, out: &mut Formatter<'_>) -> fmt::Result {
    out.write_char('"')?;
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' => out.write_str("\\n")?,
            b'\t' => out.write_str("\\t")?,
            b'\r' => out.write_str("\\r")?,
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            b' '..=b'~' => out.write_char(char::from(byte))?,
            // Three digits where a digit follows, or it would be read as one more.
            _ if bytes.get(index + 1).is_some_and(u8::is_ascii_digit) => {
                write!(out, "\\{byte:03o}")?;
            }
            _ => write!(out, "\\{byte:o}")?,
        }
    }
    out.write_str(if complete { "\"" } else { "\"..." })
}

/// A file mode: the type by name, the permissions in octal.
fn write_mode(mode: u32, out: &mut Formatter<'_>) -> fmt::Result {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFREG => "S_IFREG|",
        libc::S_IFDIR => "S_IFDIR|",
        libc::S_IFLNK => "S_IFLNK|",
        libc::S_IFCHR => "S_IFCHR|",
        libc::S_IFBLK => "S_IFBLK|",
        libc::S_IFIFO => "S_IFIFO|",
        libc::S_IFSOCK => "S_IFSOCK|",
        0 => "",
        _ => return write!(out, "{mode:#o}"),
    };
    write!(out, "{kind}0{:o}", mode & !libc::S_IFMT)
}

/// The names of the standard signals, by number.
const SIGNALS: [&str; 32] = [
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn write_signal(number: i32, out: &mut Formatter<'_>) -> fmt::Result {
    match usize::try_from(number)
        .ok()
        .and_then(|number| SIGNALS.get(number))
    {
        Some(name) if number > 0 => write!(out, "SIG{name}"),
        _ if (32..=64).contains(&number) => write!(out, "SIGRT_{}", number - 32),
        _ => write!(out, "{number}"),
    }
}

/// A signal set; by what is missing where most is there.
fn write_signals(set: u64, out: &mut Formatter<'_>) -> fmt::Result {
    let invert = set.count_ones() > 32;
    let shown = if invert { !set } else { set };
    out.write_str(if invert { "~[" } else { "[" })?;
    let mut first = true;
    for number in (1..=64).filter(|number| shown & (1 << (number - 1)) != 0) {
        if !first {
            out.write_char(' ')?;
        }
        first = false;
        match SIGNALS.get(number) {
            Some(name) => out.write_str(name)?,
            None => write!(out, "RT_{}", number - 32)?,
        }
    }
    out.write_char(']')
}

/// Writes a structure. Integers and sets are in brackets where a pointer to one is shown
/// (`alone`), and without them in arrays.
fn write_struct(layout: Layout, bytes: &[u8], alone: bool, out: &mut Formatter<'_>) -> fmt::Result {
    let integer = match layout {
        Layout::I32 | Layout::I64 => Some(Type::Long),
        Layout::U16 | Layout::U32 | Layout::U64 => Some(Type::UInt),
        _ => None,
    };
    if let Some(ty) = integer {
        let width = layout.size() as usize;
        return match field_value(bytes, 0, width, ty) {
            Some(value) if alone => write!(out, "[{value}]"),
            Some(value) => write!(out, "{value}"),
            None => out.write_str("[?]"),
        };
    }
    match layout {
        Layout::Sigset => match field_value(bytes, 0, 8, Type::UInt) {
            Some(Value::UInt(set)) => write_signals(set, out),
            _ => out.write_str("[?]"),
        },
        Layout::FdPair => {
            let end = |at| field_value(bytes, at, 4, Type::Fd).unwrap_or(Value::Fd(-1));
            write!(out, "[{}, {}]", end(0), end(4))
        }
        Layout::WaitStatus => match field_value(bytes, 0, 4, Type::Int) {
            Some(Value::Int(status)) => write_status(status as i32, out),
            _ => out.write_str("[?]"),
        },
        Layout::Sockaddr => write_sockaddr(bytes, out),
        Layout::Utsname => write_utsname(bytes, out),
        _ => write_fields(layout, bytes, out),
    }
}

fn write_fields(layout: Layout, bytes: &[u8], out: &mut Formatter<'_>) -> fmt::Result {
    let fields = layout.fields();
    if fields.is_empty() {
        let shown = &bytes[..bytes.len().min(32)];
        return write_text(shown, shown.len() == bytes.len(), out);
    }
    out.write_char('{')?;
    let mut covered = 0;
    for (index, field) in fields.iter().enumerate() {
        let (offset, width) = (usize::from(field.offset), usize::from(field.width));
        let Some(value) = field_value(bytes, offset, width, field.ty) else {
            break;
        };
        if index > 0 {
            out.write_str(", ")?;
        }
        match (field.name, value) {
            ("rlim_cur" | "rlim_max", Value::UInt(u64::MAX)) => {
                write!(out, "{}=RLIM64_INFINITY", field.name)?;
            }
            ("sa_handler", Value::Null) => out.write_str("sa_handler=SIG_DFL")?,
            ("sa_handler", Value::Address(1)) => out.write_str("sa_handler=SIG_IGN")?,
            ("sa_mask", Value::Word(set)) => {
                out.write_str("sa_mask=")?;
                write_signals(set, out)?;
            }
            (name, value) => write!(out, "{name}={value}")?,
        }
        covered = offset + width;
    }
    // Padding at the end of a structure is less than a word.
    out.write_str(if covered + 8 <= bytes.len() {
        ", ...}"
    } else {
        "}"
    })
}

/// Writes the status of a child as `wait4` reports it.
fn write_status(status: i32, out: &mut Formatter<'_>) -> fmt::Result {
    if libc::WIFEXITED(status) {
        let code = libc::WEXITSTATUS(status);
        return write!(out, "[{{WIFEXITED(s) && WEXITSTATUS(s) == {code}}}]");
    }
    let (test, number) = if libc::WIFSIGNALED(status) {
        ("WIFSIGNALED(s) && WTERMSIG", libc::WTERMSIG(status))
    } else if libc::WIFSTOPPED(status) {
        ("WIFSTOPPED(s) && WSTOPSIG", libc::WSTOPSIG(status))
    } else if libc::WIFCONTINUED(status) {
        return out.write_str("[{WIFCONTINUED(s)}]");
    } else {
        return write!(out, "[{status:#x}]");
    };
    write!(out, "[{{{test}(s) == ")?;
    write_signal(number, out)?;
    out.write_str("}]")
}

fn write_sockaddr(bytes: &[u8], out: &mut Formatter<'_>) -> fmt::Result {
    let Some(family) = bytes
        .get(..2)
        .map(|family| u16::from_le_bytes([family[0], family[1]]))
    else {
        return write_text(bytes, true, out);
    };
    out.write_str("{sa_family=")?;
    flags::AF.write(u64::from(family), out)?;
    let port = bytes
        .get(2..4)
        .map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    match i32::from(family) {
        libc::AF_UNIX if bytes.len() > 2 => {
            let path = &bytes[2..];
            // An abstract name begins with a NUL and has no end but its length.
            let end = path
                .iter()
                .skip(1)
                .position(|&byte| byte == 0)
                .map(|end| end + 1);
            let end = if path[0] == 0 {
                path.len()
            } else {
                end.unwrap_or(path.len())
            };
            out.write_str(", sun_path=")?;
            write_text(&path[..end], true, out)?;
        }
        libc::AF_INET if bytes.len() >= 8 => {
            let address = std::net::Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
            write!(
                out,
                ", sin_port=htons({port}), sin_addr=inet_addr(\"{address}\")"
            )?;
        }
        libc::AF_INET6 if bytes.len() >= 24 => {
            let octets: [u8; 16] = bytes[8..24].try_into().unwrap_or_default();
            let address = std::net::Ipv6Addr::from(octets);
            write!(out, ", sin6_port=htons({port}), sin6_addr=\"{address}\"")?;
        }
        _ => {
            out.write_str(", sa_data=")?;
            write_text(&bytes[2..], true, out)?;
        }
    }
    out.write_char('}')
}

fn write_utsname(bytes: &[u8], out: &mut Formatter<'_>) -> fmt::Result {
    let names = ["sysname", "nodename", "release"];
    out.write_char('{')?;
    for (name, field) in names.iter().zip(bytes.chunks(65)) {
        write!(out, "{name}=")?;
        let end = field
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(field.len());
        write_text(&field[..end], true, out)?;
        out.write_str(", ")?;
    }
    out.write_str("...}")
}

fn write_vectors(items: &[(Vec<u8>, u64)], out: &mut Formatter<'_>) -> fmt::Result {
    out.write_char('[')?;
    write_list(items, out, |(bytes, len), out| {
        out.write_str("{iov_base=")?;
        write_text(bytes, bytes.len() as u64 == *len, out)?;
        write!(out, ", iov_len={len}}}")
    })?;
    out.write_char(']')
}

fn write_message(message: &Message, out: &mut Formatter<'_>) -> fmt::Result {
    out.write_str("{msg_name=")?;
    match &message.name {
        Some(name) => write_sockaddr(name, out)?,
        None => out.write_str("NULL")?,
    }
    out.write_str(", msg_iov=")?;
    write_vectors(&message.buffers, out)?;
    write!(out, ", msg_controllen={}, msg_flags=", message.control_len)?;
    flags::MSG.write(u64::from(message.flags), out)?;
    out.write_char('}')
}
