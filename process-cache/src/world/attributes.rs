//! Extended attributes of files, access lists included, and what directories pass on to new files.

use std::hash::{Hash, Hasher};
use std::path::Path;

use rustc_hash::FxHasher;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::private;
use crate::model::fact::{Answer, Digest};
use crate::model::path::FilePath;

/// The access list of a file (acl(5)).
pub(crate) const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
/// The access list that a directory passes on to new files.
pub(crate) const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// Capabilities of a program file, which any write removes.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// The kernel's limit for a value, and for a list of names (bytes).
const LIMIT: usize = 64 * 1024;
/// The kernel's limit for a name (bytes).
const LONGEST_NAME: usize = 255;

/// Whether a hit can set this attribute.
pub(crate) fn is_restorable(name: &[u8]) -> bool {
    let is_name = !name.contains(&0) && name.len() <= LONGEST_NAME;
    is_name && name.starts_with(b"user.") || name == ACCESS_LIST || name == DEFAULT_LIST
}

/// Returns the names of a file's attributes, sorted; links are not followed. A file system without
/// attributes has none.
///
/// # Errors
/// The system error of listing them.
pub(crate) fn names(path: &Path) -> Result<Vec<Vec<u8>>, Errno> {
    let mut few = [0; 256];
    let list = match rustix::fs::llistxattr(path, &mut few[..]) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(length) => few[..length].to_vec(),
        Err(Errno::RANGE) => {
            let mut list = Vec::with_capacity(LIMIT);
            rustix::fs::llistxattr(path, spare_capacity(&mut list))?;
            list
        }
        Err(error) => return Err(error),
    };
    let mut names: Vec<Vec<u8>> = list
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns the value of an attribute, if the file has it; links are not followed.
///
/// # Errors
/// The system error of reading it.
pub(crate) fn value(path: &Path, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
    let mut few = [0; 256];
    match rustix::fs::lgetxattr(path, name, &mut few[..]) {
        Ok(length) => Ok(Some(few[..length].to_vec())),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(Errno::RANGE) => {
            let mut value = Vec::with_capacity(LIMIT);
            rustix::fs::lgetxattr(path, name, spare_capacity(&mut value))?;
            Ok(Some(value))
        }
        Err(error) => Err(error),
    }
}

/// Whether writes may only append to a file, or remove nothing from a directory (chattr(1), `+a`).
/// access(2) does not tell.
pub(crate) fn is_append_only(path: &Path, follow: bool) -> bool {
    let flags = match follow {
        true => AtFlags::empty(),
        false => AtFlags::SYMLINK_NOFOLLOW,
    };
    rustix::fs::statx(CWD, path, flags, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::APPEND))
}

/// Whether a new file at `path` would get an access list from its directory, so that its
/// permissions are others than those of an existing one.
pub(crate) fn gets_list(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(path);
    !matches!(value(directory, DEFAULT_LIST), Ok(None) | Err(Errno::NOENT))
}

/// Answers [`Query::Inherited`](crate::model::fact::Query::Inherited).
pub(super) fn inherited(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    let stat = rustix::fs::stat(path.as_path())?;
    let mut hasher = blake3::Hasher::new();
    if stat.st_mode & libc::S_ISGID != 0 {
        hasher.update(&stat.st_gid.to_le_bytes());
    }
    if let Some(list) = value(path, DEFAULT_LIST)? {
        hasher.update(b"list");
        hasher.update(&list);
    }
    Ok(Answer::Summary(Digest(*hasher.finalize().as_bytes())))
}

/// Returns a hash of the attributes that a hit can set, to compare two states of a file in one
/// session; links are not followed. What cannot be read counts as absent.
pub(crate) fn hash(path: &Path) -> u64 {
    let mut hasher = FxHasher::default();
    for name in names(path).unwrap_or_default() {
        if is_restorable(&name) {
            let value = value(path, &name).ok().flatten();
            (name, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Whether an answer to [`Query::Attributes`](crate::model::fact::Query::Attributes) says that
/// there are none.
pub(crate) fn is_none(answer: &Answer) -> bool {
    *answer == Answer::Summary(Digest(*blake3::hash(b"").as_bytes()))
}

/// Answers [`Query::Attributes`](crate::model::fact::Query::Attributes).
pub(super) fn all(path: &FilePath) -> Result<Answer, Errno> {
    if let Some(reason) = private(path) {
        return Ok(reason);
    }
    rustix::fs::lstat(path.as_path())?;
    let mut hasher = blake3::Hasher::new();
    for name in names(path)? {
        let is_label = name.starts_with(b"security.") && name != CAPABILITY;
        if is_label {
            continue;
        }
        let value = value(path, &name)?.unwrap_or_default();
        for part in [&name, &value] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(Answer::Summary(Digest(*hasher.finalize().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_users_and_access_lists_are_restorable() {
        assert!(is_restorable(b"user.a") && is_restorable(ACCESS_LIST));
        assert!(!is_restorable(CAPABILITY) && !is_restorable(b"security.selinux"));
        assert!(!is_restorable(b"user.\0") && !is_restorable(&b"user.".repeat(60)));
    }

    #[test]
    fn a_file_without_attributes_has_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(names(file.path()), Ok(Vec::new()));
        assert_eq!(value(file.path(), b"user.a"), Ok(None));
        assert!(all(&FilePath::from(file.path())).is_ok_and(|answer| is_none(&answer)));
    }
}
