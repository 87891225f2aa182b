//! The effects that follow from the types of the arguments.

use super::pass::Pass;
use super::range::{IOV_MAX, count_of, read_vectors};
use crate::syscall::errno::error_of;
use crate::syscall::model::{Extent, Length, Spec, Type, When};

/// Strings beyond this are refused by every call but `execve`.
const TEXT_MAX: usize = 4096;

/// `MAX_ARG_STRLEN`.
const ARG_MAX: usize = 32 * 4096;

/// More arguments than the stack of a new program can hold.
const ARGS_MAX: u64 = 0x1_0000;

impl Pass<'_> {
    pub(super) fn typed_writes(&mut self, spec: &'static Spec) {
        for (index, arg) in spec.args.iter().enumerate() {
            let (when, extent) = match arg.ty {
                Type::Out(extent) | Type::InOut(extent) => (When::Success, extent),
                Type::OutWhen(when, extent) | Type::InOutWhen(when, extent) => (when, extent),
                Type::In(Extent::Messages(count)) if self.succeeded() => {
                    self.sent(self.arg(index), count_of(spec, self.invocation, count));
                    continue;
                }
                _ => continue,
            };
            if !self.writes_when(when) {
                continue;
            }
            match (when, extent) {
                // Only the size field of the structure.
                (When::TooBig, Extent::Sized(_, Length::Head(offset))) => {
                    self.push(self.arg(index).saturating_add(u64::from(offset)), 4);
                }
                _ => self.write_extent(spec, extent, self.arg(index)),
            }
        }
    }

    pub(super) fn typed_reads(&mut self, spec: &'static Spec) {
        for (index, arg) in spec.args.iter().enumerate() {
            let address = self.arg(index);
            match arg.ty {
                Type::Path | Type::Text => self.read_string(address, TEXT_MAX),
                Type::Strings => self.read_strings(address),
                Type::In(extent) | Type::InOut(extent) | Type::InOutWhen(_, extent) => {
                    self.read_extent(spec, extent, address, true);
                }
                Type::Out(extent) | Type::OutWhen(_, extent) => {
                    self.read_extent(spec, extent, address, false);
                }
                _ => {}
            }
        }
    }

    pub(super) fn writes_when(&self, when: When) -> bool {
        let Some(result) = self.result else {
            return false;
        };
        match when {
            When::Success => self.succeeded(),
            When::Positive => result > 0 && self.succeeded(),
            When::Interrupted => self.interrupted(),
            When::SuccessOrInterrupted => self.succeeded() || self.interrupted(),
            When::TooBig => self.failed_with(libc::E2BIG),
            When::Always => true,
        }
    }

    /// `EINTR`, or one of the codes with which the kernel asks itself to restart
    /// the call after the signal (`ERESTARTSYS`, `ERESTARTNOINTR`,
    /// `ERESTARTNOHAND`, `ERESTART_RESTARTBLOCK`); tracers see those.
    fn interrupted(&self) -> bool {
        let error = self.result.and_then(error_of);
        matches!(error, Some(libc::EINTR | 512 | 513 | 514 | 516))
    }

    fn write_extent(&mut self, spec: &Spec, extent: Extent, address: u64) {
        if address == 0 {
            return;
        }
        let done = self.result.unwrap_or(0).max(0).cast_unsigned();
        match extent {
            Extent::Vectors(count) => {
                self.buffers(address, count_of(spec, self.invocation, count), done);
            }
            Extent::Message => self.received(address, done),
            Extent::Messages(count) => {
                let count = count_of(spec, self.invocation, count)
                    .min(done)
                    .min(IOV_MAX);
                for index in 0..count {
                    let Some(header) = address.checked_add(index * 64) else {
                        break;
                    };
                    // The length of each message is behind its header.
                    self.push(header.saturating_add(56), 4);
                    let done = self.u32_at(header.saturating_add(56)).unwrap_or(0);
                    self.received(header, u64::from(done));
                }
            }
            _ => {
                let len = self.size(spec, extent, address);
                self.push(address, len);
            }
        }
    }

    fn read_extent(&mut self, spec: &Spec, extent: Extent, address: u64, inward: bool) {
        if address == 0 {
            return;
        }
        let done = match self.result {
            Some(result) if error_of(result).is_none() => result.cast_unsigned(),
            _ => u64::MAX,
        };
        match extent {
            Extent::Vectors(count) => {
                let count = count_of(spec, self.invocation, count);
                self.push(address, count.min(IOV_MAX) * 16);
                if inward {
                    self.buffers(address, count, done);
                }
            }
            Extent::Message => self.message(address, done, inward),
            Extent::Messages(count) => {
                let count = count_of(spec, self.invocation, count).min(IOV_MAX);
                for index in 0..count {
                    let Some(header) = address.checked_add(index * 64) else {
                        break;
                    };
                    self.message(header, u64::MAX, inward);
                    if self.u32_at(header).is_none() {
                        break;
                    }
                }
            }
            _ if inward => {
                let len = self.size(spec, extent, address);
                self.push(address, len);
            }
            _ => {}
        }
    }

    /// The size in bytes of memory at `address`.
    pub(super) fn size(&self, spec: &Spec, extent: Extent, address: u64) -> u64 {
        match extent {
            Extent::Bytes(length) | Extent::Sized(_, length) => self.length(spec, length, address),
            Extent::One(layout) => u64::from(layout.size()),
            Extent::Many(layout, length) => self
                .length(spec, length, address)
                .saturating_mul(u64::from(layout.size())),
            Extent::BitSet(bits) => count_of(spec, self.invocation, bits).div_ceil(64) * 8,
            Extent::NodeSet(bits) => {
                let bits = count_of(spec, self.invocation, bits).saturating_sub(1);
                bits.div_ceil(64) * 8
            }
            Extent::Vectors(_) | Extent::Message | Extent::Messages(_) => 0,
        }
    }

    fn length(&self, spec: &Spec, length: Length, address: u64) -> u64 {
        match length {
            Length::Fixed(count) => u64::from(count),
            Length::Arg(index) => count_of(spec, self.invocation, index),
            Length::Returned(index) => {
                let asked = count_of(spec, self.invocation, index);
                match self.result {
                    Some(result) if error_of(result).is_none() => asked.min(result.cast_unsigned()),
                    _ => asked,
                }
            }
            Length::Pointed(index) => {
                let at = self.arg(usize::from(index));
                self.bounded_word(at)
            }
            Length::Pages(index) => count_of(spec, self.invocation, index).div_ceil(4096),
            Length::Head(offset) => {
                let head = self.u32_at(address.saturating_add(u64::from(offset)));
                // No extensible structure is larger than a page.
                u64::from(head.unwrap_or(0).min(4096))
            }
            Length::HeadWithin(index) => {
                let head = u64::from(self.u32_at(address).unwrap_or(0));
                head.min(count_of(spec, self.invocation, index))
            }
        }
    }

    /// A length that the call may have changed: the smaller of its values
    /// before and after.
    fn bounded_word(&self, at: u64) -> u64 {
        let now = self.u32_at(at).unwrap_or(0);
        u64::from(self.before.word(at).map_or(now, |before| before.min(now)))
    }

    /// The first `limit` bytes of the buffers that an array of `struct iovec`
    /// at `address` describes.
    pub(super) fn buffers(&mut self, address: u64, count: u64, limit: u64) {
        let mut left = limit;
        for iov in read_vectors(self.memory, address, count) {
            if left == 0 {
                break;
            }
            let len = iov.len.min(left);
            left -= len;
            self.push(iov.start, len);
        }
    }

    /// Adds the writes of `recvmsg`: the fields that it updates, the name, the control
    /// data, and `done` bytes of data.
    fn received(&mut self, header: u64, done: u64) {
        let field = |offset: u64| header.saturating_add(offset);
        let name = self.u64_at(field(0)).unwrap_or(0);
        if name != 0 {
            self.push(field(8), 4);
            let len = self.bounded_word(field(8));
            self.push(name, len);
        }
        self.push(field(40), 8);
        self.push(field(48), 4);
        let control = self.u64_at(field(32)).unwrap_or(0);
        let len = self.bounded_word(field(40));
        self.push(control, len);
        let (vectors, count) = (self.u64_at(field(16)), self.u64_at(field(24)));
        if let (Some(vectors), Some(count)) = (vectors, count) {
            self.buffers(vectors, count, done);
        }
    }

    /// Adds the sent length that `sendmmsg` writes behind each header.
    fn sent(&mut self, address: u64, count: u64) {
        let done = self.result.unwrap_or(0).max(0).cast_unsigned();
        if address != 0 {
            for index in 0..count.min(done).min(IOV_MAX) {
                self.push(address.saturating_add(index * 64 + 56), 4);
            }
        }
    }

    /// Adds the reads of `sendmsg` (`inward`) or `recvmsg`.
    fn message(&mut self, header: u64, limit: u64, inward: bool) {
        self.push(header, 56);
        let field = |offset: u64| self.u64_at(header.saturating_add(offset)).unwrap_or(0);
        let (name, vectors, count) = (field(0), field(16), field(24));
        let (name_len, control, control_len) = (field(8), field(32), field(40));
        self.push(vectors, count.min(IOV_MAX) * 16);
        if inward {
            self.push(name, name_len & 0xffff_ffff);
            self.push(control, control_len);
            self.buffers(vectors, count, limit);
        }
    }

    pub(super) fn read_string(&mut self, address: u64, limit: usize) {
        if address == 0 {
            return;
        }
        if let Ok(text) = self.memory.read_c_string(address, limit) {
            self.push(address, text.len() as u64 + 1);
        }
    }

    fn read_strings(&mut self, address: u64) {
        if address == 0 {
            return;
        }
        for index in 0..ARGS_MAX {
            let Some(at) = address.checked_add(index * 8) else {
                break;
            };
            match self.u64_at(at) {
                None => break,
                Some(0) => {
                    self.push(address, (index + 1) * 8);
                    break;
                }
                Some(text) => self.read_string(text, ARG_MAX),
            }
        }
    }
}
