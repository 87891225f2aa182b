//! Values from sources that are not recorded otherwise: the program names them.

use rr_channel_log::Op;
use serde::Serialize;
use serde::de::DeserializeOwned;

use rr_channel_core::engine::fixed;
use rr_channel_core::platform::apart::apart;
use rr_channel_core::recorder::process::complain;

/// Returns the value of `source`; a replay returns the recorded value.
///
/// Use it for values that a test depends on and no other part of this crate covers: the time, a
/// file's modification date, the answer of a server. The value is logged by the calling thread, as
/// its bytes (postcard's). In a replay `source` is not called, so its other effects do not happen.
/// It must not use channels and locks of this crate. Its draws from the system's random numbers
/// are not logged on their own.
///
/// A value that cannot be serialized, or a `source` that panics, is noted as such: in a
/// replay `source` is called in its place.
///
/// ```
/// use std::time::SystemTime;
///
/// let now = rr_channel::value(SystemTime::now);
/// assert!(now <= SystemTime::now());
/// ```
#[track_caller]
pub fn value<T: Serialize + DeserializeOwned>(source: impl FnOnce() -> T) -> T {
    let recalled = fixed::recall(Op::Value, |bytes| {
        let Ok(bytes) = bytes else {
            // Then as now.
            return Some(None);
        };
        match postcard::take_from_bytes(&bytes) {
            Ok((value, [])) => Some(Some(value)),
            _ => {
                let wanted = std::any::type_name::<T>();
                complain(&format_args!("the recorded value is not a {wanted}"));
                None
            }
        }
    });
    match recalled {
        Some(Some(value)) => return value,
        Some(None) => return apart(source),
        None => {}
    }
    if !fixed::is_logged() {
        return source();
    }
    let unless_it_panics = Unserialized;
    let value = apart(source);
    std::mem::forget(unless_it_panics);
    let bytes = postcard::to_allocvec(&value);
    if let Err(error) = &bytes {
        complain(&format_args!("a value cannot be recorded: {error}"));
    }
    fixed::log(Op::Value, bytes.as_deref().map_err(|_| 0));
    value
}

/// Notes, when it is dropped, that there is no value.
struct Unserialized;

impl Drop for Unserialized {
    fn drop(&mut self) {
        fixed::log(Op::Value, Err(0));
    }
}
