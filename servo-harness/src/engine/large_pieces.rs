//! Rewrites executables in large pieces.
//!
//! Linkers write through a mapping, so their output is in the page cache page by page. Each of
//! these pages is mapped into each process that executes the file, a few at a time. For a
//! program as large as one that records, that takes a fifth of the time of a short test. A copy
//! that was written in large pieces is cached in large pieces, where the file system supports
//! that. The plain executables are rewritten too, because replays are compared with them in
//! time.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// So much is written in one piece.
const PIECE: usize = 128 << 10;

/// Has an executable that cargo has built lie in memory in large pieces: puts a copy in
/// its place, of the same age. Once for each that is built.
///
/// # Errors
/// If it cannot be read or its copy not be written; then the executable is as it was.
pub(super) fn rewrite(executable: &Path) -> io::Result<()> {
    let found = fs::metadata(executable)?;
    let note = beside(executable, "afresh");
    // A file that is built anew is another one.
    let is_of = |found: &fs::Metadata| format!("{} {}\n", found.ino(), found.mtime_nsec());
    if fs::read_to_string(&note).is_ok_and(|noted| noted == is_of(&found)) {
        return Ok(());
    }
    // Others may do the same now.
    let copy = beside(executable, &format!("copy-{}", std::process::id()));
    let copied = copy_in_pieces(executable, &copy, &found).and_then(|copied| {
        fs::rename(&copy, executable)?;
        Ok(copied)
    });
    match copied {
        Ok(copied) => fs::write(&note, is_of(&copied)),
        Err(error) => {
            let _ = fs::remove_file(&copy);
            Err(error)
        }
    }
}

fn beside(executable: &Path, ending: &str) -> PathBuf {
    let mut name = executable.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    name.into()
}

fn copy_in_pieces(from: &Path, to: &Path, like: &fs::Metadata) -> io::Result<fs::Metadata> {
    let source = File::open(from)?;
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(like.mode())
        .open(to)?;
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        piece.clear();
        if (&source).take(PIECE as u64).read_to_end(&mut piece)? == 0 {
            break;
        }
        copy.write_all(&piece)?;
    }
    // Cargo takes a file that is newer than what was built of it for one that has changed.
    copy.set_times(FileTimes::new().set_modified(like.modified()?))?;
    copy.metadata()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_copy_takes_its_place_once_and_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let content: Vec<u8> = (0..PIECE + 1000).map(|n| n as u8).collect();
        fs::write(&path, &content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let before = fs::metadata(&path).unwrap();
        rewrite(&path).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(before.ino(), after.ino());
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        assert_eq!(before.mode(), after.mode());
        assert_eq!(fs::read(&path).unwrap(), content);

        rewrite(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), after.ino());
        fs::write(&path, "built anew").unwrap();
        rewrite(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"built anew");
        assert_ne!(fs::metadata(&path).unwrap().ino(), after.ino());
    }

    #[test]
    fn an_executable_that_cannot_be_copied_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        fs::write(&path, "it").unwrap();
        let copy = format!("program.copy-{}", std::process::id());
        fs::create_dir(dir.path().join(copy)).unwrap();
        assert!(rewrite(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"it");
    }
}
