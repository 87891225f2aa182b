//! The embedder's side: loads pages, and gets images of them.

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use crate::address::Address;
use crate::constellation::{self, Load};
use crate::image::Image;

/// The size of what it shows.
pub const SIZE: (usize, usize) = (160, 120);

/// A browser. When it is dropped, its pages and their processes end.
#[derive(Debug)]
pub struct Browser {
    constellation: Option<(Sender<Load>, JoinHandle<()>)>,
}

/// A page that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Errors of its scripts and of its frames' scripts.
    pub verdict: Result<(), String>,
    /// The painted page.
    pub image: Image,
}

impl Loaded {
    pub(crate) fn failed(why: String) -> Loaded {
        Loaded {
            verdict: Err(why),
            image: Image::new(0, 0),
        }
    }
}

impl Browser {
    /// Starts one; each page may be in a process of its own.
    ///
    /// # Errors
    /// If the system has no threads or channels left.
    pub fn start(in_processes: bool) -> io::Result<Browser> {
        Ok(Browser {
            constellation: Some(constellation::start(in_processes, SIZE)?),
        })
    }

    /// Loads a page, until its scripts have ended.
    pub fn load(&self, address: Address) -> Loaded {
        let (reply, loaded) = bounded(1);
        let load = Load { address, reply };
        let constellation = self.constellation.as_ref();
        let sent = constellation.and_then(|(loads, _)| loads.send(load).ok());
        let loaded = sent.and_then(|()| loaded.recv().ok());
        loaded.unwrap_or_else(|| Loaded::failed("the browser has ended".to_owned()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some((loads, thread)) = self.constellation.take() {
            drop(loads);
            // If it has panicked, that was seen already.
            let _ = thread.join();
        }
    }
}
