//! Writing records: the recorder encodes them, another thread compresses and writes them.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Directory, Error, Record, block};

/// A block is closed at this size (bytes, unpacked).
const FULL: usize = 1 << 20;
/// ... and after this time, so that little is lost of a recording that is cut short.
const LONG: Duration = Duration::from_millis(500);
/// How many blocks may wait to be written.
const WAITING: usize = 16;

/// Appends records to a trace.
///
/// When the disk is full, or fails otherwise, [`Writer::failure`] says so and nothing
/// more is written.
pub struct Writer {
    buffer: Vec<u8>,
    records: u32,
    flushed: Instant,
    blocks: Option<SyncSender<(Vec<u8>, u32)>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    failed: Arc<OnceLock<String>>,
    written: Arc<AtomicU64>,
    path: PathBuf,
}

impl Writer {
    /// Starts the records of a new trace.
    ///
    /// # Errors
    /// When their file cannot be opened, or no thread can be made.
    pub fn create(
        directory: &Directory,
        in_thread: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let path = directory.events();
        let mut file = File::options()
            .write(true)
            .open(&path)
            .map_err(Error::io(&path))?;
        let (blocks, queue) = sync_channel::<(Vec<u8>, u32)>(WAITING);
        let failed = Arc::new(OnceLock::new());
        let written = Arc::new(AtomicU64::new(0));
        let (fails, writes, at) = (failed.clone(), written.clone(), path.clone());
        let work = move || {
            in_thread();
            let mut number = 0;
            let mut all = || -> std::io::Result<()> {
                while let Ok((bytes, records)) = queue.recv() {
                    let packed = block::pack(number, records, &bytes)?;
                    file.write_all(&packed)?;
                    writes.fetch_add(packed.len() as u64, Ordering::Relaxed);
                    number += 1;
                }
                Ok(())
            };
            let result = all();
            if let Err(error) = &result {
                let _ = fails.set(error.to_string());
                // Part of a block is of no use to anybody, and room is scarce.
                let _ = file.set_len(writes.load(Ordering::Relaxed));
            }
            result.map_err(Error::io(&at))
        };
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(work)
            .map_err(Error::io(&path))?;
        Ok(Self {
            buffer: Vec::with_capacity(FULL + FULL / 4),
            records: 0,
            flushed: Instant::now(),
            blocks: Some(blocks),
            thread: Some(thread),
            failed,
            written,
            path,
        })
    }

    /// Appends a record, unless something has failed before.
    pub fn append(&mut self, record: &Record) {
        if self.failure().is_some() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        match postcard::to_extend(record, buffer) {
            Ok(buffer) => self.buffer = buffer,
            // Its types have no way to fail; what was in the buffer is lost.
            Err(error) => {
                let _ = self.failed.set(error.to_string());
            }
        }
        self.records += 1;
        if self.buffer.len() >= FULL || self.flushed.elapsed() >= LONG {
            self.flush();
        }
    }

    /// Closes the block: what was appended is going to be on disk even if this process
    /// is killed.
    pub fn flush(&mut self) {
        self.flushed = Instant::now();
        if self.records == 0 {
            return;
        }
        let next = Vec::with_capacity(FULL + FULL / 4);
        let bytes = std::mem::replace(&mut self.buffer, next);
        let records = std::mem::take(&mut self.records);
        if let Some(blocks) = &self.blocks {
            // It fails when the thread has failed.
            let _ = blocks.send((bytes, records));
        }
    }

    /// Why something was not written.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// How many bytes are in the file.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes the rest, and that it is all.
    ///
    /// # Errors
    /// Why something was not written.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.flush();
        if let Some(blocks) = self.blocks.take() {
            let _ = blocks.send((Vec::new(), 0));
        }
        self.join()
    }

    /// Writes the rest of what goes on without a record: the trace has no end.
    ///
    /// # Errors
    /// Why something was not written.
    pub fn abandon(mut self) -> Result<u64, Error> {
        self.flush();
        self.join()
    }

    fn join(mut self) -> Result<u64, Error> {
        self.blocks = None;
        let result = self.thread.take().map(JoinHandle::join);
        match result {
            Some(Ok(Ok(()))) => Ok(self.written()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) | None => Err(Error::Io {
                path: self.path.clone(),
                error: std::io::Error::other("the thread that writes ended"),
            }),
        }
    }
}
