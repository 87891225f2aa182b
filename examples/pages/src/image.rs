//! Images: pixels in rows, and files in the format PPM (P3, P6).

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::css::Colour;

/// A rectangle, in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rect {
    /// From the left.
    pub x: i32,
    /// From the top.
    pub y: i32,
    /// To the right.
    pub width: i32,
    /// Downwards.
    pub height: i32,
}

impl Rect {
    /// The part that both cover.
    pub fn intersection(self, other: Rect) -> Rect {
        let (x, y) = (self.x.max(other.x), self.y.max(other.y));
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        Rect {
            x,
            y,
            width: (right - x).max(0),
            height: (bottom - y).max(0),
        }
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Row by row.
    pub pixels: Vec<Colour>,
}

/// More pixels than that no image has.
const LIMIT: usize = 1 << 22;

impl Image {
    /// A white one.
    pub fn new(width: usize, height: usize) -> Image {
        Image {
            width,
            height,
            pixels: vec![[255; 3]; width * height],
        }
    }

    /// Gives the pixels of `rect` that are in the image the colour that `of` has for their
    /// place in `rect`.
    pub fn fill(&mut self, rect: Rect, clip: Rect, of: impl Fn(usize, usize) -> Option<Colour>) {
        let own = Rect {
            width: self.width as i32,
            height: self.height as i32,
            ..Rect::default()
        };
        let seen = rect.intersection(clip).intersection(own);
        for y in seen.y..seen.y + seen.height {
            for x in seen.x..seen.x + seen.width {
                if let Some(colour) = of((x - rect.x) as usize, (y - rect.y) as usize) {
                    self.pixels[y as usize * self.width + x as usize] = colour;
                }
            }
        }
    }

    /// Reads PPM.
    pub fn decode(bytes: &[u8]) -> Option<Image> {
        let mut at = 0;
        let mut word = || {
            while bytes.get(at)?.is_ascii_whitespace() {
                at += 1;
            }
            let rest = &bytes[at..];
            let end = rest.iter().position(u8::is_ascii_whitespace);
            let word = &rest[..end.unwrap_or(rest.len())];
            at += word.len() + 1;
            std::str::from_utf8(word).ok()
        };
        let kind = word()?;
        let mut number = || word()?.parse::<usize>().ok();
        let (width, height, _) = (number()?, number()?, number()?);
        let size = width.checked_mul(height).filter(|size| *size <= LIMIT)?;
        let pixels: Vec<Colour> = if kind == "P3" {
            let mut value = || number().and_then(|value| u8::try_from(value).ok());
            (0..size)
                .map(|_| Some([value()?, value()?, value()?]))
                .collect::<Option<_>>()?
        } else {
            let body = bytes.get(at..).filter(|_| kind == "P6")?;
            let pixels = body.chunks_exact(3).take(size);
            pixels.map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
        };
        (pixels.len() == size).then_some(Image {
            width,
            height,
            pixels,
        })
    }

    /// Writes PPM.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend(self.pixels.iter().flatten());
        std::fs::write(path, bytes)
    }

    /// How many pixels differ; `None` if the sizes do.
    pub fn difference(&self, other: &Image) -> Option<usize> {
        if (self.width, self.height) != (other.width, other.height) {
            return None;
        }
        let pairs = self.pixels.iter().zip(&other.pixels);
        Some(pairs.filter(|(one, two)| one != two).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let image = Image::decode(b"P3 2 1 255 1 2 3 4 5 6\n").unwrap();
        assert_eq!(image.pixels, [[1, 2, 3], [4, 5, 6]]);
        assert_eq!(
            Image::decode(b"P6\n2 1\n255\n\x01\x02\x03\x04\x05\x06"),
            Some(image)
        );
    }

    #[test]
    fn what_is_no_image_is_none() {
        for bytes in [
            &b""[..],
            b"P6",
            b"P3 1 1 255 1",
            b"P6 9999999 9999999 255 ",
            b"P5 1 1 1 ",
        ] {
            assert_eq!(Image::decode(bytes), None);
        }
    }
}
