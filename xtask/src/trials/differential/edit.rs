//! Changing a tree from outside, between two runs.

use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::case::{Case, Edit, Entry, Node};
use super::execute::apart;
use crate::support::descriptors;
use crate::support::tree::clock::{self, Nanos};
use crate::support::tree::{clear, remove};

/// The tree that edits apply to, and what they need to know about its case.
pub(crate) struct Target<'a> {
    /// Root of the tree.
    pub(crate) root: &'a Path,
    /// The case whose starting tree `Reset` brings back.
    pub(crate) case: &'a Case,
    /// When the case began; ages count from here.
    pub(crate) began: Nanos,
    /// The time that files of the starting tree get, and all where the case pins times: the
    /// same on both sides.
    pub(crate) present: Nanos,
}

impl Target<'_> {
    /// Makes the starting tree of the case in an empty root.
    ///
    /// # Errors
    ///
    /// When the tree cannot be made, or an entry points out of it.
    pub(crate) fn build(&self, older: Option<u64>) -> anyhow::Result<()> {
        let _apart = apart();
        for entry in &self.case.files {
            self.make(entry)
                .with_context(|| format!("making {}", entry.path))?;
        }
        // Children change the times of their directories, so times come last.
        for entry in self.case.files.iter().rev() {
            let path = self.path(&entry.path)?;
            // A link to what shrinking has removed.
            if path.symlink_metadata().is_err() {
                continue;
            }
            let age = match (entry.age, older) {
                (None, None) => None,
                (age, older) => Some(age.unwrap_or(0) + older.unwrap_or(0)),
            };
            // Which of two is newer must not depend on how long it took to make them.
            let time = match age {
                Some(age) => self.began - Nanos::from(age) * 1_000_000_000,
                None => self.present,
            };
            clock::set_modified(&path, time)?;
        }
        Ok(())
    }

    fn make(&self, entry: &Entry) -> anyhow::Result<()> {
        let path = self.path(&entry.path)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match &entry.node {
            Node::File { blocks, mode } => {
                fs::write(&path, blocks.concat())?;
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
            }
            Node::Dir(mode) => {
                fs::create_dir_all(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
            }
            Node::Symlink(to) => symlink(to, &path)?,
            Node::Program(program) => {
                fs::copy(program, &path)?;
            }
            Node::Descriptors => {
                let program = descriptors::program().context("there is no C compiler")?;
                fs::copy(program, &path)?;
            }
            // Shrinking may have removed the other name.
            Node::HardLink(to) => drop(fs::hard_link(self.path(to)?, &path)),
        }
        Ok(())
    }

    /// Applies one edit; one that cannot apply here does nothing.
    ///
    /// # Errors
    ///
    /// When the edit names a path outside the tree, or a reset fails.
    pub(crate) fn apply(&self, edit: &Edit) -> anyhow::Result<()> {
        if let Edit::Reset(older) = edit {
            clear(self.root)?;
            return self.build(*older);
        }
        let path = self.path(edit_path(edit))?;
        // Whether an edit applies depends on the tree alone, which is the same
        // on both sides; so a failure is ignored on both.
        let _ = self.try_apply(edit, &path)?;
        Ok(())
    }

    fn try_apply(&self, edit: &Edit, path: &Path) -> anyhow::Result<std::io::Result<()>> {
        let _apart = apart();
        Ok(match edit {
            Edit::Write(_, blocks) => fs::write(path, blocks.concat()).map(|()| self.pin(path)),
            Edit::Replace(_, blocks) => replace(path, &blocks.concat()).map(|()| self.pin(path)),
            Edit::Append(_, text) => append(path, text).map(|()| self.pin(path)),
            Edit::Sneak(_) => sneak(path),
            Edit::Touch(_) => {
                if path.symlink_metadata().is_ok() {
                    clock::set_modified(path, self.present)?;
                }
                Ok(())
            }
            Edit::TouchAge(_, age) => {
                if path.symlink_metadata().is_ok() {
                    clock::set_modified(path, self.began - Nanos::from(*age) * 1_000_000_000)?;
                }
                Ok(())
            }
            Edit::Delete(_) => remove(path),
            Edit::Chmod(_, mode) => fs::set_permissions(path, fs::Permissions::from_mode(*mode)),
            Edit::Symlink(_, to) => remove(path).and_then(|()| symlink(to, path)),
            Edit::HardLink(_, to) => {
                let to = self.path(to)?;
                if to.is_file() && to != path {
                    remove(path).and_then(|()| fs::hard_link(to, path))
                } else {
                    Ok(())
                }
            }
            Edit::Rename(_, to) => fs::rename(path, self.path(to)?),
            Edit::Swap(_, other) => {
                let other = self.path(other)?;
                if path.symlink_metadata().is_ok() && other.symlink_metadata().is_ok() {
                    let aside = self.root.join(".swap");
                    fs::rename(path, &aside)
                        .and_then(|()| fs::rename(&other, path))
                        .and_then(|()| fs::rename(&aside, &other))
                } else {
                    Ok(())
                }
            }
            Edit::Install(_, program) => {
                remove(path).and_then(|()| fs::copy(program, path).map(|_| self.pin(path)))
            }
            Edit::MakeDir(_) => fs::create_dir_all(path),
            Edit::Resize(_, size) => fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(*size))
                .map(|()| self.pin(path)),
            Edit::Fifo(_) => remove(path).and_then(|()| {
                let mode = rustix::fs::Mode::from_raw_mode(0o644);
                Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, mode)?)
            }),
            Edit::Own(_, owner, group) => {
                std::os::unix::fs::lchown(path, Some(*owner), Some(*group))
            }
            Edit::Attribute(_, name, value) => attribute(path, name, value.as_deref()),
            Edit::Reset(_) | Edit::Crash(_) => Ok(()),
        })
    }

    /// Gives `path` the shared present where the case wants equal times.
    fn pin(&self, path: &Path) {
        if self.case.pin_times {
            // The path was written a moment ago; should it be gone, so is the need.
            let _ = clock::set_modified(path, self.present);
        }
    }

    /// The full path; refuses to leave the tree by its spelling.
    fn path(&self, relative: &str) -> anyhow::Result<PathBuf> {
        if relative.starts_with('/') || relative.split('/').any(|part| part == "..") {
            bail!("path `{relative}` points out of the tree");
        }
        Ok(self.root.join(relative))
    }
}

fn edit_path(edit: &Edit) -> &str {
    match edit {
        Edit::Write(path, _)
        | Edit::Replace(path, _)
        | Edit::Append(path, _)
        | Edit::Sneak(path)
        | Edit::Touch(path)
        | Edit::TouchAge(path, _)
        | Edit::Delete(path)
        | Edit::Chmod(path, _)
        | Edit::Symlink(path, _)
        | Edit::HardLink(path, _)
        | Edit::Rename(path, _)
        | Edit::Swap(path, _)
        | Edit::Install(path, _)
        | Edit::Resize(path, _)
        | Edit::Fifo(path)
        | Edit::Own(path, _, _)
        | Edit::Attribute(path, _, _)
        | Edit::MakeDir(path) => path,
        Edit::Reset(_) | Edit::Crash(_) => "",
    }
}

/// Sets or removes an extended attribute of the path itself.
fn attribute(path: &Path, name: &str, value: Option<&str>) -> std::io::Result<()> {
    match value {
        Some(value) => {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::lsetxattr(path, name, &from_hex(value), flags)?;
        }
        None => rustix::fs::lremovexattr(path, name)?,
    }
    Ok(())
}

/// The bytes of a hexadecimal text; what is not hexadecimal counts as 0.
fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |value, byte| value * 16 + digit(byte)))
        .collect()
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    fs::write(&aside, text)?;
    fs::rename(&aside, path).inspect_err(|_| drop(fs::remove_file(&aside)))
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    fs::OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Changes the first byte of a file without a trace in size and mtime.
fn sneak(path: &Path) -> std::io::Result<()> {
    let metadata = fs::metadata(path)?;
    let content = fs::read(path)?;
    if let Some(&first) = content.first() {
        let other = if first == b'#' { b'%' } else { b'#' };
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        file.seek(std::io::SeekFrom::Start(0))?;
        file.write_all(&[other])?;
        file.set_modified(metadata.modified()?)?;
    }
    Ok(())
}
