//! A web server on this machine, for tests: files of a directory, a thread for each connection.
//!
//! `/visitor` is the number of those who have asked for it.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::address::Address;

/// A server that runs until the process ends.
#[derive(Debug)]
pub struct Server {
    host: String,
}

impl Server {
    /// Serves the files in `root`.
    ///
    /// # Errors
    /// If there is no port, or no thread.
    pub fn start(root: &Path) -> io::Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let host = listener.local_addr()?.to_string();
        let root: Arc<Path> = root.into();
        let visitors = Arc::new(AtomicU32::new(0));
        let run = move || {
            for stream in listener.incoming().flatten() {
                let (root, visitors) = (Arc::clone(&root), Arc::clone(&visitors));
                // Who asked sees that there is no answer.
                thread::spawn(move || answer(stream, &root, &visitors));
            }
        };
        thread::Builder::new().name("server".into()).spawn(run)?;
        Ok(Server { host })
    }

    /// The address of a path.
    pub fn address(&self, path: &str) -> Address {
        Address {
            host: Some(self.host.clone()),
            path: format!("/{path}"),
        }
    }
}

fn answer(mut stream: TcpStream, root: &Path, visitors: &AtomicU32) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = match path {
        "/visitor" => Ok((visitors.fetch_add(1, Ordering::Relaxed) + 1)
            .to_string()
            .into()),
        path => file(root, path).map_or_else(|| Err(io::ErrorKind::NotFound.into()), fs::read),
    };
    let (status, body) = match body {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

/// The file that a path means, which is not outside.
fn file(root: &Path, path: &str) -> Option<PathBuf> {
    let path = path.trim_start_matches('/');
    let is_inside = path.split('/').all(|part| part != "..");
    is_inside.then(|| root.join(path))
}
