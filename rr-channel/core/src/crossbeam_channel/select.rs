//! Selection over a dynamic set of operations.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use ::crossbeam_channel as raw;
use raw::{
    ReadyTimeoutError, RecvError, SelectTimeoutError, SendError, TryReadyError, TrySelectError,
};
use rr_channel_log::{Event, Op, Outcome};

use super::channel::{Receiver, ReceiverKind, Sender, SenderKind};
use super::record::{self, Shared};
use super::waiting::{Until, Waiting as _};
use crate::engine::chaos;
use crate::engine::context;
use crate::engine::payload;
use crate::engine::replay::{Arm, Got, Native, Pick, engine};
use crate::engine::session::{Session, session};
use crate::engine::shown;
use crate::platform::apart::apart;
use crate::recorder::tag::{Stamped, Tag};

/// Selects from a set of channel operations.
///
/// ```
/// use rr_channel::crossbeam_channel::{Select, unbounded};
///
/// let (s, r) = unbounded();
/// s.send(7).unwrap();
///
/// let mut sel = Select::new();
/// let op = sel.recv(&r);
/// let oper = sel.select();
/// assert_eq!(oper.index(), op);
/// assert_eq!(oper.recv(&r), Ok(7));
/// ```
pub struct Select<'a>(SelectKind<'a>);

#[derive(Clone)]
enum SelectKind<'a> {
    Raw(raw::Select<'a>),
    Recorded(Recorded<'a>),
    Replayed(Replayed<'a>),
}

use SelectKind as K;

/// A selection that is recorded.
#[derive(Clone)]
struct Recorded<'a> {
    raw: raw::Select<'a>,
    biased: bool,
    arms: Vec<RecordedArm<'a>>,
}

#[derive(Clone)]
struct RecordedArm<'a> {
    index: usize,
    /// This operation alone: for attempts under its channel's order.
    alone: raw::Select<'a>,
    /// The channel, if its sends are ordered and this is one.
    ordered: Option<&'a Shared>,
    /// The channel, if this receives: messages of it ring, under chaos.
    rings: Option<&'a Shared>,
    sends: bool,
    /// The channel has no capacity.
    meets: bool,
}

/// An operation that was selected: its index, and the number of its send in the channel's
/// order.
type Picked<'a> = (usize, raw::SelectedOperation<'a>, u64);

/// A selection that is replayed.
#[derive(Clone)]
struct Replayed<'a> {
    arms: Vec<ReplayedArm<'a>>,
    next_index: usize,
    biased: bool,
}

#[derive(Clone)]
struct ReplayedArm<'a> {
    index: usize,
    /// `None` for a channel that never has a message.
    arm: Option<Arm<'a>>,
    sends: bool,
    /// The handle's address, which is how upstream tells handles apart.
    handle: usize,
}

fn address<T>(handle: &T) -> usize {
    std::ptr::from_ref(handle).addr()
}

impl<'a> Select<'a> {
    /// Creates an empty list of channel operations for selection.
    pub fn new() -> Select<'a> {
        Select::with_bias(false)
    }

    /// Creates an empty list of channel operations with biased selection: of several
    /// operations that are ready, the first is selected.
    #[cfg(feature = "upstream-0.5.14")]
    pub fn new_biased() -> Self {
        Select::with_bias(true)
    }

    fn with_bias(biased: bool) -> Self {
        let raw = || {
            #[cfg(feature = "upstream-0.5.14")]
            if biased {
                return raw::Select::new_biased();
            }
            raw::Select::new()
        };
        Select(match session() {
            Session::Off => K::Raw(raw()),
            Session::Record(_) => K::Recorded(Recorded {
                raw: raw(),
                biased,
                arms: Vec::new(),
            }),
            Session::Replay(_) => K::Replayed(Replayed {
                arms: Vec::new(),
                next_index: 0,
                biased,
            }),
        })
    }

    /// Adds a send operation, and returns its index.
    #[track_caller]
    pub fn send<T>(&mut self, s: &'a Sender<T>) -> usize {
        match (&mut self.0, &s.0) {
            (K::Raw(select), SenderKind::Raw(s)) => select.send(s),
            (K::Recorded(select), SenderKind::Recorded(s)) => select.send(s),
            (K::Replayed(select), SenderKind::Replayed(chan)) => {
                select.add(Some(chan.arm(select.next_index, None)), true, address(s))
            }
            // A process does one of the three.
            _ => unreachable!("a sender of another mode"),
        }
    }

    /// Adds a receive operation, and returns its index.
    #[track_caller]
    pub fn recv<T>(&mut self, r: &'a Receiver<T>) -> usize {
        match (&mut self.0, &r.0) {
            (K::Raw(select), ReceiverKind::Raw(r)) => select.recv(r),
            (K::Recorded(select), ReceiverKind::Raw(r)) => select.recv(r, None),
            (K::Recorded(select), ReceiverKind::Recorded(r)) => {
                select.recv(&r.raw, Some(&r.shared))
            }
            (K::Recorded(select), ReceiverKind::Timer(r)) => select.recv(&r.raw, None),
            (K::Replayed(select), ReceiverKind::Replayed(chan)) => {
                select.add(Some(chan.arm(select.next_index, None)), false, address(r))
            }
            (K::Replayed(select), ReceiverKind::Raw(_)) => select.add(None, false, address(r)),
            // A process does one of the three.
            _ => unreachable!("a receiver of another mode"),
        }
    }

    /// Removes a previously added operation.
    ///
    /// # Panics
    /// If there is no operation with this index.
    pub fn remove(&mut self, index: usize) {
        match &mut self.0 {
            K::Raw(select) => select.remove(index),
            K::Recorded(select) => {
                select.raw.remove(index);
                select.arms.retain(|arm| arm.index != index);
            }
            K::Replayed(select) => select.remove(index),
        }
    }

    /// Attempts to select one of the operations without blocking.
    ///
    /// # Errors
    /// If none is ready.
    #[track_caller]
    pub fn try_select(&mut self) -> Result<SelectedOperation<'a>, TrySelectError> {
        match &mut self.0 {
            K::Raw(select) => select.try_select().map(SelectedOperation::raw),
            _ => self
                .select_as(Op::TrySelect, Native::Try)
                .ok_or(TrySelectError),
        }
    }

    /// Blocks until one of the operations becomes ready, and selects it.
    ///
    /// # Panics
    /// If no operations have been added.
    #[track_caller]
    pub fn select(&mut self) -> SelectedOperation<'a> {
        match &mut self.0 {
            K::Raw(select) => SelectedOperation::raw(select.select()),
            _ => match self.select_as(Op::Select, Native::Block) {
                Some(operation) => operation,
                None => unreachable!("a selection without a deadline ends by selecting"),
            },
        }
    }

    /// Blocks for a limited time until one of the operations becomes ready, and
    /// selects it.
    ///
    /// # Errors
    /// If none becomes ready in time.
    #[track_caller]
    pub fn select_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        match &mut self.0 {
            K::Raw(select) => select.select_timeout(timeout).map(SelectedOperation::raw),
            _ => self
                .select_as(Op::SelectDeadline, Until::after(timeout).native())
                .ok_or(SelectTimeoutError),
        }
    }

    /// Blocks until an instant or until one of the operations becomes ready, and
    /// selects it.
    ///
    /// # Errors
    /// If none becomes ready in time.
    #[track_caller]
    pub fn select_deadline(
        &mut self,
        deadline: Instant,
    ) -> Result<SelectedOperation<'a>, SelectTimeoutError> {
        match &mut self.0 {
            K::Raw(select) => select.select_deadline(deadline).map(SelectedOperation::raw),
            _ => self
                .select_as(Op::SelectDeadline, Native::Until(shown::to_real(deadline)))
                .ok_or(SelectTimeoutError),
        }
    }

    #[track_caller]
    fn select_as(&mut self, op: Op, native: Native) -> Option<SelectedOperation<'a>> {
        match &mut self.0 {
            K::Raw(select) => Some(SelectedOperation::raw(select.select())),
            K::Recorded(select) => select.select(op, native),
            K::Replayed(select) => select.select(op, native),
        }
    }

    /// Attempts to find a ready operation without blocking.
    ///
    /// # Errors
    /// If none is ready.
    #[track_caller]
    pub fn try_ready(&mut self) -> Result<usize, TryReadyError> {
        match &mut self.0 {
            K::Raw(select) => select.try_ready(),
            _ => self
                .ready_as(Op::TryReady, Native::Try)
                .ok_or(TryReadyError),
        }
    }

    /// Blocks until one of the operations becomes ready.
    ///
    /// # Panics
    /// If no operations have been added.
    #[track_caller]
    pub fn ready(&mut self) -> usize {
        match &mut self.0 {
            K::Raw(select) => select.ready(),
            _ => match self.ready_as(Op::Ready, Native::Block) {
                Some(index) => index,
                None => unreachable!("a wait without a deadline ends by readiness"),
            },
        }
    }

    /// Blocks for a limited time until one of the operations becomes ready.
    ///
    /// # Errors
    /// If none becomes ready in time.
    #[track_caller]
    pub fn ready_timeout(&mut self, timeout: Duration) -> Result<usize, ReadyTimeoutError> {
        match &mut self.0 {
            K::Raw(select) => select.ready_timeout(timeout),
            _ => self
                .ready_as(Op::ReadyDeadline, Until::after(timeout).native())
                .ok_or(ReadyTimeoutError),
        }
    }

    /// Blocks until an instant or until one of the operations becomes ready.
    ///
    /// # Errors
    /// If none becomes ready in time.
    #[track_caller]
    pub fn ready_deadline(&mut self, deadline: Instant) -> Result<usize, ReadyTimeoutError> {
        match &mut self.0 {
            K::Raw(select) => select.ready_deadline(deadline),
            _ => self
                .ready_as(Op::ReadyDeadline, Native::Until(shown::to_real(deadline)))
                .ok_or(ReadyTimeoutError),
        }
    }

    #[track_caller]
    fn ready_as(&mut self, op: Op, native: Native) -> Option<usize> {
        match &mut self.0 {
            K::Raw(select) => Some(select.ready()),
            K::Recorded(select) => {
                chaos::point();
                let index = ready(&mut select.raw, native);
                log_choice(op, index);
                index
            }
            K::Replayed(select) => {
                let (arms, pick) = select.perform(op, native);
                pick.map(|pick| arms[pick.position].index)
            }
        }
    }
}

#[track_caller]
fn ready(raw: &mut raw::Select<'_>, native: Native) -> Option<usize> {
    match native {
        Native::Block => Some(raw.ready()),
        Native::Try => raw.try_ready().ok(),
        Native::Until(deadline) => apart(|| raw.ready_deadline(deadline)).ok(),
    }
}

/// Logs which arm a selection took, if any.
#[track_caller]
fn log_choice(op: Op, index: Option<usize>) {
    let outcome = match (index, op) {
        (Some(index), _) => Outcome::Arm(index as u32),
        (None, Op::TrySelect | Op::TryReady) => Outcome::NoArm,
        (None, _) => Outcome::Timeout,
    };
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}

impl<'a> RecordedArm<'a> {
    /// Selects this operation if it is ready, under its channel's order.
    #[track_caller]
    fn attempt(&mut self) -> Option<(raw::SelectedOperation<'a>, u64)> {
        if let Some(shared) = self.rings {
            shared.hear();
        }
        let mut order = self.ordered.and_then(Shared::order);
        let operation = self.alone.try_select().ok()?;
        let slot = order.as_deref_mut().map_or(0, record::next);
        Some((operation, slot))
    }
}

impl<'a> Recorded<'a> {
    #[track_caller]
    fn send<T>(&mut self, s: &'a record::Sender<T>) -> usize {
        let mut alone = raw::Select::new();
        alone.send(&s.raw);
        let index = self.raw.send(&s.raw);
        let ordered = s.shared.is_ordered().then_some(&*s.shared);
        self.arms.push(RecordedArm {
            index,
            alone,
            ordered,
            rings: None,
            sends: true,
            meets: s.raw.capacity() == Some(0),
        });
        index
    }

    #[track_caller]
    fn recv<M>(&mut self, r: &'a raw::Receiver<M>, rings: Option<&'a Shared>) -> usize {
        let mut alone = raw::Select::new();
        alone.recv(r);
        let index = self.raw.recv(r);
        self.arms.push(RecordedArm {
            index,
            alone,
            ordered: None,
            rings,
            sends: false,
            meets: r.capacity() == Some(0),
        });
        index
    }

    #[track_caller]
    fn select(&mut self, op: Op, native: Native) -> Option<SelectedOperation<'a>> {
        let picked = if let Some(picked) = self.select_in_chaos(native) {
            picked
        } else if self.arms.iter().any(|arm| arm.ordered.is_some()) {
            self.select_in_order(native)
        } else {
            match native {
                Native::Block => Some(self.raw.select()),
                Native::Try => self.raw.try_select().ok(),
                Native::Until(deadline) => apart(|| self.raw.select_deadline(deadline)).ok(),
            }
            .map(|operation| (operation.index(), operation, 0))
        };
        log_choice(op, picked.as_ref().map(|(index, ..)| *index));
        let (index, operation, slot) = picked?;
        // The message gets its number now, as in a replay, where it is known by it
        // from here on.
        let sends = self.arms.iter().any(|arm| arm.index == index && arm.sends);
        let tag = sends.then(context::next_tag);
        Some(SelectedOperation(Selected::Recorded {
            operation,
            index,
            tag,
            slot,
        }))
    }

    /// Selects where a send takes its number in its channel's order: whichever is
    /// ready is attempted alone, under that order.
    #[track_caller]
    fn select_in_order(&mut self, native: Native) -> Option<Picked<'a>> {
        loop {
            let index = ready(&mut self.raw, native)?;
            let Some(arm) = self.arms.iter_mut().find(|arm| arm.index == index) else {
                continue;
            };
            if let Some((operation, slot)) = arm.attempt() {
                return Some((index, operation, slot));
            }
        }
    }

    /// Under chaos, any operation that is ready may be selected (upstream's own choice
    /// among them is much the same in every run), once the thread may run. `None` if it
    /// has to be selected as ever.
    #[track_caller]
    fn select_in_chaos(&mut self, native: Native) -> Option<Option<Picked<'a>>> {
        let count = self.arms.len();
        if !chaos::is_on() || count == 0 {
            return None;
        }
        loop {
            chaos::point();
            let first = match self.biased {
                true => 0,
                false => (chaos::dice() % count as u64) as usize,
            };
            let picked = (0..count).find_map(|offset| {
                let arm = &mut self.arms[(first + offset) % count];
                let (operation, slot) = arm.attempt()?;
                Some((arm.index, operation, slot))
            });
            if picked.is_some() {
                return Some(picked);
            }
            // Without capacity, no partner meets a thread that only looks.
            if self.arms.iter().any(|arm| arm.meets) {
                return None;
            }
            if ready(&mut self.raw, native).is_none() {
                return Some(None);
            }
        }
    }
}

impl<'a> Replayed<'a> {
    fn add(&mut self, arm: Option<Arm<'a>>, sends: bool, handle: usize) -> usize {
        let index = self.next_index;
        self.arms.push(ReplayedArm {
            index,
            arm,
            sends,
            handle,
        });
        self.next_index += 1;
        index
    }

    fn remove(&mut self, index: usize) {
        assert!(
            index < self.next_index,
            "index out of bounds; {index} >= {}",
            self.next_index
        );
        let at = self.arms.iter().position(|arm| arm.index == index);
        let Some(at) = at else {
            panic!("no operation with this index")
        };
        self.arms.swap_remove(at);
    }

    fn perform(&self, op: Op, native: Native) -> (Vec<Arm<'a>>, Option<Pick>) {
        assert!(
            !self.arms.is_empty() || !matches!(op, Op::Select | Op::Ready),
            "no operations have been added to `Select`"
        );
        let tag = context::peek_tag();
        let with_tag = |arm: &ReplayedArm<'a>| {
            let mut with_tag = arm.arm?;
            with_tag.send = arm.sends.then_some(tag);
            Some(with_tag)
        };
        let arms: Vec<_> = self.arms.iter().filter_map(with_tag).collect();
        let pick = engine().perform(op, &arms, native, self.biased);
        (arms, pick)
    }

    #[track_caller]
    fn select(&self, op: Op, native: Native) -> Option<SelectedOperation<'a>> {
        let (arms, pick) = self.perform(op, native);
        let pick = pick?;
        let Arm { index, send, .. } = arms[pick.position];
        let handle = self
            .arms
            .iter()
            .find(|arm| arm.index == index)
            .map_or(0, |arm| arm.handle);
        let tag = send.map(|_| context::next_tag());
        let operation = Unfinished {
            pick,
            index,
            handle,
            tag,
            done: false,
        };
        Some(SelectedOperation(Selected::Replayed(
            operation,
            PhantomData,
        )))
    }
}

impl Clone for Select<'_> {
    fn clone(&self) -> Self {
        Select(self.0.clone())
    }
}

impl Default for Select<'_> {
    fn default() -> Self {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Select { .. }")
    }
}

/// A selected operation that needs to be completed.
///
/// # Panics
/// If it is dropped without having been completed by [`send`](Self::send) or
/// [`recv`](Self::recv).
#[must_use]
pub struct SelectedOperation<'a>(Selected<'a>);

enum Selected<'a> {
    Raw(raw::SelectedOperation<'a>),
    Recorded {
        operation: raw::SelectedOperation<'a>,
        index: usize,
        tag: Option<Tag>,
        slot: u64,
    },
    Replayed(Unfinished, PhantomData<&'a ()>),
}

/// A replayed operation; upstream's panics if it is dropped, and so does this.
struct Unfinished {
    pick: Pick,
    index: usize,
    handle: usize,
    tag: Option<Tag>,
    done: bool,
}

impl Unfinished {
    /// The operation is being completed on `handle`, an `article` of which was selected.
    fn finish(mut self, handle: usize, what: &str) -> (Pick, Option<Tag>) {
        assert!(
            handle == self.handle,
            "passed a {what} that wasn't selected"
        );
        self.done = true;
        (self.pick, self.tag)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        assert!(
            self.done,
            "dropped `SelectedOperation` without completing the operation"
        );
    }
}

impl<'a> SelectedOperation<'a> {
    const fn raw(operation: raw::SelectedOperation<'a>) -> Self {
        SelectedOperation(Selected::Raw(operation))
    }

    /// Returns the index of the selected operation.
    pub fn index(&self) -> usize {
        match &self.0 {
            Selected::Raw(operation) => operation.index(),
            Selected::Recorded { index, .. } => *index,
            Selected::Replayed(operation, _) => operation.index,
        }
    }

    /// Completes the send operation.
    ///
    /// # Errors
    /// If the channel is disconnected; the error holds the message.
    ///
    /// # Panics
    /// If `s` is not the sender that was selected.
    #[track_caller]
    pub fn send<T>(self, s: &Sender<T>, msg: T) -> Result<(), SendError<T>> {
        match (self.0, &s.0) {
            (Selected::Raw(operation), SenderKind::Raw(s)) => operation.send(s, msg),
            (
                Selected::Recorded {
                    operation,
                    tag: Some(tag),
                    slot,
                    ..
                },
                SenderKind::Recorded(s),
            ) => {
                context::sends(Op::SelectedSend, s.shared.id, tag);
                payload::of_value(tag, &msg);
                match operation.send(&s.raw, Stamped { tag, value: msg }) {
                    Ok(()) => {
                        s.shared.log(Op::SelectedSend, Outcome::Sent { slot });
                        s.ring();
                        Ok(())
                    }
                    Err(error) => {
                        let refused = Outcome::Refused {
                            number: tag.number(),
                        };
                        s.shared.log(Op::SelectedSend, refused);
                        Err(SendError(error.into_inner().value))
                    }
                }
            }
            (Selected::Replayed(operation, _), SenderKind::Replayed(chan)) => {
                let (pick, tag) = operation.finish(address(s), "sender");
                match tag {
                    Some(tag) => chan.finish_send(pick, tag, msg).map_err(SendError),
                    None => unreachable!("a selected send has a tag"),
                }
            }
            _ => panic!("passed a sender that wasn't selected"),
        }
    }

    /// Completes the receive operation.
    ///
    /// # Errors
    /// If the channel is empty and disconnected.
    ///
    /// # Panics
    /// If `r` is not the receiver that was selected.
    #[track_caller]
    pub fn recv<T>(self, r: &Receiver<T>) -> Result<T, RecvError> {
        match (self.0, &r.0) {
            (Selected::Raw(operation), ReceiverKind::Raw(r)) => operation.recv(r),
            (Selected::Recorded { operation, .. }, ReceiverKind::Recorded(r)) => {
                match operation.recv(&r.raw) {
                    Ok(Stamped { tag, value }) => {
                        r.shared.log_message(Op::SelectedRecv, tag);
                        Ok(value)
                    }
                    Err(RecvError) => {
                        r.shared.log(Op::SelectedRecv, Outcome::Disconnected);
                        Err(RecvError)
                    }
                }
            }
            (Selected::Recorded { operation, .. }, ReceiverKind::Timer(r)) => {
                let when = operation.recv(&r.raw)?;
                r.shared.log(Op::SelectedRecv, Outcome::Tick);
                Ok((r.deliver)(when))
            }
            (Selected::Recorded { operation, .. }, ReceiverKind::Raw(r)) => operation.recv(r),
            (Selected::Replayed(operation, _), ReceiverKind::Replayed(chan)) => {
                let (pick, _) = operation.finish(address(r), "receiver");
                debug_assert!(!matches!(pick.got, Got::Ready));
                chan.finish_recv(pick).map_err(|_| RecvError)
            }
            _ => panic!("passed a receiver that wasn't selected"),
        }
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SelectedOperation { .. }")
    }
}
