//! The compositor: a thread that puts what pages show into one image.

use std::collections::HashMap;
use std::io;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};
use ipc_channel::ipc::{self, IpcSender};
use ipc_channel::router::ROUTER;

use crate::image::{Image, Rect};
use crate::messages::{Fill, PageId, Painting};

/// To the compositor.
#[derive(Debug)]
pub(crate) enum ToCompositor {
    Painting(Painting),
    /// Where a page is shown.
    Frame(PageId, Rect),
    /// An image of these pages, as soon as they have painted that much.
    Screenshot(HashMap<PageId, u32>, Sender<Image>),
}

/// Where to paint.
#[derive(Debug, Clone)]
pub(crate) struct Compositor(pub(crate) Sender<ToCompositor>);

impl Compositor {
    /// Starts the thread.
    pub(crate) fn start(width: usize, height: usize) -> io::Result<Compositor> {
        let (orders, ordered) = unbounded();
        let run = move || Screen::new(width, height).run(ordered);
        thread::Builder::new()
            .name("compositor".into())
            .spawn(run)?;
        Ok(Compositor(orders))
    }

    /// A way to it, for one page.
    pub(crate) fn connect(&self) -> io::Result<IpcSender<Painting>> {
        let (ours, theirs) = ipc::channel::<Painting>()?;
        let orders = self.0.clone();
        ROUTER.add_typed_route(
            theirs,
            Box::new(move |painting| {
                if let Ok(painting) = painting {
                    // At the end of everything it may be gone.
                    let _ = orders.send(ToCompositor::Painting(painting));
                }
            }),
        );
        Ok(ours)
    }
}

struct Screen {
    width: usize,
    height: usize,
    frames: HashMap<PageId, Rect>,
    /// From back to front: who painted first is behind.
    paintings: Vec<Painting>,
    wanted: Option<(HashMap<PageId, u32>, Sender<Image>)>,
}

impl Screen {
    fn new(width: usize, height: usize) -> Screen {
        Screen {
            width,
            height,
            frames: HashMap::new(),
            paintings: Vec::new(),
            wanted: None,
        }
    }

    fn run(mut self, orders: Receiver<ToCompositor>) {
        for order in orders {
            match order {
                ToCompositor::Painting(new) => {
                    match self.paintings.iter_mut().find(|old| old.page == new.page) {
                        Some(old) if old.epoch < new.epoch => *old = new,
                        Some(_) => {}
                        None => self.paintings.push(new),
                    }
                }
                ToCompositor::Frame(page, rect) => {
                    self.frames.insert(page, rect);
                }
                ToCompositor::Screenshot(pages, reply) => self.wanted = Some((pages, reply)),
            }
            if let Some((pages, reply)) = self.wanted.take_if(|(pages, _)| {
                let epoch = |page| self.paintings.iter().find(|one| one.page == page);
                let is_there = |(page, least)| epoch(page).is_some_and(|one| one.epoch >= least);
                pages
                    .iter()
                    .map(|(page, least)| (*page, *least))
                    .all(is_there)
            }) {
                // The embedder may have given up.
                let _ = reply.send(self.paint(&pages));
            }
        }
    }

    fn paint(&self, pages: &HashMap<PageId, u32>) -> Image {
        let mut image = Image::new(self.width, self.height);
        let seen = self
            .paintings
            .iter()
            .filter(|one| pages.contains_key(&one.page));
        for painting in seen {
            let whole = Rect {
                width: self.width as i32,
                height: self.height as i32,
                ..Rect::default()
            };
            let frame = self.frames.get(&painting.page).copied().unwrap_or(whole);
            for painted in &painting.boxes {
                let rect = Rect {
                    x: painted.rect.x + frame.x,
                    y: painted.rect.y + frame.y,
                    ..painted.rect
                };
                image.fill(rect, frame, |x, y| match &painted.fill {
                    Fill::Plain(colour) => Some(*colour),
                    Fill::Picture(picture) if x < picture.width => {
                        picture.pixels.get(y * picture.width + x).copied()
                    }
                    Fill::Picture(_) => None,
                });
            }
        }
        image
    }
}
