//! Where things are: `file:///path` and `http://host:port/path`.

use serde::{Deserialize, Serialize};

/// An absolute address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Address {
    /// `None` for files; else host and port.
    pub host: Option<String>,
    /// An absolute path, with what follows it.
    pub path: String,
}

impl Address {
    /// Reads an absolute address.
    pub fn parse(text: &str) -> Option<Address> {
        if let Some(path) = text.strip_prefix("file://") {
            let path = path.to_owned();
            return path
                .starts_with('/')
                .then_some(Address { host: None, path });
        }
        let rest = text.strip_prefix("http://")?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        Some(Address {
            host: Some(host.to_owned()),
            path: path.to_owned(),
        })
    }

    /// The address that `text` means in a page at this address.
    pub fn join(&self, text: &str) -> Address {
        if let Some(absolute) = Address::parse(text) {
            return absolute;
        }
        let mut parts: Vec<&str> = match text.starts_with('/') {
            true => Vec::new(),
            false => self.path.split('/').collect(),
        };
        parts.pop();
        for part in text.split('/') {
            match part {
                "." => {}
                ".." if parts.len() > 1 => {
                    parts.pop();
                }
                ".." => {}
                part => parts.push(part),
            }
        }
        let path = parts.join("/");
        Address {
            host: self.host.clone(),
            path: match path.starts_with('/') {
                true => path,
                false => format!("/{path}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_relative_is_joined() {
        let check = |base: &str, text: &str, expected: &str| {
            let joined = Address::parse(base).unwrap().join(text);
            assert_eq!(Some(joined), Address::parse(expected), "{base} {text}");
        };
        check("file:///a/b.html", "c.css", "file:///a/c.css");
        check("file:///a/b.html", "../c.css", "file:///c.css");
        check("file:///a/b.html", "../../c.css", "file:///c.css");
        check("http://h:1/a/b", "/c", "http://h:1/c");
        check("http://h:1", "c", "http://h:1/c");
        check("http://h:1/a", "file:///c", "file:///c");
    }
}
