//! Extended attributes of files.

use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// Capabilities of a program file, which any write removes.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// The kernel's limit for a value (bytes).
const LIMIT: usize = 64 * 1024;

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
