//! Keeps the beginning and the end of a test's output.

use std::collections::VecDeque;

/// So much is kept of each of the two, in bytes, if nothing else is asked for.
pub(super) const HALF: usize = 16 * 1024;

/// Output, of which the middle is dropped when it gets long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The most that is kept of each end, in bytes.
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Default for Captured {
    fn default() -> Self {
        Captured::keeping(HALF)
    }
}

impl Captured {
    /// Nothing so far. Of each end so much is kept, in bytes.
    pub const fn keeping(half: usize) -> Self {
        Captured {
            half,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Takes more output in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How many bytes were written.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The text that was kept, with a line in place of the rest.
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let left_out = self.total - (self.head.len() + tail.len()) as u64;
        if left_out == 0 {
            return String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned();
        }
        format!(
            "{}\n[... {left_out} bytes left out ...]\n{}",
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_as_it_is() {
        let mut captured = Captured::default();
        captured.push(b"one ");
        captured.push(b"two");
        assert_eq!(captured.text(), "one two");
        let mut captured = Captured::default();
        captured.push(&[b'x'; HALF + 3]);
        assert_eq!(captured.text().len(), HALF + 3);
    }

    #[test]
    fn of_long_output_both_ends_are_kept() {
        let mut captured = Captured::default();
        captured.push(b"begin");
        for _ in 0..100 {
            captured.push(&[b'.'; 3000]);
        }
        captured.push(b"end");
        let text = captured.text();
        assert!(text.starts_with("begin") && text.ends_with("end"));
        assert!(text.contains(&format!("[... {} bytes left out ...]", 300_008 - 2 * HALF)));
        assert!(text.len() < 2 * HALF + 100);
        assert_eq!(captured.total(), 300_008);
    }
}
