#![expect(unsafe_code, reason = "lets `Hot` count into the thread's log")]
//! The state of each thread: its id, its counters, its log.
//!
//! Registered at a thread's first use of the crate or, for threads that the crate spawns, as the
//! first action of the thread. Thread-local destructors run in reverse order of registration, so
//! the program's destructors still find it. Operations in destructors that run even later are not
//! logged, in neither mode.
//!
//! **Safety** rests on: a thread's writer is armed on its [`HOT`] only, by
//! [`Context::push`], and [disarmed](Context::disarm) before it is used or dropped:
//! there, and in the context's destructor.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Clock, ClockRead, ClockWriter, Event, Hot, Op, Symbol, Writer};

use crate::engine::allocator::{Work, at_work};
use crate::engine::chaos;
use crate::engine::fork;
use crate::engine::object_names::ObjectNames;
use crate::engine::pool;
use crate::engine::replay::{self, ClockCursor, Cursor, SavedLog};
use crate::engine::seats::{self, Seat};
use crate::engine::session::{Session, session};
use crate::engine::shown::Shown;
use crate::engine::system_calls;
use crate::platform::apart::apart;
use crate::platform::sys;
use crate::recorder::names::Who;
use crate::recorder::places;
use crate::recorder::process::complain;
use crate::recorder::tag::Tag;

struct Context {
    id: ThreadId,
    dti: Dti,
    children: u32,
    processes: u32,
    channels: u32,
    locks: u32,
    names: ObjectNames,
    log: Log,
    /// The source positions of its operations, if they are recorded.
    places: Log,
    /// The rest of the log that the thread follows.
    cursor: Option<Cursor>,
    /// Where its reads of clocks are logged.
    clock_log: ClockLog,
    /// The rest of the reads that the thread follows.
    clock_cursor: Option<ClockCursor>,
    /// Whether it is a piece of work, which the thread performs for a while.
    is_task: bool,
}

/// The destination of a thread's events.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each thread has one")]
enum Log {
    /// Nowhere: there is nothing to record, or it cannot be recorded.
    None,
    /// Into a file that is made when there is something to be put into it: most
    /// threads of some programs only send.
    Unopened,
    Open(Writer),
}

/// The destination of a thread's reads of clocks, as [`Log`].
#[derive(Debug)]
enum ClockLog {
    None,
    Unopened,
    Open(ClockWriter),
}

/// The calling thread, as an event in the making sees it.
#[derive(Debug)]
pub struct Me<'a> {
    id: ThreadId,
    locks: &'a mut u32,
}

impl Me<'_> {
    /// Locks that get a name from one thread. A name tells locks apart in reports and
    /// helps prediction; there must not be so many that they fill memory.
    const NAMES: u32 = 4096;

    #[inline]
    pub const fn id(&self) -> ThreadId {
        self.id
    }

    /// A name for a lock; `None` if the thread has given enough.
    pub fn next_lock(&mut self) -> Option<ChannelId> {
        if *self.locks == Self::NAMES {
            return None;
        }
        *self.locks += 1;
        Some(ChannelId {
            creator: self.id,
            number: *self.locks,
        })
    }
}

/// The number of a thread that has not been given one.
const UNKNOWN: ThreadId = ThreadId(ThreadId::LIMIT - 1);

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
    static HOT: Hot = const { Hot::new() };
    /// Survive the context: messages sent from late destructors still need a tag.
    static ID: Cell<u32> = const { Cell::new(UNKNOWN.0) };
    static NEXT: Cell<Tag> = const { Cell::new(Tag::new(UNKNOWN, 0)) };
    static SIGNALS: Cell<u64> = const { Cell::new(0) };
    static FOREIGN_CHILDREN: Cell<u32> = const { Cell::new(0) };
    /// Whether it has used this crate.
    static USED: Cell<bool> = const { Cell::new(false) };
}

impl Context {
    fn register(who: Who) -> Context {
        let (id, dti, is_recorded, cursor) = match session() {
            // The session is its parent's.
            _ if fork::is_fork() => (UNKNOWN, Dti::main(), false, None),
            Session::Record(recorder) => {
                let (id, dti, is_recorded) = recorder.register(who);
                (id, dti, is_recorded, None)
            }
            Session::Replay(engine) => engine.register(who),
            Session::Off => (ThreadId(0), Dti::main(), false, None),
        };
        let clock_cursor = match session() {
            Session::Replay(engine) if !fork::is_fork() => engine.clocks_of(id),
            _ => None,
        };
        let (log, clock_log) = if is_recorded {
            (Log::Unopened, ClockLog::Unopened)
        } else {
            (Log::None, ClockLog::None)
        };
        chaos::arrive(&dti);
        ID.set(id.0);
        NEXT.set(Tag::new(id, NEXT.get().number()));
        Context {
            id,
            dti,
            children: 0,
            processes: 0,
            channels: 0,
            locks: 0,
            names: ObjectNames::new(id),
            places: match log {
                Log::Unopened if places::is_on() => Log::Unopened,
                _ => Log::None,
            },
            log,
            cursor,
            clock_log,
            clock_cursor,
            is_task: pool::is_in_task(),
        }
    }

    /// Logs what `event` makes, of an operation at `place`.
    fn push(
        &mut self,
        event: impl FnOnce(&mut Me<'_>) -> Event,
        place: &'static Location<'static>,
    ) {
        self.disarm();
        let event = event(&mut Me {
            id: self.id,
            locks: &mut self.locks,
        });
        if let Some(name) = event.channel
            && (event.op.is_on_lock() || event.op.is_on_object())
            && name.object().number <= Me::NAMES
            && name.creator == self.id
        {
            // In a replay it was learned, and later ones must differ.
            self.locks = self.locks.max(name.object().number);
        }
        if let Log::Unopened = self.log
            && let Some(recorder) = session().recorder()
        {
            self.log = match recorder.open_log(self.id, &self.dti) {
                Ok(writer) => Log::Open(writer),
                Err(error) => {
                    complain(&format_args!("cannot record thread {}: {error}", self.dti));
                    Log::None
                }
            };
        }
        let Log::Open(writer) = &mut self.log else {
            return;
        };
        if let Err(error) = writer.push(&event) {
            complain(&format_args!(
                "recording of thread {} stops here, its log cannot grow: {error}",
                self.dti
            ));
            self.log = Log::None;
            return;
        }
        if places::is_on() {
            // Each event comes by here.
            self.note(place, |place| places::of_event(event.op, place));
            return;
        }
        // SAFETY: the writer is used and dropped by `push` and `drop` only, which
        // disarm it first.
        HOT.with(|hot| unsafe { writer.arm(hot) });
    }

    /// Logs the source position `place`.
    fn note(&mut self, place: &'static Location<'static>, what: impl FnOnce(u32) -> Event) {
        let Session::Record(recorder) = session() else {
            return;
        };
        if let Log::Unopened = self.places {
            self.places = match recorder.open_places(self.id, &self.dti) {
                Ok(writer) => Log::Open(writer),
                Err(_) => Log::None,
            };
        }
        if let (Log::Open(writer), Some(place)) = (&mut self.places, recorder.place(place))
            && writer.push(&what(place)).is_err()
        {
            // As far as they go, places are good.
            self.places = Log::None;
        }
    }

    fn recall_clock(&mut self, clock: Clock, site: u64) -> Shown {
        let cursor = self.clock_cursor.as_mut().zip(replay::position());
        let shown = cursor.map(|(cursor, position)| cursor.read(clock, site, position));
        shown.unwrap_or(Shown::Between {
            passed: None,
            next: None,
        })
    }

    /// Begins to log reads of clocks, unless that was done; whether it was not.
    #[inline]
    fn open_clock_log(&mut self) -> bool {
        let is_first = matches!(self.clock_log, ClockLog::Unopened);
        if is_first {
            self.create_clock_log();
        }
        is_first
    }

    #[cold]
    fn create_clock_log(&mut self) {
        let Some(recorder) = session().recorder() else {
            return;
        };
        self.clock_log = match recorder.open_clocks(self.id) {
            Ok(writer) => ClockLog::Open(writer),
            Err(error) => {
                complain(&format_args!(
                    "cannot record what thread {} reads from clocks: {error}",
                    self.dti
                ));
                ClockLog::None
            }
        };
    }

    /// Logs a read of a clock.
    fn push_clock(&mut self, clock: Clock, site: u64, nanoseconds: i64) {
        self.open_clock_log();
        let ClockLog::Open(clocks) = &mut self.clock_log else {
            return;
        };
        let position = match &self.log {
            Log::Open(writer) => HOT.with(Hot::position).unwrap_or(writer.position()),
            Log::Unopened => 0,
            // The log ended early.
            Log::None => return,
        };
        let read = ClockRead {
            position,
            clock,
            site,
            nanoseconds,
        };
        if let Err(error) = clocks.push(&read) {
            complain(&format_args!(
                "recording of what thread {} reads from clocks stops here: {error}",
                self.dti
            ));
            self.clock_log = ClockLog::None;
        }
    }

    fn disarm(&mut self) {
        if let Log::Open(writer) = &mut self.log {
            HOT.with(|hot| writer.disarm(hot));
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        at_work(|| apart(|| self.end()));
    }
}

impl Context {
    /// Ends the thread's session, and closes its logs.
    fn end(&mut self) {
        if !self.is_task {
            chaos::leave();
        }
        self.disarm();
        if sys::is_forked() {
            // The mapping is the parent's log.
            return;
        }
        if let Log::Open(writer) = std::mem::replace(&mut self.places, Log::None) {
            let _ = writer.seal();
        }
        if let ClockLog::Open(writer) = std::mem::replace(&mut self.clock_log, ClockLog::None) {
            let _ = writer.seal();
        }
        if let Session::Replay(engine) = session() {
            engine.thread_ended(self.id);
        }
        match (
            std::mem::replace(&mut self.log, Log::None),
            session().recorder(),
        ) {
            (Log::Open(writer), _) => {
                if let Err(error) = writer.seal() {
                    complain(&format_args!(
                        "cannot close the log of {}: {error}",
                        self.dti
                    ));
                }
            }
            (Log::Unopened, Some(recorder)) => recorder.ended(self.id),
            _ => {}
        }
    }
}

/// The identity of a thread while it performs a task under another one.
pub struct Suspended {
    context: Option<Context>,
    log: SavedLog,
    id: u32,
    next: Tag,
    signals: u64,
    foreign_children: u32,
}

/// Detaches the calling thread's identity. The thread gets one again at its next use of this crate,
/// or by [`resume`].
pub fn suspend() -> Suspended {
    let context = CONTEXT.try_with(|context| context.try_borrow_mut().ok()?.take());
    let mut context = context.ok().flatten();
    if let Some(context) = &mut context {
        context.disarm();
    }
    Suspended {
        context,
        log: replay::save_log(),
        id: ID.replace(UNKNOWN.0),
        next: NEXT.replace(Tag::new(UNKNOWN, 0)),
        signals: SIGNALS.take(),
        foreign_children: FOREIGN_CHILDREN.take(),
    }
}

/// Gives the calling thread its earlier identity again. Its current one ends, unless that was
/// [suspended](suspend) too.
pub fn resume(suspended: Suspended) {
    // Dropped while the thread still has the ending identity.
    let ended = CONTEXT.try_with(|context| context.try_borrow_mut().ok()?.take());
    drop(ended);
    let Suspended {
        context,
        log,
        id,
        next,
        signals,
        foreign_children,
    } = suspended;
    replay::restore_log(log);
    ID.set(id);
    NEXT.set(next);
    SIGNALS.set(signals);
    FOREIGN_CHILDREN.set(foreign_children);
    let _ = CONTEXT.try_with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = context;
        }
    });
}

/// The calling thread's name; `None` in late destructors.
pub fn dti() -> Option<Dti> {
    with(|context| context.dti.clone())
}

/// Detaches the calling thread, the only one of a new process made by fork(2), from its log: it
/// logs no more, and follows no log. It has no number, until it gets one.
pub fn forget_log() {
    HOT.with(|hot| hot.disarm());
    ID.set(UNKNOWN.0);
    NEXT.set(Tag::new(UNKNOWN, NEXT.get().number()));
}

/// Drops the identity of the calling thread, the only one of a new process that has begun a
/// session of its own. It gets another one at its next use of this crate.
pub fn begin_anew() {
    let old = CONTEXT.try_with(|context| context.try_borrow_mut().ok()?.take());
    // Its logs are the parent's.
    std::mem::forget(old);
}

/// Runs `f` on the calling thread's context; `None` once the thread has torn it
/// down, and inside of `f` itself (an allocator that uses locks, say).
#[inline]
fn with<R>(f: impl FnOnce(&mut Context) -> R) -> Option<R> {
    if !USED.replace(true) {
        first_use();
    }
    if sys::is_forked() {
        // If this process is to begin a session of its own, the thread's earlier identity is over.
        session();
    }
    CONTEXT
        .try_with(|context| {
            let mut context = context.try_borrow_mut().ok()?;
            let _work = Work::begin();
            Some(f(
                context.get_or_insert_with(|| Context::register(current_thread()))
            ))
        })
        .ok()
        .flatten()
}

/// The calling thread's identity, if none was assigned to it.
fn current_thread() -> Who {
    if let Some(task) = pool::task() {
        return Who::Known(task);
    }
    if sys::is_main_thread() {
        return Who::Known(Dti::main());
    }
    let seat = seats::seat();
    if let Some(seat) = &seat
        && !seat.name_wins
    {
        // The allocator may be called before `std` has set up the thread.
        return Who::Known(seat.dti.clone());
    }
    let thread = std::thread::current();
    match (seat, thread.name()) {
        (Some(seat), None) => Who::Known(seat.dti),
        (_, name) => Who::Foreign(name.unwrap_or_default().to_owned()),
    }
}

static MAIN_USED: AtomicBool = AtomicBool::new(false);

#[cold]
fn first_use() {
    if sys::is_main_thread() {
        MAIN_USED.store(true, Ordering::Relaxed);
        system_calls::log_earlier();
    }
}

/// Whether the main thread has used this crate. If not, it may be a test harness.
pub fn is_used_by_main() -> bool {
    MAIN_USED.load(Ordering::Relaxed)
}

/// Whether the calling thread is the main thread and has not used this crate.
pub fn is_unused_main() -> bool {
    !USED.get() && sys::is_main_thread()
}

/// Makes the calling thread, new and not yet registered, the one called `dti`.
pub fn adopt(dti: Dti) {
    CONTEXT.with(|context| {
        if let Ok(mut context) = context.try_borrow_mut()
            && context.is_none()
        {
            *context = Some(at_work(|| Context::register(Who::Known(dti))));
        }
    });
}

/// The calling thread's number, also in late destructors; a thread that first
/// appears in one gets the last number there is.
pub fn thread_or_last() -> ThreadId {
    with(|context| context.id).unwrap_or(ThreadId(ID.get()))
}

/// The calling thread's number, if it has appeared by now; the last one there is, if not.
#[inline]
pub fn thread_by_now() -> ThreadId {
    ThreadId(ID.get())
}

/// Runs `f` on the rest of the log that the calling thread follows, if it follows one.
pub fn with_cursor<R>(f: impl FnOnce(&mut Cursor) -> R) -> Option<R> {
    with(|context| context.cursor.as_mut().map(f)).flatten()
}

/// Names the calling thread's next child; `None` in late destructors.
pub fn next_child() -> Option<Dti> {
    with(|context| {
        context.children += 1;
        context.dti.child(context.children)
    })
}

/// The calling thread starts a process: the thread's number, and which of its processes
/// that is, from 1; `None` in late destructors.
pub fn next_process() -> Option<(ThreadId, u32)> {
    with(|context| {
        context.processes += 1;
        (context.id, context.processes)
    })
}

/// The place of a thread that the calling thread creates without this crate;
/// `None` where places do not matter, or can no longer be had.
pub fn next_seat() -> Option<Seat> {
    if matches!(session(), Session::Off) || fork::is_fork() {
        return None;
    }
    let number = FOREIGN_CHILDREN.get() + 1;
    FOREIGN_CHILDREN.set(number);
    if is_unused_main() {
        return Some(Seat {
            dti: Dti::main().foreign_child(number),
            name_wins: true,
        });
    }
    with(|context| Seat {
        dti: context.dti.foreign_child(number),
        name_wins: false,
    })
}

/// Names the calling thread's next channel, whose messages are of type `T`: the recording says
/// so if it has places.
pub fn channel_of<T>() -> ChannelId {
    let id = next_channel();
    if places::is_on()
        && let Some(recorder) = session().recorder()
    {
        recorder.carries(id, std::any::type_name::<T>());
    }
    id
}

/// Names the calling thread's next channel.
pub fn next_channel() -> ChannelId {
    with(|context| {
        context.channels += 1;
        ChannelId {
            creator: context.id,
            number: context.channels,
        }
    })
    .unwrap_or(ChannelId {
        creator: ThreadId(ID.get()),
        number: 0,
    })
}

/// Passes the names of the calling thread's objects to `f`; `None` in late destructors.
pub fn with_object_names<R>(f: impl FnOnce(&mut ObjectNames) -> R) -> Option<R> {
    with(|context| f(&mut context.names))
}

/// As [`with_object_names`], if the calling thread is `creator`. Another one does nothing: it may
/// come too early or too late.
pub fn with_object_names_of(creator: ThreadId, f: impl FnOnce(&mut ObjectNames)) {
    if creator.0 == ID.get() {
        with_object_names(f);
    }
}

/// How many events the calling thread has logged; `None` if it cannot log.
pub fn logged() -> Option<u64> {
    with(|context| match &context.log {
        Log::Open(writer) => Some(HOT.with(Hot::position).unwrap_or(writer.position())),
        Log::Unopened => Some(0),
        Log::None => None,
    })
    .flatten()
}

/// The tag of the calling thread's next message, without using it up.
#[inline]
pub fn peek_tag() -> Tag {
    let tag = NEXT.get();
    if tag.sender() == UNKNOWN {
        thread_or_last();
        return NEXT.get();
    }
    tag
}

/// The tag of the calling thread's next message.
#[inline]
pub fn next_tag() -> Tag {
    let tag = peek_tag();
    NEXT.set(tag.next());
    tag
}

/// Names the calling thread's next notification, from 1; of a thread that is ending,
/// perhaps one that was named before.
pub fn next_signal() -> (ThreadId, u64) {
    SIGNALS.set(SIGNALS.get() + 1);
    (thread_or_last(), SIGNALS.get())
}

/// Logs `event` for the calling thread, where it records.
#[inline(always)]
#[track_caller]
pub fn log(event: Event) {
    if event.op.is_apart() || !hit(&event) {
        log_unexpected(event);
    }
}

#[inline(always)]
fn hit(event: &Event) -> bool {
    let (symbol, number) = Symbol::split(event);
    HOT.with(
        #[inline(always)]
        |hot| hot.hit(symbol, number),
    )
}

#[cold]
#[track_caller]
fn log_unexpected(event: Event) {
    log_with(|_| event);
}

/// The calling thread reads a clock, at `site`. It is shown what `show` makes of what the recording
/// has, if it follows one, and of whether a file was made for this read, which takes a while. That is
/// logged where it records. `None` where neither is possible: in late destructors, and while this
/// crate is at work.
#[inline]
pub fn reads_clock(
    clock: Clock,
    site: u64,
    show: impl FnOnce(Option<Shown>, bool) -> i64,
) -> Option<i64> {
    with(|context| {
        let is_first = context.open_clock_log();
        let recorded = match session() {
            Session::Replay(_) => Some(context.recall_clock(clock, site)),
            _ => None,
        };
        let nanoseconds = show(recorded, is_first);
        context.push_clock(clock, site, nanoseconds);
        nanoseconds
    })
}

/// Logs a read of a clock that the calling thread has made before.
pub fn log_clock(clock: Clock, site: u64, nanoseconds: i64) {
    with(|context| context.push_clock(clock, site, nanoseconds));
}

/// Logs an event of the thread with the number `id`, if that is the calling thread and the event
/// is its next expected one.
#[inline(always)]
pub fn log_expected(id: ThreadId, event: &Event) -> bool {
    id.0 == ID.get() && hit(event)
}

/// Whether `event` of the thread with the number `id` is the next one expected of the calling
/// thread.
#[inline(always)]
pub fn is_expected(id: ThreadId, event: &Event) -> bool {
    let (symbol, number) = Symbol::split(event);
    id.0 == ID.get() && HOT.with(|hot| hot.expects(symbol, number))
}

/// Logs what `event` makes, unless the thread cannot log any more: then it is not
/// called.
#[cold]
#[track_caller]
pub fn log_with(event: impl FnOnce(&mut Me<'_>) -> Event) {
    let place = Location::caller();
    if !fork::is_fork() {
        with(|context| context.push(event, place));
    }
}

/// Logs where the calling thread sends a message, if that is recorded.
#[inline]
#[track_caller]
pub fn sends(op: Op, channel: ChannelId, tag: Tag) {
    if places::is_on() && !fork::is_fork() {
        let place = Location::caller();
        let what = |place| places::of_message(op, channel, tag.number(), place);
        with(|context| context.note(place, what));
    }
}
