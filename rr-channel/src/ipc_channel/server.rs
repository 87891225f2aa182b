//! Servers that accept one connection.

use std::io;

use ::ipc_channel::IpcError;
use ::ipc_channel::ipc as raw;
use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Op, Outcome};
use serde::{Deserialize, Serialize};

use super::inbox::failed;
use super::new_id_of;
use super::now::{Now, log, message, now};
use super::typed::IpcReceiver;
use super::wire::Arrival;
use rr_channel_core::engine::replay::Expected;

/// A server, by its name, for one connection.
pub struct IpcOneShotServer<T> {
    raw: raw::IpcOneShotServer<Arrival<T>>,
    id: ChannelId,
}

impl<T> IpcOneShotServer<T>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    /// A server and its name.
    ///
    /// # Errors
    /// If the system cannot create one.
    pub fn new() -> Result<(IpcOneShotServer<T>, String), io::Error> {
        let id = new_id_of::<T>();
        let (raw, name) = raw::IpcOneShotServer::new()?;
        Ok((IpcOneShotServer { raw, id }, name))
    }

    /// Waits for the connection and its first value.
    ///
    /// # Errors
    /// If there is no first value, or it cannot be deserialized.
    #[track_caller]
    pub fn accept(self) -> Result<(IpcReceiver<T>, T), IpcError> {
        let IpcOneShotServer { raw, id } = self;
        let accepted = raw.accept();
        let (raw, first) = match (now(), accepted) {
            (Now::Off, Ok(accepted)) => accepted,
            (Now::Off, Err(error)) => return Err(error),
            (Now::Record, Ok((raw, first))) => {
                let receiver = IpcReceiver::typed(raw, id);
                let tag = receiver.was_first(first.tag());
                log(Op::Accept, Some(id), message(tag));
                return Ok((receiver, first.open()?));
            }
            (Now::Replay(_), Ok((raw, first))) => {
                // Another client's message may have been the first.
                let receiver = IpcReceiver::typed(raw, id);
                let first = receiver.first_as_recorded(first)?;
                return Ok((receiver, first.open()?));
            }
            (Now::Record, Err(error)) => {
                log(Op::Accept, Some(id), outcome(&error));
                return Err(error);
            }
            (Now::Replay(engine), Err(error)) => {
                match engine.expect(Op::Accept, Some(id)) {
                    Expected::Event(event) if event.outcome == outcome(&error) => {
                        engine.came_about();
                    }
                    Expected::Event(event) => {
                        engine.give_up(event);
                        log(Op::Accept, Some(id), outcome(&error));
                    }
                    _ => log(Op::Accept, Some(id), outcome(&error)),
                }
                return Err(error);
            }
        };
        Ok((IpcReceiver::typed(raw, id), first.open()?))
    }
}

fn outcome(error: &IpcError) -> Outcome {
    match error {
        IpcError::Io(error) => failed(error),
        _ => Outcome::Disconnected,
    }
}
