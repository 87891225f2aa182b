//! Messages among threads and processes.

use ipc_channel::ipc::{IpcReceiver, IpcSender};
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::css::Colour;
use crate::image::{Image, Rect};

/// A page, wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct PageId(pub(crate) u32);

/// All that a page needs to live.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) id: PageId,
    pub(crate) address: Address,
    pub(crate) control: IpcReceiver<ToPage>,
    pub(crate) constellation: IpcSender<FromPage>,
    pub(crate) resources: IpcSender<Fetch>,
    pub(crate) storage: IpcSender<Keep>,
    pub(crate) compositor: IpcSender<Painting>,
}

/// To a page, from the constellation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToPage {
    /// Another page has sent this.
    Message(String),
    /// Nobody needs it any more.
    Exit,
}

/// To the constellation, from a page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromPage {
    /// A frame in it.
    Frame {
        within: PageId,
        address: Address,
        rect: Rect,
    },
    /// For the page around it, or for those in it if there is none.
    Message { from: PageId, text: String },
    /// Its script has ended, and this is what it painted last.
    Done {
        page: PageId,
        verdict: Result<(), String>,
        epoch: u32,
    },
}

/// To the resources: something to be fetched.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) address: Address,
    /// Its number among those of one page.
    pub(crate) number: u32,
    pub(crate) reply: IpcSender<Fetched>,
}

/// The result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    pub(crate) number: u32,
    /// Nothing, if there is nothing there.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) is_cached: bool,
}

/// To the storage.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Keep {
    Get(String, IpcSender<i64>),
    Put(String, i64),
}

/// To the compositor: all that a page shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Painting {
    pub(crate) page: PageId,
    /// Counts the paintings of a page.
    pub(crate) epoch: u32,
    /// From back to front.
    pub(crate) boxes: Vec<PaintedBox>,
}

/// A rectangle with something in it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PaintedBox {
    pub(crate) rect: Rect,
    pub(crate) fill: Fill,
}

/// The content of a rectangle.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Fill {
    Plain(Colour),
    Picture(Image),
}
