//! The calling thread's position in its log.
//!
//! Only the thread itself walks its log. The next events are in plain thread-local cells, and the
//! rest of the log is with the thread's [context](crate::engine::context). Other threads see only
//! its [`Place`].
//!
//! **Invariant:** events are shown here only while the thread follows its log. They are cleared
//! when the thread leaves it, or when another thread has released it from the log. A release
//! happens only while the thread waits, and is noticed [when the wait ends](sync).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Ahead, Event, Op, Outcome};

use super::cursor::Cursor;
use crate::engine::chaos;
use crate::engine::context;
use crate::recorder::tag::Tag;

/// How far a thread is, for all to see. There is one for each thread that a replay has
/// seen, for as long as the process lives. On cache lines of its own: the thread writes
/// here at each event.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Place {
    consumed: AtomicU64,
    pub(super) total: u64,
    /// Whether the recorded thread is known to have ended after its last event.
    complete: bool,
    live: AtomicBool,
}

impl Place {
    /// A place before the first event of `cursor`.
    pub(super) fn new(cursor: Option<&Cursor>) -> &'static Place {
        Box::leak(Box::new(Place {
            consumed: AtomicU64::new(0),
            total: cursor.map_or(0, Cursor::total),
            complete: cursor.is_some_and(Cursor::is_complete),
            live: AtomicBool::new(false),
        }))
    }

    /// Events that came about so far, which is also the next one's number.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed.load(Relaxed)
    }

    /// Whether the thread runs natively.
    pub(super) fn is_live(&self) -> bool {
        self.live.load(Relaxed)
    }

    /// From here on the thread runs natively. Called by itself, or while it waits.
    pub(super) fn go_live(&self) {
        self.live.store(true, Relaxed);
    }
}

/// The next entry of the calling thread's log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Event(Event),
    /// It ends here, and it is unknown whether the thread did.
    End,
    /// It ends here, and so did the thread.
    Beyond,
    /// Nothing: the thread is live.
    Live,
}

/// Each event is also recorded.
const RECORDED: u8 = 1;
/// [Chaos](chaos::shake) delays the thread.
const SHAKEN: u8 = 2;
/// The thread has operations that are not [ready](super::polls).
const PARKED: u8 = 4;

#[derive(Debug)]
struct Follow {
    ahead: Ahead,
    /// `None` for a thread that has not appeared, or appears too late.
    place: Cell<Option<&'static Place>>,
    ended: Cell<bool>,
    /// Additional actions at each event: of [`RECORDED`], [`SHAKEN`] and [`PARKED`].
    besides: Cell<u8>,
    /// An acquisition that the thread [begins](claim), to be recorded.
    claimed: Cell<Option<Event>>,
    /// Varies from one free choice to the next.
    choices: Cell<usize>,
}

thread_local! {
    static FOLLOW: Follow = const {
        Follow {
            ahead: Ahead::new(),
            place: Cell::new(None),
            ended: Cell::new(false),
            besides: Cell::new(0),
            claimed: Cell::new(None),
            choices: Cell::new(0),
        }
    };
}

#[inline(always)]
fn with<R>(f: impl FnOnce(&Follow) -> R) -> R {
    FOLLOW.with(f)
}

/// The calling thread, at `place`, begins to follow the log of `cursor`; if it is `recorded`, its
/// events are logged again.
pub(super) fn begin(place: &'static Place, cursor: Option<&mut Cursor>, recorded: bool) {
    chaos::shake();
    with(|follow| {
        follow.place.set(Some(place));
        let shaken = if chaos::shakes() { SHAKEN } else { 0 };
        follow.besides.set((u8::from(recorded) * RECORDED) | shaken);
        follow.ahead.clear();
        if let Some(cursor) = cursor {
            cursor.unpack(&follow.ahead);
        }
    });
}

/// The position of one identity in its log, while the thread follows another one.
#[derive(Debug)]
pub struct Saved {
    /// `None` if nothing was unpacked.
    ahead: Option<Box<Ahead>>,
    place: Option<&'static Place>,
    ended: bool,
    besides: u8,
}

/// Detaches the calling thread's position in its log, until it gets the returned one
/// [again](restore).
pub fn save() -> Saved {
    with(|follow| {
        let ahead = (!follow.ahead.is_empty()).then(|| Box::new(follow.ahead.clone()));
        follow.ahead.clear();
        Saved {
            ahead,
            place: follow.place.take(),
            ended: follow.ended.take(),
            besides: follow.besides.take(),
        }
    })
}

/// Gives the calling thread the [saved](save) position again.
pub fn restore(saved: Saved) {
    with(|follow| {
        match &saved.ahead {
            Some(ahead) => follow.ahead.copy(ahead),
            None => follow.ahead.clear(),
        }
        follow.place.set(saved.place);
        follow.ended.set(saved.ended);
        follow.besides.set(saved.besides);
    });
    // It may have been released meanwhile.
    sync();
}

/// The calling thread ends: its further operations are live and not counted. Returns the next
/// entry of its log.
pub(super) fn end() -> Option<Event> {
    with(|follow| {
        let left = follow.ahead.event();
        follow.ahead.clear();
        follow.ended.set(true);
        if let Some(place) = follow.place.get() {
            place.go_live();
        }
        left
    })
}

/// The calling thread, the only one of a new process made by fork(2), is live.
pub fn forget() {
    with(|follow| {
        follow.ahead.clear();
        follow.place.set(None);
        follow.besides.set(0);
    });
}

/// Whether the calling thread has ended, and runs its last destructors, or appears only
/// in them.
pub(super) fn has_ended() -> bool {
    with(|follow| {
        if follow.place.get().is_none() {
            context::thread_or_last();
        }
        follow.ended.get() || follow.place.get().is_none()
    })
}

/// Returns the next entry of the calling thread's log.
pub(super) fn next() -> Next {
    with(|follow| {
        if let Some(event) = follow.ahead.event() {
            return Next::Event(event);
        }
        if follow.place.get().is_none() {
            context::thread_or_last();
        }
        let Some(place) = follow.place.get().filter(|place| !place.is_live()) else {
            return Next::Live;
        };
        // The thread may have appeared just now, or have come here when its context was
        // in use.
        if follow.ahead.event().is_none() {
            unpack(follow);
        }
        match follow.ahead.event() {
            Some(event) => Next::Event(event),
            None if place.complete => Next::Beyond,
            None => Next::End,
        }
    })
}

/// Whether the calling thread's events are recorded.
#[inline]
pub(super) fn is_recorded() -> bool {
    with(|follow| follow.besides.get() & RECORDED != 0)
}

/// How many events of its log the calling thread has come past; `None` if it follows none.
pub fn position() -> Option<u64> {
    let place = with(|follow| follow.place.get());
    place.filter(|place| !place.is_live()).map(Place::consumed)
}

/// Whether the calling thread runs natively.
pub(super) fn is_live() -> bool {
    matches!(next(), Next::Live)
}

/// The calling thread's next event came about.
#[inline(always)]
pub(super) fn advance() {
    with(|follow| {
        if follow.ahead.is_empty() {
            return;
        }
        let besides = follow.besides.get();
        if besides == 0 {
            return step(follow);
        }
        log_besides(follow);
        step(follow);
        if besides & PARKED != 0 {
            came(follow);
        }
    });
}

/// The calling thread begins to acquire a lock, as its next event says. The caller that knows
/// whether other threads came in between records it: see [`claimed`].
#[inline(always)]
pub(super) fn claim() {
    with(|follow| {
        if follow.ahead.is_empty() {
            return;
        }
        let besides = follow.besides.get();
        if besides == 0 {
            return step(follow);
        }
        chaos::shake();
        if besides & RECORDED != 0 {
            follow.claimed.set(follow.ahead.event());
        }
        step(follow);
        if besides & PARKED != 0 {
            came(follow);
        }
    });
}

/// The acquisition that the calling thread has [begun](claim), if that is to be recorded.
pub(super) fn claimed() -> Option<Event> {
    with(|follow| follow.claimed.take())
}

#[inline(always)]
fn step(follow: &Follow) {
    if let Some(place) = follow.place.get() {
        place.consumed.store(place.consumed() + 1, Relaxed);
    }
    if !follow.ahead.step() {
        unpack(follow);
    }
}

/// The thread has operations that are not ready, to be woken when its log comes to them.
pub(super) fn has_parked() {
    with(|follow| follow.besides.set(follow.besides.get() | PARKED));
}

#[cold]
fn came(follow: &Follow) {
    follow.besides.set(follow.besides.get() & !PARKED);
    super::polls::came();
}

#[inline(never)]
fn log_besides(follow: &Follow) {
    chaos::shake();
    if follow.besides.get() & RECORDED != 0
        && let Some(event) = follow.ahead.event()
    {
        context::log(event);
    }
}

#[cold]
#[inline(never)]
fn unpack(follow: &Follow) {
    context::with_cursor(|cursor| cursor.unpack(&follow.ahead));
}

/// The event that completes the selection that comes next.
pub(super) fn completion() -> Option<Event> {
    with(|follow| context::with_cursor(|cursor| cursor.completion(&follow.ahead)).flatten())
}

/// The events of `op` that come next, up to the one that is the last of its kind: see
/// [`Outcome::Bytes`].
pub(super) fn pieces(op: Op) -> Vec<Event> {
    let pieces = with(|follow| context::with_cursor(|cursor| cursor.pieces(&follow.ahead, op)));
    pieces.unwrap_or_default()
}

/// The message that `op` on `channel` gets, if that is the next event.
#[inline(always)]
pub(super) fn message(op: Op, channel: ChannelId) -> Option<Tag> {
    let (sender, number) = with(|follow| follow.ahead.message(op, channel))?;
    Some(Tag::new(sender, number))
}

/// The place that `op` into `channel` takes, if that is the next event.
#[inline(always)]
pub(super) fn slot(op: Op, channel: ChannelId) -> Option<u64> {
    with(|follow| follow.ahead.slot(op, channel))
}

/// Whether the refusal of the message `tag`, sent by `op` into `channel`, comes next.
#[inline(always)]
pub(super) fn refuses(op: Op, channel: ChannelId, tag: Tag) -> bool {
    shows(&Event {
        op,
        channel: Some(channel),
        outcome: Outcome::Refused {
            number: tag.number(),
        },
    })
}

/// Whether `event` comes next.
#[inline(always)]
pub(super) fn shows(event: &Event) -> bool {
    with(|follow| follow.ahead.shows(event))
}

/// The calling thread has left its log, or may have been released from it.
pub fn sync() {
    with(|follow| {
        if follow.place.get().is_none_or(Place::is_live) {
            follow.ahead.clear();
        }
    });
}

/// The start of a free choice among `count`.
pub(super) fn choose(count: usize) -> usize {
    with(|follow| {
        let choice = follow.choices.get().wrapping_add(1);
        follow.choices.set(choice);
        choice % count.max(1)
    })
}
