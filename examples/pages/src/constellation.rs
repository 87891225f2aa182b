//! The constellation: a thread that knows all pages, and which of them are done.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::process::Child;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use ipc_channel::ipc::{self, IpcSender};
use ipc_channel::router::ROUTER;

use crate::address::Address;
use crate::browser::Loaded;
use crate::compositor::{Compositor, ToCompositor};
use crate::content;
use crate::image::Rect;
use crate::messages::{FromPage, PageId, Start, ToPage};
use crate::resource::Resources;
use crate::script;
use crate::storage::Storage;

/// To the constellation, from the embedder.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) address: Address,
    pub(crate) reply: Sender<Loaded>,
}

/// Starts the thread, and all that it needs.
pub(crate) fn start(
    in_processes: bool,
    (width, height): (usize, usize),
) -> io::Result<(Sender<Load>, JoinHandle<()>)> {
    let (loads, loaded) = unbounded();
    let (from_pages, heard) = unbounded();
    let constellation = Constellation {
        in_processes,
        resources: Resources::start()?,
        storage: Storage::start()?,
        compositor: Compositor::start(width, height)?,
        from_pages,
        pages: BTreeMap::new(),
        processes: Vec::new(),
        next: 0,
        load: None,
    };
    let run = move || constellation.run(&loaded, &heard);
    let thread = thread::Builder::new()
        .name("constellation".into())
        .spawn(run)?;
    Ok((loads, thread))
}

struct Constellation {
    in_processes: bool,
    resources: Resources,
    storage: Storage,
    compositor: Compositor,
    from_pages: Sender<FromPage>,
    pages: BTreeMap<PageId, Page>,
    processes: Vec<Child>,
    next: u32,
    /// The event that the embedder waits for.
    load: Option<Load>,
}

struct Page {
    control: IpcSender<ToPage>,
    within: Option<PageId>,
    /// Its last painting, and the state of its script.
    done: Option<(u32, Result<(), String>)>,
}

impl Constellation {
    fn run(mut self, loads: &Receiver<Load>, heard: &Receiver<FromPage>) {
        loop {
            select! {
                recv(loads) -> load => match load {
                    Ok(load) => {
                        self.close();
                        let address = load.address.clone();
                        self.load = Some(load);
                        self.open(address, None);
                    }
                    Err(_) => break,
                },
                recv(heard) -> message => if let Ok(message) = message {
                    self.hear(message);
                },
            }
        }
        self.close();
        for mut process in self.processes {
            // Whatever it says, it has ended.
            let _ = process.wait();
        }
    }

    /// Lets all pages end.
    fn close(&mut self) {
        for page in std::mem::take(&mut self.pages).into_values() {
            // It may have ended by itself.
            let _ = page.control.send(ToPage::Exit);
        }
    }

    fn hear(&mut self, message: FromPage) {
        match message {
            FromPage::Frame {
                within,
                address,
                rect,
            } => self.open(address, Some((within, rect))),
            FromPage::Message { from, text } => {
                let around = self.pages.get(&from).and_then(|page| page.within);
                for (id, page) in &self.pages {
                    let is_meant = match around {
                        Some(around) => *id == around,
                        None => page.within == Some(from),
                    };
                    if is_meant {
                        let _ = page.control.send(ToPage::Message(text.clone()));
                    }
                }
            }
            FromPage::Done {
                page,
                verdict,
                epoch,
            } => {
                if let Some(page) = self.pages.get_mut(&page) {
                    page.done = Some((epoch, verdict));
                }
                self.finish();
            }
        }
    }

    /// Tells the embedder, if all pages are done.
    fn finish(&mut self) {
        let done = self
            .pages
            .iter()
            .map(|(id, page)| Some((*id, page.done.as_ref()?)));
        let Some(done) = done.collect::<Option<Vec<_>>>() else {
            return;
        };
        let Some(load) = self.load.take() else {
            return;
        };
        let verdict = done
            .iter()
            .try_for_each(|(_, (_, verdict))| verdict.clone());
        let epochs: HashMap<PageId, u32> =
            done.iter().map(|(id, (epoch, _))| (*id, *epoch)).collect();
        let (reply, image) = bounded(1);
        let order = ToCompositor::Screenshot(epochs, reply);
        if self.compositor.0.send(order).is_ok()
            && let Ok(image) = image.recv()
        {
            // The embedder may have given up.
            let _ = load.reply.send(Loaded { verdict, image });
        }
    }

    /// Opens a page, in a frame of another one or for itself.
    fn open(&mut self, address: Address, frame: Option<(PageId, Rect)>) {
        let id = PageId(self.next);
        self.next += 1;
        if let Some((_, rect)) = frame {
            let _ = self.compositor.0.send(ToCompositor::Frame(id, rect));
        }
        if let Err(error) = self.start(id, address, frame.map(|(within, _)| within))
            && let Some(load) = self.load.take()
        {
            let _ = load
                .reply
                .send(Loaded::failed(format!("a page does not start: {error}")));
        }
    }

    fn start(&mut self, id: PageId, address: Address, within: Option<PageId>) -> io::Result<()> {
        let (ours, theirs) = ipc::channel()?;
        let (constellation, from_page) = ipc::channel()?;
        ROUTER.route_ipc_receiver_to_crossbeam_sender(from_page, self.from_pages.clone());
        let start = Start {
            id,
            address,
            control: theirs,
            constellation,
            resources: self.resources.connect()?,
            storage: self.storage.connect()?,
            compositor: self.compositor.connect()?,
        };
        if self.in_processes {
            self.processes.push(content::start(start)?);
        } else {
            thread::Builder::new()
                .name("script".into())
                .spawn(move || script::run(start))?;
        }
        let page = Page {
            control: ours,
            within,
            done: None,
        };
        self.pages.insert(id, page);
        Ok(())
    }
}
