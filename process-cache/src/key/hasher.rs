//! Hashes the inputs of a key.

use super::{CONTEXT, MOVED_CONTEXT};
use crate::model::fact::Digest;
use crate::policy::base_dirs::BaseDirs;

/// Hashes the inputs of a key, and of the same key with names of base directories.
pub(super) struct Hasher<'d> {
    pub(super) digest: blake3::Hasher,
    /// The same with the names of base directories.
    pub(super) moved: Option<(blake3::Hasher, &'d BaseDirs)>,
    /// The inputs in words, separated by spaces, if a transcript is kept.
    pub(super) transcript: Option<Vec<u8>>,
}

impl<'d> Hasher<'d> {
    pub(super) fn new(base_dirs: Option<&'d BaseDirs>) -> Self {
        let moved = base_dirs.map(|base_dirs| {
            let mut hasher = blake3::Hasher::new_derive_key(MOVED_CONTEXT);
            base_dirs
                .names()
                .for_each(|name| add(&mut hasher, name.as_bytes()));
            (hasher, base_dirs)
        });
        Self {
            digest: blake3::Hasher::new_derive_key(CONTEXT),
            moved,
            transcript: None,
        }
    }

    /// Creates a hasher for data outside the key.
    pub(super) fn separate(context: &str) -> Self {
        Self {
            digest: blake3::Hasher::new_derive_key(context),
            moved: None,
            transcript: None,
        }
    }

    /// Returns the digest of all that was hashed.
    pub(super) fn end(&self) -> Digest {
        Digest(*self.digest.finalize().as_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.mapped(bytes, |_| None);
    }

    /// Hashes a text that may contain paths.
    pub(super) fn text(&mut self, text: &[u8]) {
        self.mapped(text, |base_dirs| base_dirs.text(text));
    }

    /// Hashes texts; `hashed` are the same texts with their lengths.
    pub(super) fn texts(&mut self, texts: &[Vec<u8>], hashed: &[u8]) {
        if self.moved.is_none() && self.transcript.is_none() {
            self.digest.update(hashed);
        } else {
            texts.iter().for_each(|text| self.text(text));
        }
    }

    /// Hashes a path.
    pub(super) fn path(&mut self, path: &[u8]) {
        self.mapped(path, |base_dirs| base_dirs.place(path));
    }

    pub(super) fn mapped(
        &mut self,
        bytes: &[u8],
        named: impl FnOnce(&BaseDirs) -> Option<Vec<u8>>,
    ) {
        add(&mut self.digest, bytes);
        if let Some((hasher, base_dirs)) = &mut self.moved {
            match named(base_dirs) {
                Some(named) => add(hasher, &named),
                None => add(hasher, bytes),
            }
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(bytes);
            transcript.push(b' ');
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        let mut shown = itoa::Buffer::new();
        self.numbers(&number.to_le_bytes(), shown.format(number).as_bytes());
    }

    /// Hashes numbers as [`Hasher::number`] does; `shown` are the same in words.
    pub(super) fn numbers(&mut self, bytes: &[u8], shown: &[u8]) {
        self.digest.update(bytes);
        if let Some((hasher, _)) = &mut self.moved {
            hasher.update(bytes);
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(shown);
            transcript.push(b' ');
        }
    }

    /// Returns the transcript of all that was hashed so far, and starts a new one.
    pub(super) fn transcript(&mut self) -> Vec<u8> {
        let mut transcript = self.transcript.replace(Vec::new()).unwrap_or_default();
        transcript.truncate(transcript.trim_ascii_end().len());
        transcript
    }
}

pub(super) fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
