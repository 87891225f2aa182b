//! Layout: where boxes are, and what is in them; styles are found out in parallel.

use std::collections::HashMap;
use std::io;
use std::thread;
use std::time::SystemTime;

use crossbeam_channel::{Sender, unbounded};
use ipc_channel::ipc::IpcSender;
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::css::{Background, Colour, Display, PALETTE, Sheet, Style};
use crate::html::Element;
use crate::image::{Image, Rect};
use crate::messages::{Fill, PageId, PaintedBox, Painting};

/// A page to be painted.
#[derive(Debug)]
pub(crate) struct Reflow {
    pub(crate) root: Element,
    pub(crate) sheet: Sheet,
    /// By their addresses, as they are in the page.
    pub(crate) images: HashMap<String, Image>,
    pub(crate) epoch: u32,
}

/// Starts the thread that paints a page.
pub(crate) fn start(page: PageId, compositor: IpcSender<Painting>) -> io::Result<Sender<Reflow>> {
    let (orders, ordered) = unbounded::<Reflow>();
    let run = move || {
        for reflow in ordered {
            let epoch = reflow.epoch;
            let boxes = paint(&reflow);
            // At the end of everything it may be gone.
            let _ = compositor.send(Painting { page, epoch, boxes });
        }
    };
    thread::Builder::new().name("layout".into()).spawn(run)?;
    Ok(orders)
}

/// An element with all that is known of it.
struct Styled<'a> {
    element: &'a Element,
    style: Style,
    colour: Option<Colour>,
    children: Vec<Styled<'a>>,
}

fn paint(reflow: &Reflow) -> Vec<PaintedBox> {
    let taken = Mutex::new(0);
    let styled = style(&reflow.root, &reflow.sheet, &taken);
    let mut boxes = Vec::new();
    place(&styled, &reflow.images, (0, 0), &mut boxes);
    boxes
}

fn style<'a>(element: &'a Element, sheet: &Sheet, taken: &Mutex<usize>) -> Styled<'a> {
    let style_of = sheet.style(element);
    let colour = match style_of.background {
        Background::None => None,
        Background::Plain(colour) => Some(colour),
        Background::Next => {
            let mut taken = taken.lock();
            *taken += 1;
            Some(PALETTE[(*taken - 1) % PALETTE.len()])
        }
        Background::Animated(first, second) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            Some(match now.unwrap_or_default().as_millis() / 20 % 2 {
                0 => first,
                _ => second,
            })
        }
    };
    let children = element.children.par_iter();
    Styled {
        element,
        style: style_of,
        colour,
        children: children.map(|child| style(child, sheet, taken)).collect(),
    }
}

/// Puts an element at a place, with all in it: its size, with margins.
fn place(
    styled: &Styled<'_>,
    images: &HashMap<String, Image>,
    at: (i32, i32),
    boxes: &mut Vec<PaintedBox>,
) -> (i32, i32) {
    let Styled { element, style, .. } = styled;
    if style.display == Display::None || ["head", "script", "style"].contains(&&*element.tag) {
        return (0, 0);
    }
    let (x, y) = style
        .place
        .unwrap_or((at.0 + style.margin, at.1 + style.margin));
    let image = (element.tag == "img")
        .then(|| images.get(element.attribute("src")?))
        .flatten();
    let own = boxes.len();
    let (mut width, mut height) =
        image.map_or((0, 0), |image| (image.width as i32, image.height as i32));
    // Where the line of inline boxes goes on, and how high it is.
    let (mut line_x, mut line_height) = (0, 0);
    for child in &styled.children {
        if child.style.display == Display::Block {
            height += line_height;
            (line_x, line_height) = (0, 0);
        }
        let size = place(child, images, (x + line_x, y + height), boxes);
        width = width.max(line_x + size.0);
        match child.style.display {
            Display::Block => height += size.1,
            Display::Inline => {
                line_x += size.0;
                line_height = line_height.max(size.1);
            }
            Display::None => {}
        }
    }
    height += line_height;
    let rect = Rect {
        x,
        y,
        width: style.width.unwrap_or(width),
        height: style.height.unwrap_or(height),
    };
    let fill = match (image, styled.colour) {
        (Some(image), _) => Some(Fill::Picture(image.clone())),
        (None, colour) => colour.map(Fill::Plain),
    };
    if let Some(fill) = fill {
        boxes.insert(own, PaintedBox { rect, fill });
    }
    match style.place {
        Some(_) => (0, 0),
        None => (
            rect.width + 2 * style.margin,
            rect.height + 2 * style.margin,
        ),
    }
}
