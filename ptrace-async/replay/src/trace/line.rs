//! One-line descriptions of records.

use ptrace_async::syscall::Syscall;

use super::event::{CallEffect, Event, Record};
use crate::buffer;
use crate::code::registers::Registers;

/// A record in one line.
pub(crate) fn of(record: &Record) -> String {
    match &record.event {
        Event::Image(image) => format!(
            "program {} (process {}, {} mappings)",
            String::from_utf8_lossy(&image.program),
            image.pid,
            image.mappings.len()
        ),
        Event::Call(call) => {
            let syscall = Syscall::of(call.nr);
            let count = syscall.spec().map_or(6, |spec| spec.args.len());
            let args: Vec<String> = call.args[..count]
                .iter()
                .map(|arg| format!("{arg:#x}"))
                .collect();
            format!("{}({}) at {:#x}", syscall.name(), args.join(", "), call.ip)
        }
        Event::Return(done) => {
            let bytes: usize = done.writes.iter().map(|write| write.bytes.len()).sum();
            let more = match &done.more {
                CallEffect::Nothing => String::new(),
                CallEffect::Output { stream, .. } => format!(", to stream {stream}"),
                CallEffect::Mapped {
                    file,
                    shared: false,
                } => format!(", file {}", file.0),
                CallEffect::Mapped { file, shared: true } => format!(", file {}, shared", file.0),
                CallEffect::State(state) => format!(", goes on at {:#x}", ip(&state.registers)),
            };
            format!("  = {}, {bytes} bytes{more}", done.value)
        }
        Event::Patched(patched) => {
            format!(
                "  patched {} call sites: calls there do not stop any more",
                patched.sites
            )
        }
        Event::Buffered(buffered) => {
            let calls: Vec<String> = buffer::entries(&buffered.log)
                .map(|entry| match entry.number {
                    Some(number) => format!("{} = {}", Syscall::of(number).name(), entry.result),
                    None => "a stop".to_owned(),
                })
                .collect();
            format!("without a stop: {}", calls.join(", "))
        }
        Event::Spawned(spawned) => {
            format!("  created {} (flags {:#x})", spawned.child, spawned.flags)
        }
        Event::Started(started) => format!("starts at {:#x}", ip(&started.registers)),
        Event::Signal(signal) => format!(
            "signal {} at {:#x} ({:?}), handler {:#x}",
            signal.signal,
            signal.ip,
            signal.at,
            ip(&signal.state.registers)
        ),
        Event::Point(point) => format!(
            "execution point at {:#x}, identified by {} registers and {} words of memory{}",
            ip(&point.registers),
            point.telling.len(),
            point.words.len(),
            if point.contents.is_some() {
                ", and by a digest of memory"
            } else {
                ""
            }
        ),
        Event::Instruction(answer) => {
            format!("{:?} at {:#x} = {}", answer.kind, answer.ip, answer.value)
        }
        Event::Exit(exit) => format!("ended: {:?}", exit.ending),
        Event::File(file) => format!(
            "file {} is {}{}",
            file.number.0,
            String::from_utf8_lossy(&file.path),
            if file.stored.is_some() {
                ", stored"
            } else {
                ""
            }
        ),
        Event::FileChanged(changed) => format!(
            "file {} has {} bytes, {} of them new from offset {}",
            changed.number.0,
            changed.size,
            changed.bytes.len(),
            changed.offset
        ),
        Event::Digest(digest) => format!("memory digest {digest:016x}"),
        Event::Ended(ending) => format!("the first process ended: {ending:?}"),
        Event::Written(writes) => format!("the kernel wrote {} ranges of memory", writes.len()),
        Event::Joined(group) => format!("joins group {}: its tasks take turns", group.0),
        Event::ChangedOutside(file) => {
            format!(
                "file {} was changed by a process that is not recorded",
                file.0
            )
        }
    }
}

fn ip(registers: &Registers) -> u64 {
    registers.0[16]
}
