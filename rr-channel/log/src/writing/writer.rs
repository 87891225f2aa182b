#![expect(unsafe_code, reason = "lends a pointer into its mapping to `Hot`")]
//! Appends one thread's events to its log.
//!
//! A predicted event is a comparison and one store; any other writes its bytes
//! first and then the state word that makes them count. A log that cannot grow
//! (a full disk, a quota) is marked incomplete and recording of this thread stops;
//! the program goes on.
//!
//! **Safety** rests on: the mapping moves or goes only in [`Writer::push`],
//! [`Writer::seal`] and when the writer is dropped, and [`Writer::arm`] is unsafe.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::hot::Hot;
use super::mapping::Mapping;
use crate::event::{Event, Symbol};
use crate::format::{
    CHECKSUM_AT, FLAGS_AT, FORMAT_VERSION, HEADER_LEN, INCOMPLETE, LASTED_AT, MAGIC, MAX_BODY,
    MAX_RUN, SEALED, STATE_AT, checksum,
};
use crate::identity::{Dti, ThreadId};
use crate::prediction::{Foreseen, Model, put_varint};

const FIRST_LEN: usize = 4096;
const MAX_GROWTH: usize = 1 << 20;
/// How many bytes are written before the time is noted again.
const TIMED: usize = 256;

/// The writing end of one thread's log.
#[derive(Debug)]
pub struct Writer {
    map: Mapping,
    /// The offset of the body in the file.
    base: usize,
    /// Committed bytes of body, and predicted events since.
    len: usize,
    run: u64,
    /// Events so far, but those that are apart.
    count: u64,
    model: Model,
    foreseen: Foreseen,
    scratch: Vec<u8>,
    /// When the run began.
    began: Option<Instant>,
}

impl Writer {
    /// Creates the log file, which must not exist, with no events.
    pub fn create(path: &Path, thread: ThreadId, dti: &Dti) -> io::Result<Self> {
        let name = dti.to_string();
        let base = HEADER_LEN + name.len();
        let mut bytes = vec![0; (base + 1).next_multiple_of(FIRST_LEN)];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = FORMAT_VERSION;
        bytes[8..12].copy_from_slice(&thread.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&(name.len() as u32).to_le_bytes());
        bytes[HEADER_LEN..base].copy_from_slice(name.as_bytes());
        let map = Mapping::create(path, &bytes)?;
        Ok(Writer {
            map,
            base,
            len: 0,
            run: 0,
            count: 0,
            model: Model::default(),
            foreseen: Foreseen::default(),
            scratch: Vec::new(),
            began: None,
        })
    }

    /// Has the log say how long the run lasted that `began` then.
    pub fn timed(mut self, began: Instant) -> Self {
        self.began = Some(began);
        self.note_time();
        self
    }

    /// Has the log say how long the run lasted.
    pub fn lasted(&mut self, lasted: Duration) {
        let lasted = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
        self.map.store(LASTED_AT, lasted);
    }

    fn note_time(&mut self) {
        if let Some(began) = self.began {
            self.lasted(began.elapsed());
        }
    }

    /// Logs `event`.
    ///
    /// # Errors
    /// If the file cannot grow; it is marked incomplete, and nothing more may be
    /// logged to it.
    #[inline]
    pub fn push(&mut self, event: &Event) -> io::Result<()> {
        let (symbol, number) = Symbol::split(event);
        self.count += u64::from(!event.op.is_apart());
        if self.run < MAX_RUN && self.model.predicted() == Some((symbol, number)) {
            self.model.observe_predicted();
            self.run += 1;
            self.commit();
            return Ok(());
        }
        self.push_unpredicted(event)
    }

    #[cold]
    fn push_unpredicted(&mut self, event: &Event) -> io::Result<()> {
        self.scratch.clear();
        if self.run > 0 {
            put_varint(&mut self.scratch, self.run << 1 | 1);
        }
        // Any event may be written out, also one that would have been predicted.
        self.model.encode(event, &mut self.scratch);
        self.append()
    }

    fn append(&mut self) -> io::Result<()> {
        let at = self.base + self.len;
        let end = at + self.scratch.len();
        if end > self.map.len()
            && let Err(error) = self.grow(end)
        {
            self.map.write(FLAGS_AT, &INCOMPLETE.to_le_bytes());
            return Err(error);
        }
        self.map.write(at, &self.scratch);
        let before = self.len;
        self.len += self.scratch.len();
        self.run = 0;
        self.commit();
        if before / TIMED < self.len / TIMED {
            self.note_time();
        }
        Ok(())
    }

    fn grow(&mut self, end: usize) -> io::Result<()> {
        if (end - self.base) as u64 > MAX_BODY {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let len = self.map.len() + self.map.len().min(MAX_GROWTH);
        self.map.grow(len.max(end.next_multiple_of(FIRST_LEN)))
    }

    #[inline]
    fn commit(&mut self) {
        self.map.store(STATE_AT, (self.len as u64) << 24 | self.run);
    }

    /// Lets `hot` count the next events as long as they are the expected ones.
    ///
    /// # Safety
    /// The writer is left alone, and not dropped, until it was [disarmed](Writer::disarm).
    #[inline]
    pub unsafe fn arm(&mut self, hot: &Hot) {
        self.foreseen = self.model.foresee(&hot.ring);
        let state = (self.len as u64) << 24 | self.run;
        // SAFETY: the place is within the live mapping, which stays where it is as long
        // as the writer is left alone; only the writer stores there.
        unsafe { hot.arm(state, self.count, self.map.place(STATE_AT)) };
    }

    /// How many events were logged, but those that are [apart](crate::Op::is_apart) and those that
    /// an armed [`Hot`] has counted: [`Hot::position`] is right meanwhile.
    pub const fn position(&self) -> u64 {
        self.count
    }

    /// Takes over what `hot` has counted.
    #[inline]
    pub fn disarm(&mut self, hot: &Hot) {
        if let Some(state) = hot.disarm() {
            let run = state & MAX_RUN;
            self.model.observe_foreseen(&self.foreseen, run - self.run);
            self.count += run - self.run;
            self.run = run;
        }
    }

    /// Closes the log of a thread that ended: its checksum is written, and space that it
    /// did not need is given back, if it is worth the while.
    pub fn seal(mut self) -> io::Result<()> {
        if self.run > 0 {
            self.scratch.clear();
            put_varint(&mut self.scratch, self.run << 1 | 1);
            self.append()?;
        }
        self.note_time();
        let sum = checksum(&self.map.read(self.base, self.len));
        self.map.store(CHECKSUM_AT, sum);
        self.map.write(FLAGS_AT, &SEALED.to_le_bytes());
        match self.map.len() {
            ..=FIRST_LEN => Ok(()),
            _ => self.map.close(self.base + self.len),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::{Op, Outcome};
    use crate::identity::ChannelId;
    use crate::reading::{LogError, ThreadLog};
    use proptest::prelude::*;

    /// Bytes for each of many messages, that came from whom `sender` says.
    fn bytes_per_message(mut sender: impl FnMut(u64) -> usize) -> f64 {
        const COUNT: u64 = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = Writer::create(&path, ThreadId(0), &Dti::main()).unwrap();
        let mut numbers = [0; 8];
        for n in 0..COUNT {
            let sender = sender(n);
            let event = Event {
                op: Op::Recv,
                channel: Some(ChannelId {
                    creator: ThreadId(0),
                    number: 1,
                }),
                outcome: Outcome::Message {
                    sender: ThreadId(1 + sender as u32),
                    number: numbers[sender],
                },
            };
            numbers[sender] += 1;
            writer.push(&event).unwrap();
        }
        writer.seal().unwrap();
        std::fs::metadata(&path).unwrap().len() as f64 / COUNT as f64
    }

    #[test]
    fn regular_orders_take_a_tenth_of_a_byte_and_random_ones_four() {
        // All from one; from four in turn; a hundred from each.
        for regular in [|_| 0, |n| n as usize % 4, |n| n as usize / 100 % 4] {
            let bytes = bytes_per_message(regular);
            assert!(bytes <= 0.1, "{bytes} bytes");
        }
        for senders in [2, 4, 8] {
            let mut x = 1_u64;
            let bytes = bytes_per_message(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (x >> 40) as usize % senders
            });
            assert!(bytes <= 4.0, "{bytes} bytes");
        }
    }

    fn channel() -> impl Strategy<Value = ChannelId> {
        (0..3_u32, 1..3_u32).prop_map(|(t, number)| ChannelId {
            creator: ThreadId(t),
            number,
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        let number = prop_oneof![4 => 0..8_u64, 1 => any::<u64>()];
        let outcome = prop_oneof![
            6 => (0..3_u32, number.clone())
                .prop_map(|(t, number)| Outcome::Message { sender: ThreadId(t), number }),
            1 => number.clone().prop_map(|slot| Outcome::Sent { slot }),
            1 => number.clone().prop_map(|number| Outcome::Refused { number }),
            1 => number.prop_map(Outcome::Value),
            1 => (0..4_u32).prop_map(Outcome::Arm),
            1 => any::<u64>().prop_map(|ticket| Outcome::Turn { ticket }),
            1 => any::<u64>().prop_map(|code| Outcome::Failed { code }),
            1 => prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| {
                Outcome::pieces(&bytes).last().unwrap_or(Outcome::Empty)
            }),
            1 => (0..3_u32, any::<u64>())
                .prop_map(|(t, number)| Outcome::Woken { sender: ThreadId(t), number }),
            1 => prop::sample::select(vec![
                Outcome::Tick,
                Outcome::Disconnected,
                Outcome::Empty,
                Outcome::Full,
                Outcome::Timeout,
                Outcome::NoArm,
                Outcome::First,
                Outcome::Again,
                Outcome::Busy,
                Outcome::Done,
                Outcome::Poisoned,
            ]),
        ];
        let op = prop::sample::select(vec![
            Op::Recv,
            Op::TryRecv,
            Op::Select,
            Op::Lock,
            Op::Random,
        ]);
        (op, prop::option::of(channel()), outcome).prop_map(|(op, channel, outcome)| Event {
            op,
            channel,
            outcome,
        })
    }

    /// Events with stretches of regular order, as programs make them.
    pub(crate) fn events() -> impl Strategy<Value = Vec<Event>> {
        let stretch = prop_oneof![
            prop::collection::vec(event(), 0..20),
            (channel(), 0..1000_u64, 1..200_usize).prop_map(|(channel, first, len)| {
                (first..)
                    .take(len)
                    .map(|number| message(channel, 1, number))
                    .collect()
            }),
            (prop::collection::vec(event(), 1..7), 0..50_usize)
                .prop_map(|(events, len)| events.repeat(len)),
        ];
        prop::collection::vec(stretch, 0..8).prop_map(|stretches| stretches.concat())
    }

    fn message(channel: ChannelId, sender: u32, number: u64) -> Event {
        let outcome = Outcome::Message {
            sender: ThreadId(sender),
            number,
        };
        Event {
            op: Op::Recv,
            channel: Some(channel),
            outcome,
        }
    }

    pub(crate) fn written(events: &[Event], seal: bool) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = Writer::create(&path, ThreadId(7), &Dti::main().child(2)).unwrap();
        for event in events {
            writer.push(event).unwrap();
        }
        if seal {
            writer.seal().unwrap();
        }
        std::fs::read(path).unwrap()
    }

    /// A closed log without the space behind its last event.
    fn sealed(events: &[Event]) -> Vec<u8> {
        let mut bytes = written(events, true);
        let log = ThreadLog::from_bytes(&bytes).unwrap();
        bytes.truncate(HEADER_LEN + "main/2".len() + log.body_len());
        bytes
    }

    /// As [`written`], with all that can be counted by a [`Hot`].
    fn counted(events: &[Event]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let hot = Hot::new();
        let mut writer = Writer::create(&path, ThreadId(7), &Dti::main().child(2)).unwrap();
        for event in events {
            let (symbol, number) = Symbol::split(event);
            if !hot.hit(symbol, number) {
                writer.disarm(&hot);
                writer.push(event).unwrap();
                // SAFETY: the writer is used again only after it was disarmed.
                unsafe { writer.arm(&hot) };
            }
        }
        // As if the process died here: the counted events are in the file already.
        let bytes = std::fs::read(path).unwrap();
        writer.disarm(&hot);
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Event> {
        ThreadLog::from_bytes(bytes)
            .unwrap()
            .events()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    #[test]
    fn a_run_longer_than_its_counter_reads_back() {
        let again = Event {
            op: Op::Lock,
            channel: None,
            outcome: Outcome::Again,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let hot = Hot::new();
        let mut writer = Writer::create(&path, ThreadId(7), &Dti::main()).unwrap();
        let count = MAX_RUN as usize + 1000;
        let (symbol, number) = Symbol::split(&again);
        for _ in 0..count {
            if !hot.hit(symbol, number) {
                writer.disarm(&hot);
                writer.push(&again).unwrap();
                // SAFETY: the writer is used again only after it was disarmed.
                unsafe { writer.arm(&hot) };
            }
        }
        writer.disarm(&hot);
        writer.seal().unwrap();
        let log = ThreadLog::from_bytes(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(log.events().map(Result::unwrap).count(), count);
    }

    const C: ChannelId = ChannelId {
        creator: ThreadId(0),
        number: 1,
    };

    #[test]
    fn a_log_names_its_thread() {
        let log = ThreadLog::from_bytes(&written(&[], true)).unwrap();
        assert_eq!(
            (log.thread(), log.dti().to_string()),
            (ThreadId(7), "main/2".to_owned())
        );
        assert!(log.is_sealed() && !log.is_incomplete());
    }

    #[test]
    fn a_log_says_how_long_the_run_lasted() {
        let dir = tempfile::tempdir().unwrap();
        let lasted = |name: &str, seal, count| {
            let path = dir.path().join(name);
            let began = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
            let writer = Writer::create(&path, ThreadId(7), &Dti::main()).unwrap();
            let mut writer = writer.timed(began);
            // From here on it is an hour.
            writer.began = began.checked_sub(Duration::from_secs(3600));
            for n in 0..count {
                // Nothing here is predicted.
                writer.push(&message(C, 1, n * n * n)).unwrap();
            }
            if seal {
                writer.seal().unwrap();
            }
            let log = ThreadLog::from_bytes(&std::fs::read(path).unwrap()).unwrap();
            log.lasted().as_secs() / 60
        };
        assert_eq!(lasted("began", false, 0), 1);
        assert_eq!(lasted("cut off", false, 1000), 61);
        assert_eq!(lasted("ended", true, 0), 61);
        let untimed = ThreadLog::from_bytes(&written(&[], true)).unwrap();
        assert_eq!(untimed.lasted(), Duration::ZERO);
    }

    #[test]
    fn an_unsealed_log_is_readable_up_to_its_last_event() {
        let events: Vec<_> = (0..10_000).map(|n| message(C, 1, n)).collect();
        let bytes = written(&events, false);
        assert!(!ThreadLog::from_bytes(&bytes).unwrap().is_sealed());
        assert_eq!(read(&bytes), events);
    }

    #[test]
    fn regular_order_costs_next_to_nothing() {
        let round_robin: Vec<_> = (0..100_000)
            .map(|n| message(C, n as u32 % 4, n / 4))
            .collect();
        let bytes = sealed(&round_robin);
        assert_eq!(read(&bytes), round_robin);
        assert!(bytes.len() < 200, "{} bytes", bytes.len());
    }

    #[test]
    fn random_order_costs_at_most_four_bytes_a_message() {
        let mut next = [0_u64; 4];
        let mut state = 1_u64;
        let events: Vec<_> = (0..10_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let sender = (state >> 62) as usize;
                next[sender] += 1;
                message(C, sender as u32, next[sender])
            })
            .collect();
        let bytes = sealed(&events);
        assert_eq!(read(&bytes), events);
        assert!(bytes.len() < 4 * events.len(), "{} bytes", bytes.len());
    }

    #[test]
    fn a_damaged_sealed_log_is_found_by_its_checksum() {
        let mut bytes = sealed(&[message(C, 1, 0), message(C, 2, 0)]);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(
            ThreadLog::from_bytes(&bytes),
            Err(LogError::Checksum)
        ));
    }

    #[test]
    fn a_truncated_log_says_so() {
        let bytes = sealed(&[message(C, 1, 0)]);
        let cut = &bytes[..bytes.len() - 1];
        assert!(matches!(
            ThreadLog::from_bytes(cut),
            Err(LogError::Truncated { .. })
        ));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = written(&[], true);
        bytes[7] = 99;
        assert!(matches!(
            ThreadLog::from_bytes(&bytes),
            Err(LogError::Version { found: 99 })
        ));
    }

    #[test]
    fn the_version_before_is_read() {
        let events = [message(C, 1, 0), message(C, 2, 0)];
        let mut bytes = written(&events, true);
        bytes[7] = 2;
        assert_eq!(read(&bytes), events);
    }

    #[test]
    fn bytes_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for len in [0, 1, 7, 8, 9, 16, 256] {
            let event = |outcome| Event {
                op: Op::Value,
                channel: None,
                outcome,
            };
            let events: Vec<_> = Outcome::pieces(&bytes[..len]).map(event).collect();
            assert_eq!(events.len(), len.div_ceil(8).max(1));
            assert_eq!(read(&written(&events, true)), events);
        }
    }

    #[test]
    fn a_log_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "precious").unwrap();
        let err = Writer::create(&path, ThreadId(0), &Dti::main()).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    proptest! {
        #[test]
        fn every_event_reads_back(events in events(), seal in any::<bool>()) {
            prop_assert_eq!(read(&written(&events, seal)), events);
        }

        #[test]
        fn events_counted_without_the_writer_read_back(events in events()) {
            let bytes = counted(&events);
            prop_assert_eq!(&bytes, &written(&events, false));
            prop_assert_eq!(read(&bytes), events);
        }

        #[test]
        fn damage_is_an_error_or_other_events_but_no_panic(
            events in events(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        ) {
            let mut bytes = written(&events, false);
            bytes.truncate(4096);
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(log) = ThreadLog::from_bytes(&bytes) {
                log.events().take(100_000).for_each(drop);
            }
        }

        #[test]
        fn any_body_is_read_without_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = written(&[], false);
            bytes.truncate(64 + "main/2".len());
            bytes[16..24].copy_from_slice(&((body.len() as u64) << 24 | 5).to_le_bytes());
            bytes.extend_from_slice(&body);
            let log = ThreadLog::from_bytes(&bytes).unwrap();
            log.events().take(100_000).for_each(drop);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = ThreadLog::from_bytes(&bytes);
        }
    }
}
