//! The files that commands run on: the same on each machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Directories of the tree.
const DIRECTORIES: u64 = 40;
/// Files in each.
const FILES: u64 = 50;
/// Lines of each file.
const LINES: u64 = 60;
/// Lines of the one large file.
const MANY: u64 = 200_000;

/// Lines of a shell that make further files of them, for commands that read its results.
pub(super) const PREPARE: &str = "
tar -cf tree.tar tree
gzip -k text
sort text > sorted
tail -n +1000 sorted > other
seq 1 20000 > numbers
";

/// Makes the files: a tree of small ones, and a large one of text.
///
/// # Errors
///
/// When one cannot be written.
pub(super) fn lay_out(dir: &Path) -> anyhow::Result<()> {
    let mut words = Words(1);
    for directory in 0..DIRECTORIES {
        let directory = dir.join(format!("tree/part-{directory:02}"));
        fs::create_dir_all(&directory).context("making the tree")?;
        for file in 0..FILES {
            fs::write(
                directory.join(format!("file-{file:02}.txt")),
                words.lines(LINES),
            )?;
        }
    }
    fs::write(dir.join("text"), words.lines(MANY))?;
    let config = "[user]\nname = a\nemail = a@b.invalid\n[gc]\nauto = 0\n";
    fs::write(dir.join("gitconfig"), config)?;
    Ok(())
}

/// Words that look random and are always the same.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn lines(&mut self, count: u64) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let (name, number) = (self.next() % 5000, self.next() % 100_000);
            let _ = writeln!(
                text,
                "word{name} {number} the quick brown fox {}",
                self.next() % 97
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_always_the_same() {
        let text = Words(1).lines(3);
        assert_eq!(text, Words(1).lines(3));
        let mut lines = text.lines();
        assert_ne!(lines.next(), lines.next());
    }
}
