//! Whether two files are on one mount, which decides about rename(2), link(2) and
//! copy_file_range(2).

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

use super::private;
use crate::model::fact::Answer;
use crate::model::path::FilePath;

/// The mount and the device of a file.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// `stx_mnt_id`, which exists since Linux 5.8.
    mount: Option<u64>,
    device: (u32, u32),
}

/// Answers [`Query::OneMount`](crate::model::fact::Query::OneMount): granted, or the error of a
/// call that would need one mount.
pub(super) fn are_one(paths: &[FilePath; 2], device: bool) -> Result<Answer, Errno> {
    if let Some(reason) = paths.iter().find_map(private) {
        return Ok(reason);
    }
    let [one, other] = paths.each_ref().map(place);
    let (one, other) = (one?, other?);
    let same = match device {
        true => one.device == other.device,
        false => one == other,
    };
    match same {
        true => Ok(Answer::Granted),
        false => Err(Errno::XDEV),
    }
}

fn place(path: &FilePath) -> Result<Place, Errno> {
    let wanted = StatxFlags::MNT_ID;
    let found = rustix::fs::statx(CWD, path.as_path(), AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(wanted);
    Ok(Place {
        mount: is_known.then_some(found.stx_mnt_id),
        device: (found.stx_dev_major, found.stx_dev_minor),
    })
}
