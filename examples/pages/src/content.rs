//! Pages in processes of their own.

use std::io;
use std::process::{Child, Command};

use ipc_channel::ipc::{self, IpcOneShotServer, IpcSender};

use crate::messages::Start;
use crate::script;

/// The first argument of such a process; the second is where it finds its page.
const ARGUMENT: &str = "--content-process";

/// Starts this program again, for a page.
pub(crate) fn start(start: Start) -> io::Result<Child> {
    let (server, name) = IpcOneShotServer::<IpcSender<Start>>::new()?;
    // It ends when its channels are closed, at the latest with this process.
    let process = Command::new(std::env::current_exe()?)
        .args([ARGUMENT, &name])
        .spawn()?;
    let (_, page) = server.accept().map_err(io::Error::other)?;
    page.send(start).map_err(io::Error::other)?;
    Ok(process)
}

/// Is such a process, if its arguments say so: then this returns when it can end.
pub fn enter() -> bool {
    let args: Vec<String> = std::env::args().collect();
    let [_, first, name] = &args[..] else {
        return false;
    };
    if first != ARGUMENT {
        return false;
    }
    let page = ipc::channel().and_then(|(sender, receiver)| {
        IpcSender::connect(name.clone())?
            .send(sender)
            .map_err(io::Error::other)?;
        receiver.recv().map_err(io::Error::other)
    });
    match page {
        Ok(start) => script::run(start),
        Err(error) => eprintln!("a page was not given to its process: {error}"),
    }
    true
}
