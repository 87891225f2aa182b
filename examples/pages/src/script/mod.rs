//! A page: its tree and its script, and what comes to it from other threads.

pub mod steps;

mod threads;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, never, select, unbounded};
use ipc_channel::ipc::{self, IpcSender};
use ipc_channel::router::ROUTER;

use self::steps::Step;
use self::threads::Shared;
use crate::address::Address;
use crate::css::Sheet;
use crate::html::{self, Element};
use crate::image::{Image, Rect};
use crate::layout::{self, Reflow};
use crate::messages::{Fetch, Fetched, FromPage, Keep, PageId, Start, ToPage};
use crate::storage;

/// The purpose of a fetch.
enum Purpose {
    Image { source: String, is_waited_for: bool },
    Post(String),
    Words,
}

/// A channel was closed, so nobody needs the page.
struct Gone;

struct Page {
    id: PageId,
    address: Address,
    constellation: IpcSender<FromPage>,
    resources: IpcSender<Fetch>,
    storage: IpcSender<Keep>,
    layout: Sender<Reflow>,
    fetched: Receiver<Fetched>,
    fetches: IpcSender<Fetched>,
    control: Receiver<ToPage>,
    posts: Sender<String>,
    posted: Receiver<String>,
    timers: Sender<String>,
    timed: Receiver<String>,
    shared: Shared,
    root: Element,
    sheet: Sheet,
    images: HashMap<String, Image>,
    purposes: HashMap<u32, Purpose>,
    next: u32,
    epoch: u32,
    reactions: Vec<(String, String, String)>,
    /// All that was posted.
    log: Vec<String>,
}

/// Lives as a page does.
pub(crate) fn run(start: Start) {
    let Ok(mut page) = Page::new(start) else {
        return;
    };
    let Ok(verdict) = page.load() else {
        return;
    };
    let done = FromPage::Done {
        page: page.id,
        verdict,
        epoch: page.epoch,
    };
    if page.constellation.send(done).is_ok() {
        // What still comes is not waited for, and changes what there is to be seen.
        while page.event(None).is_ok() {}
    }
}

impl Page {
    fn new(start: Start) -> std::io::Result<Page> {
        let (fetches, fetched) = ipc::channel()?;
        let (posts, posted) = unbounded();
        let (timers, timed) = unbounded();
        Ok(Page {
            id: start.id,
            address: start.address,
            constellation: start.constellation,
            resources: start.resources,
            storage: start.storage,
            layout: layout::start(start.id, start.compositor)?,
            fetched: ROUTER.route_ipc_receiver_to_new_crossbeam_receiver(fetched),
            fetches,
            control: ROUTER.route_ipc_receiver_to_new_crossbeam_receiver(start.control),
            posts,
            posted,
            timers,
            timed,
            shared: Shared::default(),
            root: Element::default(),
            sheet: Sheet::default(),
            images: HashMap::new(),
            purposes: HashMap::new(),
            next: 0,
            epoch: 0,
            reactions: Vec::new(),
            log: Vec::new(),
        })
    }

    /// Fetches it, shows it, and runs its script.
    fn load(&mut self) -> Result<Result<(), String>, Gone> {
        let Some(body) = self.fetch_now(self.address.clone())? else {
            self.reflow();
            return Ok(Err(format!("there is no page {}", self.address.path)));
        };
        self.root = html::parse(&String::from_utf8_lossy(&body));
        let (mut scripts, mut sheets, mut images, mut frames) = Default::default();
        collect(
            &self.root,
            &mut scripts,
            &mut sheets,
            &mut images,
            &mut frames,
        );
        for sheet in sheets {
            let text = match sheet {
                Ok(text) => Some(text.into_bytes()),
                Err(address) => self.fetch_now(self.address.join(&address))?,
            };
            let text = text.unwrap_or_default();
            self.sheet.add(&String::from_utf8_lossy(&text));
        }
        for (address, rect) in frames {
            let frame = FromPage::Frame {
                within: self.id,
                address: self.address.join(&address),
                rect,
            };
            self.constellation.send(frame).map_err(|_| Gone)?;
        }
        for (source, is_waited_for) in images {
            let address = self.address.join(&source);
            let purpose = Purpose::Image {
                source,
                is_waited_for,
            };
            self.fetch(address, purpose)?;
        }
        self.reflow();
        while self.purposes.values().any(|purpose| {
            matches!(
                purpose,
                Purpose::Image {
                    is_waited_for: true,
                    ..
                }
            )
        }) {
            self.event(None)?;
        }
        match steps::parse(&scripts) {
            Ok(steps) => self.perform(steps),
            Err(error) => Ok(Err(error)),
        }
    }

    fn reflow(&mut self) {
        self.epoch += 1;
        let reflow = Reflow {
            root: self.root.clone(),
            sheet: self.sheet.clone(),
            images: self.images.clone(),
            epoch: self.epoch,
        };
        // A page without layout is not painted, as can be seen.
        let _ = self.layout.send(reflow);
    }

    fn fetch(&mut self, address: Address, purpose: Purpose) -> Result<(), Gone> {
        let number = self.next;
        self.next += 1;
        self.purposes.insert(number, purpose);
        let fetch = Fetch {
            address,
            number,
            reply: self.fetches.clone(),
        };
        self.resources.send(fetch).map_err(|_| Gone)
    }

    /// Fetches what nothing can go on without, before anything else is fetched.
    fn fetch_now(&mut self, address: Address) -> Result<Option<Vec<u8>>, Gone> {
        self.fetch(address, Purpose::Words)?;
        let fetched = self.fetched.recv().map_err(|_| Gone)?;
        self.purposes.remove(&fetched.number);
        Ok(fetched.body)
    }

    /// Waits for whatever comes next, and does what is to be done; whether something came
    /// before the deadline.
    fn event(&mut self, deadline: Option<Instant>) -> Result<bool, Gone> {
        let late = deadline.map_or_else(never, crossbeam_channel::at);
        select! {
            recv(self.fetched) -> fetched => self.arrived(fetched.map_err(|_| Gone)?),
            recv(self.posted) -> name => self.post(name.map_err(|_| Gone)?),
            recv(self.timed) -> name => self.post(name.map_err(|_| Gone)?),
            recv(self.control) -> order => match order {
                Ok(ToPage::Message(text)) => self.post(text),
                Ok(ToPage::Exit) | Err(_) => return Err(Gone),
            },
            recv(late) -> _ => return Ok(false),
        }
        Ok(true)
    }

    fn arrived(&mut self, fetched: Fetched) {
        match self.purposes.remove(&fetched.number) {
            Some(Purpose::Image { source, .. }) => {
                if let Some(image) = fetched.body.as_deref().and_then(Image::decode) {
                    self.images.insert(source, image);
                    self.reflow();
                }
            }
            Some(Purpose::Post(name)) => self.post(match (fetched.body, fetched.is_cached) {
                (None, _) => format!("{name}-missing"),
                (Some(_), true) => format!("{name}-cached"),
                (Some(_), false) => name,
            }),
            Some(Purpose::Words) => {
                let body = fetched.body.unwrap_or_default();
                for word in String::from_utf8_lossy(&body).split_whitespace() {
                    self.post(word.to_owned());
                }
            }
            None => {}
        }
    }

    fn post(&mut self, name: String) {
        let mut is_changed = false;
        for (_, id, colour) in self.reactions.iter().filter(|one| one.0 == name) {
            if let Some(element) = self.root.find_mut(id) {
                let style = format!("background: {colour}");
                element.attributes.retain(|(key, _)| key != "style");
                element.attributes.push(("style".to_owned(), style));
                is_changed = true;
            }
        }
        self.log.push(name);
        if is_changed {
            self.reflow();
        }
    }

    /// Performs a script; what it found wrong.
    fn perform(&mut self, steps: Vec<Step>) -> Result<Result<(), String>, Gone> {
        for step in steps {
            if let Err(error) = self.step(step)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn step(&mut self, step: Step) -> Result<Result<(), String>, Gone> {
        let started = match step {
            Step::Worker(name, count) => threads::worker(self.posts.clone(), name, count),
            Step::Counter(name, key, count) => {
                threads::counter(self.posts.clone(), name, self.storage.clone(), key, count)
            }
            Step::Adder(name, count) => {
                threads::adder(self.posts.clone(), name, self.shared.clone(), count)
            }
            Step::Holder(name, count) => {
                threads::holder(self.posts.clone(), name, self.shared.clone(), count)
            }
            Step::Timer(name, time) => threads::timer(self.timers.clone(), name, time),
            Step::Save(name) => save(&saved_in(&self.address), &name),
            Step::Fetch(name, address) => {
                self.fetch(self.address.join(&address), Purpose::Post(name))?;
                Ok(())
            }
            Step::Read(address) => {
                self.fetch(self.address.join(&address), Purpose::Words)?;
                Ok(())
            }
            Step::Saved => {
                let path = saved_in(&self.address).to_string_lossy().into_owned();
                self.fetch(Address { host: None, path }, Purpose::Words)?;
                Ok(())
            }
            Step::Names(names) => {
                let table: HashMap<String, ()> = names.into_iter().map(|name| (name, ())).collect();
                for name in table.into_keys() {
                    self.post(name);
                }
                Ok(())
            }
            Step::Send(text) => {
                let message = FromPage::Message {
                    from: self.id,
                    text,
                };
                self.constellation.send(message).map_err(|_| Gone)?;
                Ok(())
            }
            Step::On(name, id, colour) => {
                self.reactions.push((name, id, colour));
                Ok(())
            }
            Step::Wait(count, time) => {
                let deadline = time.map(|time| Instant::now() + Duration::from_millis(time));
                while self.log.len() < count && self.event(deadline)? {}
                Ok(())
            }
            Step::Expect(names) => return Ok(same(&names, &self.log)),
            Step::ExpectAny(mut names) => {
                let mut log = self.log.clone();
                log.sort();
                names.sort();
                return Ok(same(&names, &log));
            }
            Step::ExpectStored(key, number) => {
                let found = storage::get(&self.storage, &key).ok_or(Gone)?;
                return Ok(same(&number, &found));
            }
            Step::ExpectShared(number) => return Ok(same(&number, &*self.shared.lock())),
        };
        Ok(started.map_err(|error| format!("a step fails: {error}")))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(expected: &T, found: &T) -> Result<(), String> {
    match expected == found {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, found {found:?}")),
    }
}

/// Where a page of this process saves files.
pub fn saved_in(page: &Address) -> PathBuf {
    let (_, name) = page.path.rsplit_once('/').unwrap_or_default();
    std::env::temp_dir().join(format!("pages-{}-{name}", std::process::id()))
}

fn save(dir: &Path, word: &str) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let name = now.unwrap_or_default().as_nanos().to_string();
    fs::write(dir.join(name), word)
}

/// The work for a page, in its order: steps, sheets (or their addresses), images
/// (and whether they are waited for), frames.
fn collect(
    root: &Element,
    scripts: &mut String,
    sheets: &mut Vec<Result<String, String>>,
    images: &mut Vec<(String, bool)>,
    frames: &mut Vec<(String, Rect)>,
) {
    root.walk(&mut |element| {
        let attribute = |name| element.attribute(name).unwrap_or_default();
        let number = |name| attribute(name).parse().unwrap_or(0);
        match &*element.tag {
            "script" => scripts.push_str(&element.text),
            "style" => sheets.push(Ok(element.text.clone())),
            "link" if attribute("rel") == "stylesheet" => {
                sheets.push(Err(attribute("href").to_owned()));
            }
            "img" => images.push((attribute("src").to_owned(), attribute("loading") != "lazy")),
            "iframe" => {
                let rect = Rect {
                    x: number("x"),
                    y: number("y"),
                    width: number("width"),
                    height: number("height"),
                };
                frames.push((attribute("src").to_owned(), rect));
            }
            _ => {}
        }
    });
}
