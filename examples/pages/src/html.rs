//! HTML, as far as the tests need it: elements, attributes, text and comments.
//!
//! Whatever is written is a page: a tag that is not closed ends with its parent, and an end
//! without a beginning is nothing. `style` and `script` contain text only.

use serde::{Deserialize, Serialize};

/// An element.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Its tag, in small letters.
    pub tag: String,
    /// Its attributes, in their order.
    pub attributes: Vec<(String, String)>,
    /// The text that is directly in it.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Element>,
}

impl Element {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    /// Calls with each element, those that contain others first.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Element)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }

    /// The element with this id.
    pub fn find_mut(&mut self, id: &str) -> Option<&mut Element> {
        if self.attribute("id") == Some(id) {
            return Some(self);
        }
        self.children
            .iter_mut()
            .find_map(|child| child.find_mut(id))
    }
}

const VOID: [&str; 5] = ["br", "hr", "img", "link", "meta"];
const RAW: [&str; 2] = ["script", "style"];

/// Reads a page; its root contains what is at the top.
pub fn parse(text: &str) -> Element {
    let mut open = vec![Element::default()];
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        add_text(&mut open, &rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some((tag, after)) = rest[1..].split_once('>') else {
            break;
        };
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let name = name.trim().to_lowercase();
            if open.iter().skip(1).any(|element| element.tag == name) {
                while close(&mut open).is_some_and(|closed| closed != name) {}
            }
        } else if !tag.starts_with('!') {
            let element = start(tag.trim_end_matches('/'));
            let name = element.tag.clone();
            open.push(element);
            if RAW.contains(&&*name) {
                let end = rest.find(&format!("</{name}")).unwrap_or(rest.len());
                add_text(&mut open, &rest[..end]);
                rest = &rest[end..];
            } else if VOID.contains(&&*name) {
                close(&mut open);
            }
        }
    }
    // A tag that is cut off is none.
    if !rest.starts_with('<') {
        add_text(&mut open, rest);
    }
    while close(&mut open).is_some() {}
    open.pop().unwrap_or_default()
}

fn add_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

/// Puts the innermost element into the one around it; its tag.
fn close(open: &mut Vec<Element>) -> Option<String> {
    if open.len() < 2 {
        return None;
    }
    let element = open.pop()?;
    let tag = element.tag.clone();
    open.last_mut()?.children.push(element);
    Some(tag)
}

fn start(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let end = rest
            .find(|letter: char| letter == '=' || letter.is_whitespace())
            .unwrap_or(rest.len());
        let key = rest[..end].to_lowercase();
        rest = &rest[end..];
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            (value, rest) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
            };
        }
        attributes.push((key, value.to_owned()));
    }
    Element {
        tag: name.to_lowercase(),
        attributes,
        ..Element::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_in_each_other() {
        let page = parse("<!doctype html><DIV id=a class=\"b c\"><p>x<br>y<!-- <i> --></div><p>z");
        let [div, p] = &page.children[..] else {
            panic!("{page:?}");
        };
        assert_eq!((&*div.tag, div.attribute("class")), ("div", Some("b c")));
        assert_eq!(div.children[0].text, "xy");
        assert_eq!(div.children[0].children[0].tag, "br");
        assert_eq!(p.text, "z");
    }

    #[test]
    fn whatever_is_written_is_a_page() {
        for text in [
            "",
            "<",
            "</p>",
            "<p",
            "<p a=",
            "<p a=\"b",
            "<!--",
            "<style>a</p>",
            "</ >",
        ] {
            parse(text);
        }
        assert_eq!(parse("<style>a<b></style>").children[0].text, "a<b>");
    }
}
