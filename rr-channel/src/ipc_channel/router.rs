//! A thread that calls back for each message of many channels. See
//! [`ipc_channel::router`](https://docs.rs/ipc-channel/0.23/ipc_channel/router/).
//!
//! It is an ordinary user of [`IpcReceiverSet`] and of the drop-in for crossbeam-channel, so its
//! operations are recorded and replayed as any other. [`ROUTER`] starts at its first use, by any
//! thread. Its own thread has a fixed name and makes its channels itself, so the name does not
//! depend on the thread that starts it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, PoisonError, mpsc};

use rr_channel_log::identity::Dti;
use serde::{Deserialize, Serialize};

use super::SerDeError;
use super::ipc::{
    self, IpcMessage, IpcReceiver, IpcReceiverSet, IpcSelectionResult, IpcSender, OpaqueIpcReceiver,
};
use rr_channel_core::crossbeam_channel::{self, Receiver, Sender};
use rr_channel_core::engine::context;
use rr_channel_core::engine::seats::without_seats;
use rr_channel_core::engine::session::{Mode, mode};
use rr_channel_core::sync::{Mutex, MutexGuard};
use rr_channel_core::thread;

/// The router of the process.
pub static ROUTER: LazyLock<RouterProxy> =
    LazyLock::new(|| RouterProxy::of_process("ipc-channel ROUTER"));

/// Called with each message.
pub type RouterMultiHandler = Box<dyn FnMut(IpcMessage) + Send>;
/// Called with the first message.
pub type RouterOneShotHandler = Box<dyn FnOnce(IpcMessage) + Send>;
/// Called with the value of each message.
pub type TypedRouterMultiHandler<T> = Box<dyn FnMut(Result<T, SerDeError>) + Send>;
/// Called with the value of the first message.
pub type TypedRouterOneShotHandler<T> = Box<dyn FnOnce(Result<T, SerDeError>) + Send>;

/// Talks to a router, which is a thread.
pub struct RouterProxy {
    line: Mutex<Line>,
}

struct Line {
    orders: Sender<Order>,
    wakeup: IpcSender<()>,
    shutdown: bool,
    handle: Option<Handle>,
}

enum Handle {
    Ours(thread::JoinHandle<()>),
    Plain(std::thread::JoinHandle<()>),
}

enum Order {
    AddRoute(OpaqueIpcReceiver, Handler),
    Shutdown(Sender<()>),
}

pub(super) enum Handler {
    Once(Option<RouterOneShotHandler>),
    Multi(RouterMultiHandler),
}

const NAME: &str = "router-proxy";

impl RouterProxy {
    /// Starts a router.
    ///
    /// # Panics
    /// If the system cannot create its channel or its thread.
    #[expect(
        clippy::new_without_default,
        reason = "upstream's has no Default either"
    )]
    pub fn new() -> RouterProxy {
        let (orders, received) = crossbeam_channel::unbounded();
        let (wakeup, woken) = ipc::channel().unwrap();
        let handle = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || Router::new(received, woken).run())
            .expect("Failed to spawn router proxy thread");
        RouterProxy::with(orders, wakeup, Handle::Ours(handle))
    }

    /// The only one of the process that is called so, whichever thread comes first.
    pub(super) fn of_process(name: &str) -> RouterProxy {
        if mode() == Mode::Off {
            return RouterProxy::new();
        }
        let (tell, told) = mpsc::sync_channel(1);
        let name = Dti::foreign(name.to_owned(), 1);
        let run = move || {
            context::adopt(name);
            let (orders, received) = crossbeam_channel::unbounded();
            let (wakeup, woken) = ipc::channel().unwrap();
            let _ = tell.send((orders, wakeup));
            Router::new(received, woken).run();
        };
        let builder = std::thread::Builder::new().name(NAME.to_owned());
        let handle =
            without_seats(|| builder.spawn(run)).expect("Failed to spawn router proxy thread");
        let (orders, wakeup) = told.recv().expect("Failed to start the router");
        RouterProxy::with(orders, wakeup, Handle::Plain(handle))
    }

    fn with(orders: Sender<Order>, wakeup: IpcSender<()>, handle: Handle) -> RouterProxy {
        RouterProxy {
            line: Mutex::new(Line {
                orders,
                wakeup,
                shutdown: false,
                handle: Some(handle),
            }),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_route(&self, receiver: OpaqueIpcReceiver, handler: Handler) {
        let line = self.line();
        if line.shutdown {
            // A dropped value may be the program's, and is not dropped under the lock.
            drop(line);
            return;
        }
        line.orders
            .send(Order::AddRoute(receiver, handler))
            .unwrap();
        line.wakeup.send(()).unwrap();
    }

    /// Has `callback` called with each message of `receiver`; it is dropped when the channel
    /// is closed.
    pub fn add_typed_route<T>(
        &self,
        receiver: IpcReceiver<T>,
        mut callback: TypedRouterMultiHandler<T>,
    ) where
        T: Serialize + for<'de> Deserialize<'de> + 'static,
    {
        let handler = Handler::Multi(Box::new(move |message| callback(message.to())));
        self.add_route(receiver.to_opaque(), handler);
    }

    /// Has `callback` called with the first message of `receiver`.
    pub fn add_typed_one_shot_route<T>(
        &self,
        receiver: IpcReceiver<T>,
        callback: TypedRouterOneShotHandler<T>,
    ) where
        T: Serialize + for<'de> Deserialize<'de> + 'static,
    {
        let handler: RouterOneShotHandler = Box::new(move |message| callback(message.to()));
        self.add_route(receiver.to_opaque(), Handler::Once(Some(handler)));
    }

    /// Ends the router, and waits until it has.
    ///
    /// # Panics
    /// If the router has panicked.
    pub fn shutdown(&self) {
        let mut line = self.line();
        if line.shutdown {
            return;
        }
        line.shutdown = true;
        let (done, is_done) = crossbeam_channel::unbounded();
        line.wakeup.send(()).unwrap();
        line.orders.send(Order::Shutdown(done)).unwrap();
        is_done.recv().unwrap();
        match line.handle.take() {
            Some(Handle::Ours(handle)) => handle.join(),
            Some(Handle::Plain(handle)) => handle.join(),
            None => Ok(()),
        }
        .expect("Failed to join on the router proxy thread");
    }

    /// Has the messages of a receiver sent into a channel.
    pub fn route_ipc_receiver_to_crossbeam_sender<T>(
        &self,
        ipc_receiver: IpcReceiver<T>,
        crossbeam_sender: Sender<T>,
    ) where
        T: for<'de> Deserialize<'de> + Serialize + Send + 'static,
    {
        self.add_typed_route(
            ipc_receiver,
            Box::new(move |message| drop(crossbeam_sender.send(message.unwrap()))),
        );
    }

    /// Has the messages of a receiver sent into a new channel.
    pub fn route_ipc_receiver_to_new_crossbeam_receiver<T>(
        &self,
        ipc_receiver: IpcReceiver<T>,
    ) -> Receiver<T>
    where
        T: for<'de> Deserialize<'de> + Serialize + Send + 'static,
    {
        let (s, r) = crossbeam_channel::unbounded();
        self.route_ipc_receiver_to_crossbeam_sender(ipc_receiver, s);
        r
    }
}

impl Drop for RouterProxy {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for RouterProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterProxy").finish_non_exhaustive()
    }
}

struct Router {
    orders: Receiver<Order>,
    wakeup: u64,
    set: IpcReceiverSet,
    handlers: HashMap<u64, Handler>,
}

impl Router {
    fn new(orders: Receiver<Order>, woken: IpcReceiver<()>) -> Router {
        let mut set = IpcReceiverSet::new().unwrap();
        let wakeup = set.add(woken).unwrap();
        Router {
            orders,
            wakeup,
            set,
            handlers: HashMap::new(),
        }
    }

    fn run(&mut self) {
        while let Ok(results) = self.set.select() {
            for result in results {
                if !self.route(result) {
                    return;
                }
            }
        }
    }

    /// `false` if that was the last one.
    fn route(&mut self, result: IpcSelectionResult) -> bool {
        match result {
            IpcSelectionResult::MessageReceived(id, _) if id == self.wakeup => {
                match self.orders.recv().unwrap() {
                    Order::AddRoute(receiver, handler) => {
                        let id = self.set.add_opaque(receiver).unwrap();
                        self.handlers.insert(id, handler);
                    }
                    Order::Shutdown(done) => {
                        done.send(()).expect("Failed to confirm the shutdown");
                        return false;
                    }
                }
            }
            IpcSelectionResult::MessageReceived(id, message) => {
                match self.handlers.get_mut(&id).unwrap() {
                    Handler::Once(handler) => {
                        if let Some(handler) = handler.take() {
                            handler(message);
                        }
                    }
                    Handler::Multi(handler) => handler(message),
                }
            }
            IpcSelectionResult::ChannelClosed(id) => drop(self.handlers.remove(&id).unwrap()),
        }
        true
    }
}
