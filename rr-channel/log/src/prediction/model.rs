//! Prediction of the next event, and the bytes of events that were not predicted.
//!
//! **Invariant:** the `observe` functions are the only way a model changes. Both sides account for
//! each event once, in the same way. So a writer's and a reader's models are equal after the same
//! events.

use rustc_hash::FxHashMap;

use super::ring::{AHEAD, Ring};
use crate::event::{Event, Op, Symbol};
use crate::identity::{ChannelId, ThreadId};

#[derive(Debug, Clone)]
struct Entry {
    symbol: Symbol,
    /// The number of its last event, and by how much that had grown.
    last: u64,
    step: u64,
    /// The symbol that is expected to come after it.
    next: usize,
    /// Another one came last time: if that happens again, it is the one expected.
    doubted: bool,
}

/// The predictor: an order-1 context over symbols, a linear one over numbers.
#[derive(Debug, Default)]
pub(crate) struct Model {
    entries: Vec<Entry>,
    index: FxHashMap<Symbol, usize>,
    /// The last event's symbol; meaningless while there are no entries.
    current: usize,
}

impl Model {
    /// The symbol and number that the last event foretells.
    #[inline]
    pub(crate) fn predicted(&self) -> Option<(Symbol, u64)> {
        let next = self.entries.get(self.current)?.next;
        let entry = self.entries.get(next)?;
        Some((entry.symbol, entry.last.wrapping_add(entry.step)))
    }

    /// Accounts for the predicted event having happened.
    #[inline]
    pub(crate) fn observe_predicted(&mut self) {
        let Some(entry) = self.entries.get_mut(self.current) else {
            return;
        };
        entry.doubted = false;
        let next = entry.next;
        let Some(entry) = self.entries.get_mut(next) else {
            return;
        };
        entry.last = entry.last.wrapping_add(entry.step);
        self.current = next;
    }

    /// The events that are expected next, until one comes again, as far as `ring` has room.
    pub(crate) fn foresee(&self, ring: &Ring) -> Foreseen {
        let mut foreseen = Foreseen::default();
        let Some(mut entry) = self.entries.get(self.current) else {
            return foreseen;
        };
        while foreseen.len < AHEAD {
            foreseen.ids[foreseen.len] = entry.next;
            foreseen.len += 1;
            entry = &self.entries[entry.next];
            let known = foreseen.ids[..foreseen.len]
                .iter()
                .position(|id| *id == entry.next);
            let next = known.unwrap_or(foreseen.len);
            let number = entry.last.wrapping_add(entry.step);
            ring.expect(foreseen.len - 1, entry.symbol, number, entry.step, next);
            foreseen.back = next;
            if known.is_some() {
                break;
            }
        }
        foreseen
    }

    /// How many of the `foreseen` events come before one that is apart from the others; if
    /// there is none, as many as there can be.
    pub(crate) fn before_apart(&self, foreseen: &Foreseen) -> u64 {
        let is_apart = |id: &usize| {
            let op = Op::from_byte(self.entries[*id].symbol.op());
            op.is_some_and(Op::is_apart)
        };
        let first = foreseen.ids[..foreseen.len].iter().position(is_apart);
        first.map_or(u64::MAX, |first| first as u64)
    }

    /// Accounts for the first `count` of the `foreseen` events having happened.
    pub(crate) fn observe_foreseen(&mut self, foreseen: &Foreseen, count: u64) {
        if count == 0 {
            return;
        }
        self.entries[self.current].doubted = false;
        for (at, id) in foreseen.ids[..foreseen.len].iter().enumerate() {
            let entry = &mut self.entries[*id];
            let times = foreseen.times(at, count);
            entry.last = entry.last.wrapping_add(entry.step.wrapping_mul(times));
            // The next one came as expected after it, at least once.
            if count >= at as u64 + 2 {
                entry.doubted = false;
            }
        }
        self.current = foreseen.ids[foreseen.nth(count - 1)];
    }

    /// Appends the token for an event that was not predicted, and observes it.
    pub(crate) fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        let (symbol, number) = Symbol::split(event);
        let known = self.index.get(&symbol).copied();
        let id = known.unwrap_or(self.entries.len());
        put_varint(out, (id as u64) << 1);
        if known.is_none() {
            define(&symbol, out);
            self.add(symbol);
        }
        if symbol.has_number() {
            let entry = &self.entries[id];
            let expected = entry.last.wrapping_add(entry.step);
            put_varint(out, zigzag(number.wrapping_sub(expected) as i64));
        }
        self.observe(id, number);
    }

    /// Reads what [`encode`](Model::encode) wrote after the token for `id`, and observes it.
    ///
    /// `None` if the bytes are no such thing.
    pub(crate) fn decode(&mut self, id: u64, input: &mut &[u8]) -> Option<Event> {
        let id = usize::try_from(id).ok()?;
        if id == self.entries.len() {
            let symbol = undefine(input)?;
            if self.index.contains_key(&symbol) {
                return None;
            }
            self.add(symbol);
        }
        let entry = self.entries.get(id)?;
        let mut number = 0;
        if entry.symbol.has_number() {
            let expected = entry.last.wrapping_add(entry.step);
            number = expected.wrapping_add(unzigzag(take_varint(input)?) as u64);
        }
        let event = entry.symbol.join(number)?;
        self.observe(id, number);
        Some(event)
    }

    fn add(&mut self, symbol: Symbol) {
        let id = self.entries.len();
        self.index.insert(symbol, id);
        // A new symbol foretells itself, one further.
        self.entries.push(Entry {
            symbol,
            last: 0,
            step: 1,
            next: id,
            doubted: true,
        });
    }

    fn observe(&mut self, id: usize, number: u64) {
        if let Some(previous) = self.entries.get_mut(self.current) {
            let expected = previous.next == id;
            if previous.doubted {
                previous.next = id;
            }
            previous.doubted = !expected && !previous.doubted;
        }
        let entry = &mut self.entries[id];
        // Symbols without a number keep step and number at zero growth.
        entry.step = if entry.symbol.has_number() {
            match number.wrapping_sub(entry.last) {
                // The first number says nothing about growth.
                _ if entry.last == 0 => 1,
                step => step,
            }
        } else {
            0
        };
        entry.last = number;
        self.current = id;
    }
}

/// The expected symbols, by position. They come one after the other and then repeat from `back`
/// on; if `back` is `len`, they end.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    ids: [usize; AHEAD],
    len: usize,
    back: usize,
}

impl Foreseen {
    /// How many of `run` predicted events these are.
    pub(crate) const fn certain(&self, run: u64) -> u64 {
        if self.back == self.len && run > self.len as u64 {
            self.len as u64
        } else {
            run
        }
    }

    /// Which of the symbols the `n`th event has, from 0.
    const fn nth(&self, n: u64) -> usize {
        if n < self.len as u64 {
            return n as usize;
        }
        // Beyond the end only where they come again, so the cycle is not empty.
        let cycle = (self.len - self.back) as u64;
        self.back + ((n - self.back as u64) % cycle) as usize
    }

    /// How often the symbol `at` comes among the first `count` events.
    const fn times(&self, at: usize, count: u64) -> u64 {
        if count <= at as u64 {
            0
        } else if at < self.back {
            1
        } else {
            1 + (count - 1 - at as u64) / (self.len - self.back) as u64
        }
    }
}

fn define(symbol: &Symbol, out: &mut Vec<u8>) {
    out.extend([symbol.op(), symbol.kind()]);
    match symbol.channel() {
        None => put_varint(out, 0),
        Some(channel) => {
            put_varint(out, u64::from(channel.creator.0) + 1);
            put_varint(out, channel.number.into());
        }
    }
    if symbol.has_param() {
        put_varint(out, symbol.param().into());
    }
}

fn undefine(input: &mut &[u8]) -> Option<Symbol> {
    let (&[op, kind], rest) = input.split_first_chunk::<2>()?;
    *input = rest;
    let op = Op::from_byte(op)?;
    if !Symbol::is_kind(kind) {
        return None;
    }
    let channel = match take_varint(input)? {
        0 => None,
        creator => Some(ChannelId {
            creator: ThreadId(u32::try_from(creator - 1).ok()?),
            number: u32::try_from(take_varint(input)?).ok()?,
        }),
    };
    let symbol = Symbol::new(op, kind, channel, 0);
    if symbol.has_param() {
        let mut param = u32::try_from(take_varint(input)?).ok()?;
        if symbol.names_thread() {
            param = thread_number(param)?;
        }
        return Some(Symbol::new(op, kind, channel, param));
    }
    Some(symbol)
}

/// The number of a thread that has this one in a log; `None` if none can have it.
const fn thread_number(number: u32) -> Option<u32> {
    /// The last number, of all unknown threads, in logs where twice as many numbers were possible.
    const ONCE_LAST: u32 = (1 << 24) - 1;
    match number {
        ONCE_LAST => Some(ThreadId::LIMIT - 1),
        ThreadId::LIMIT.. => None,
        _ => Some(number),
    }
}

/// Appends `value` as LEB128: 1 to 10 bytes.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a LEB128 number that fits 64 bits; `None` leaves `input` anywhere.
pub(crate) fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Small numbers of either sign as small ones.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_read_back(value in any::<u64>()) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut input = &bytes[..];
            prop_assert_eq!(take_varint(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn zigzag_is_a_bijection(value in any::<i64>()) {
            prop_assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn a_sender_beyond_the_limit_is_refused() {
        let last = ThreadId::LIMIT - 1;
        for (sender, read) in [
            (0, Some(0)),
            (last, Some(last)),
            (last + 1, None),
            ((1 << 24) - 1, Some(last)),
            (u32::MAX, None),
        ] {
            let event = Event {
                op: Op::Recv,
                channel: None,
                outcome: Outcome::Message {
                    sender: ThreadId(sender),
                    number: 0,
                },
            };
            let mut bytes = Vec::new();
            define(&Symbol::split(&event).0, &mut bytes);
            let symbol = undefine(&mut &bytes[..]);
            assert_eq!(symbol.map(|symbol| symbol.param()), read);
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_is_refused() {
        let mut input: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take_varint(&mut input), None);
    }
}
