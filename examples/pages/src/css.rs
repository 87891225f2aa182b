//! Style sheets: rules of one simple selector each (`tag`, `.class`, `#id`, `*`).
//!
//! | property | value |
//! |---|---|
//! | `width`, `height`, `margin`, `left`, `top` | pixels |
//! | `background` | `#rrggbb`, a name of a colour, or `next`: the next colour of the palette |
//! | `animation` | two colours: each is shown for a while, by the clock |
//! | `display` | `block`, `inline` (beside each other) or `none` |

use crate::html::Element;

/// A colour: red, green, blue.
pub type Colour = [u8; 3];

/// The colours that `next` takes, in this order.
pub const PALETTE: [Colour; 4] = [[200, 0, 0], [0, 160, 0], [0, 0, 220], [220, 180, 0]];

/// The background of a box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Background {
    /// The background that was there before.
    #[default]
    None,
    /// This colour.
    Plain(Colour),
    /// The next of the palette.
    Next,
    /// Two colours in turn.
    Animated(Colour, Colour),
}

/// How boxes follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Display {
    /// Below each other.
    #[default]
    Block,
    /// Beside each other.
    Inline,
    /// Not at all.
    None,
}

/// An element's style.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Pixels; what is in it decides, if it is not given.
    pub width: Option<i32>,
    /// Pixels; what is in it decides, if it is not given.
    pub height: Option<i32>,
    /// Pixels on all sides.
    pub margin: i32,
    /// A place in the page, which takes the box out of the order of the others.
    pub place: Option<(i32, i32)>,
    /// The background.
    pub background: Background,
    /// Its place among the others.
    pub display: Display,
}

/// Rules, the later ones stronger; ids are stronger than classes, and these than tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sheet {
    rules: Vec<(String, String)>,
}

impl Sheet {
    /// Adds rules; what is none is left out.
    pub fn add(&mut self, text: &str) {
        for rule in text.split('}') {
            if let Some((selectors, body)) = rule.split_once('{') {
                for selector in selectors.split(',') {
                    self.rules
                        .push((selector.trim().to_owned(), body.to_owned()));
                }
            }
        }
    }

    /// The style of an element, with what its attribute `style` says.
    pub fn style(&self, element: &Element) -> Style {
        let mut found: Vec<(u8, &str)> = self
            .rules
            .iter()
            .filter_map(|(selector, body)| Some((matches(selector, element)?, &**body)))
            .collect();
        found.sort_by_key(|(strength, _)| *strength);
        let own = element.attribute("style").unwrap_or_default();
        let mut style = Style::default();
        for body in found.into_iter().map(|(_, body)| body).chain([own]) {
            for line in body.split(';') {
                if let Some((name, value)) = line.split_once(':') {
                    style.set(name.trim(), value.trim());
                }
            }
        }
        style
    }
}

/// How strong a selector is, if it means the element.
fn matches(selector: &str, element: &Element) -> Option<u8> {
    let (strength, is_meant) = if let Some(id) = selector.strip_prefix('#') {
        (3, element.attribute("id") == Some(id))
    } else if let Some(class) = selector.strip_prefix('.') {
        let classes = element.attribute("class").unwrap_or_default();
        (2, classes.split_whitespace().any(|one| one == class))
    } else {
        (
            u8::from(selector != "*"),
            selector == "*" || selector == element.tag,
        )
    };
    is_meant.then_some(strength)
}

impl Style {
    fn set(&mut self, name: &str, value: &str) {
        let pixels = || {
            value
                .trim_end_matches("px")
                .parse::<i32>()
                .ok()
                .map(|n| n.clamp(0, 4096))
        };
        match name {
            "width" => self.width = pixels(),
            "height" => self.height = pixels(),
            "margin" => self.margin = pixels().unwrap_or(0),
            "left" => self.place = Some((pixels().unwrap_or(0), self.place.map_or(0, |at| at.1))),
            "top" => self.place = Some((self.place.map_or(0, |at| at.0), pixels().unwrap_or(0))),
            "background" if value == "next" => self.background = Background::Next,
            "background" => {
                self.background = colour(value).map_or(Background::None, Background::Plain);
            }
            "animation" => {
                let mut colours = value.split_whitespace().filter_map(colour);
                if let (Some(first), Some(second)) = (colours.next(), colours.next()) {
                    self.background = Background::Animated(first, second);
                }
            }
            "display" => {
                self.display = match value {
                    "inline" => Display::Inline,
                    "none" => Display::None,
                    _ => Display::Block,
                }
            }
            _ => {}
        }
    }
}

fn colour(text: &str) -> Option<Colour> {
    Some(match text {
        "black" => [0, 0, 0],
        "white" => [255, 255, 255],
        "red" => [255, 0, 0],
        "green" => [0, 128, 0],
        "blue" => [0, 0, 255],
        "yellow" => [255, 255, 0],
        "gray" => [128, 128, 128],
        _ => {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
            let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
            [red, green, blue]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html;

    #[test]
    fn the_stronger_rule_and_then_the_later_one_counts() {
        let mut sheet = Sheet::default();
        sheet.add("#a { width: 1px } .b { width: 2px; height: 2px } p, i { height: 3; margin: 3 }");
        sheet.add("* { margin: 4px } p { margin: 5px } nonsense");
        let page = html::parse("<p id=a class=\"c b\" style=\"background: #010203\">");
        let style = sheet.style(&page.children[0]);
        assert_eq!(
            (style.width, style.height, style.margin),
            (Some(1), Some(2), 5)
        );
        assert_eq!(style.background, Background::Plain([1, 2, 3]));
    }
}
