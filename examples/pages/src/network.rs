//! The thread of all connections: HTTP, as much of it as a file takes.
//!
//! Its runtime is tokio's of one thread, and its tasks talk to nobody but by the channel
//! through which they were asked.

use std::io;
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::address::Address;

type Request = (Address, oneshot::Sender<Option<Vec<u8>>>);

/// Where to ask.
#[derive(Debug, Clone)]
pub(crate) struct Network(mpsc::UnboundedSender<Request>);

impl Network {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Network> {
        let (asks, mut asked) = mpsc::unbounded_channel::<Request>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let run = move || {
            runtime.block_on(async {
                while let Some((address, reply)) = asked.recv().await {
                    tokio::spawn(async move {
                        // Who asked may be gone.
                        let _ = reply.send(get(&address).await.ok());
                    });
                }
            });
        };
        thread::Builder::new().name("network".into()).spawn(run)?;
        Ok(Network(asks))
    }

    /// Gets a file, and waits for that.
    pub(crate) fn get(&self, address: Address) -> Option<Vec<u8>> {
        let (reply, answer) = oneshot::channel();
        self.0.send((address, reply)).ok()?;
        answer.blocking_recv().ok()?
    }
}

async fn get(address: &Address) -> io::Result<Vec<u8>> {
    let host = address.host.as_deref().unwrap_or_default();
    let mut stream = TcpStream::connect(host).await?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        address.path
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.ok_or(io::ErrorKind::InvalidData)?;
    match answer.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(answer.split_off(end + 4)),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}
