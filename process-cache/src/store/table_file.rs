//! The file of the digest table: a hash table of pages.
//!
//! A header page is followed by 2ⁿ pages of 51 records. Device and inode determine a file's page,
//! so a changed file replaces its old record. Each page has a checksum and is read on demand. A
//! run that looks at ten files reads ten pages, whatever the table's size, and opening costs one
//! read. Writers take a lock and rewrite changed pages in place. A torn page, by a concurrent
//! reader or a power failure, fails its checksum and counts as empty. A full table is written
//! again with more pages and renamed into place. At its largest size, a full page loses its oldest
//! record.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::FlockOperation;

use crate::model::fact::Digest;
use crate::model::file_key::FileKey;

const PAGE: usize = 4096;
const RECORD: usize = 80;
/// Checksum (8 bytes), number of records (4 bytes), records.
const PAGE_HEADER: usize = 12;
const PER_PAGE: usize = (PAGE - PAGE_HEADER) / RECORD;
pub(super) const MAGIC: &[u8; 8] = b"pcdigs\x00\x01";
/// Checksum (8 bytes), magic (8), pages (4), records (4).
const HEADER: usize = 24;
/// 16 pages hold some 400 records in 64 KiB.
const MIN_PAGES: u32 = 16;
/// 32 MiB, some 250 000 files.
const MAX_PAGES: u32 = 8192;

/// One file's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: FileKey,
    pub(super) digest: Digest,
    pub(super) flags: u8,
    /// The day (since the epoch) of its last use.
    pub(super) used: u32,
}

/// Spreads a file's identity over 64 bits (the finalizer of splitmix64).
pub(super) fn mix(device: u64, inode: u64) -> u64 {
    let mut hash = inode ^ device.rotate_left(32);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

fn page_of(key: &FileKey, pages: u32) -> u32 {
    (mix(key.device, key.inode) >> 8) as u32 & (pages - 1)
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    // The checksum guards against accidents only, and a page is read for one record.
    xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes()
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    if let Some(found) = bytes.get(at..at + N) {
        word.copy_from_slice(found);
    }
    word
}

impl Record {
    fn read(bytes: &[u8]) -> Self {
        Self {
            key: FileKey {
                device: u64::from_le_bytes(word(bytes, 0)),
                inode: u64::from_le_bytes(word(bytes, 8)),
                size: u64::from_le_bytes(word(bytes, 16)),
                modified: i64::from_le_bytes(word(bytes, 24)),
                changed: i64::from_le_bytes(word(bytes, 32)),
            },
            digest: Digest(word(bytes, 40)),
            used: u32::from_le_bytes(word(bytes, 72)),
            flags: word::<1>(bytes, 76)[0],
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.key.device.to_le_bytes());
        bytes.extend_from_slice(&self.key.inode.to_le_bytes());
        bytes.extend_from_slice(&self.key.size.to_le_bytes());
        bytes.extend_from_slice(&self.key.modified.to_le_bytes());
        bytes.extend_from_slice(&self.key.changed.to_le_bytes());
        bytes.extend_from_slice(&self.digest.0);
        bytes.extend_from_slice(&self.used.to_le_bytes());
        bytes.extend_from_slice(&[self.flags, 0, 0, 0]);
    }

    fn same_file(&self, other: &Self) -> bool {
        (self.key.device, self.key.inode) == (other.key.device, other.key.inode)
    }
}

/// Returns the records of a page; none if it is damaged.
fn parse_page(page: &[u8]) -> &[u8] {
    let count = u32::from_le_bytes(word(page, 8)) as usize;
    if page.len() != PAGE || count > PER_PAGE || checksum(&page[8..]) != word(page, 0) {
        return &[];
    }
    &page[PAGE_HEADER..PAGE_HEADER + count * RECORD]
}

fn page_records(page: &[u8]) -> Vec<Record> {
    let (records, _) = parse_page(page).as_chunks::<RECORD>();
    records.iter().map(|bytes| Record::read(bytes)).collect()
}

fn page_bytes(records: &[Record]) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE);
    page.extend_from_slice(&[0; 8]);
    page.extend_from_slice(&(records.len() as u32).to_le_bytes());
    records.iter().for_each(|record| record.write(&mut page));
    page.resize(PAGE, 0);
    let sum = checksum(&page[8..]);
    page[..8].copy_from_slice(&sum);
    page
}

fn header_bytes(pages: u32, records: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[8..16].copy_from_slice(MAGIC);
    header[16..20].copy_from_slice(&pages.to_le_bytes());
    header[20..].copy_from_slice(&records.to_le_bytes());
    let sum = checksum(&header[8..]);
    header[..8].copy_from_slice(&sum);
    header
}

/// Returns the numbers of pages and records; `None` if the file has no valid header.
fn read_header(file: &File) -> Option<(u32, u32)> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let pages = u32::from_le_bytes(word(&header, 16));
    let valid = checksum(&header[8..]) == word(&header, 0)
        && header[8..16] == *MAGIC
        && pages.is_power_of_two()
        && (MIN_PAGES..=MAX_PAGES).contains(&pages);
    valid.then(|| (pages, u32::from_le_bytes(word(&header, 20))))
}

fn page_offset(page: u32) -> u64 {
    (u64::from(page) + 1) * PAGE as u64
}

fn read_page(file: &File, page: u32) -> Option<Page> {
    let mut bytes = vec![0; PAGE].into_boxed_slice();
    file.read_exact_at(&mut bytes, page_offset(page)).ok()?;
    Some(bytes)
}

type Page = Box<[u8]>;

/// Answers from the file in its state at the open, or a later one.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    /// Pages that were read; the inner `None` is a damaged page.
    pages: Box<[OnceLock<Option<Page>>]>,
}

impl Reader {
    /// Returns `None` if there is no usable table.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let (pages, _) = read_header(&file)?;
        let pages = (0..pages).map(|_| OnceLock::new()).collect();
        Some(Self { file, pages })
    }

    pub(super) fn get(&self, key: &FileKey) -> Option<Record> {
        let number = page_of(key, self.pages.len() as u32);
        let page = self.pages.get(number as usize)?.get_or_init(|| {
            let page = read_page(&self.file, number)?;
            (!parse_page(&page).is_empty()).then_some(page)
        });
        let page = page.as_ref()?;
        let count = u32::from_le_bytes(word(page, 8)) as usize;
        let (records, _) = page[PAGE_HEADER..PAGE_HEADER + count * RECORD].as_chunks::<RECORD>();
        let (device, inode) = (key.device.to_le_bytes(), key.inode.to_le_bytes());
        let found = records
            .iter()
            .find(|bytes| bytes[..8] == device && bytes[8..16] == inode)?;
        let record = Record::read(found);
        (record.key == *key).then_some(record)
    }
}

/// Merges records into the file, which is created or enlarged as needed.
pub(super) fn write(path: &Path, new: &[Record]) -> io::Result<()> {
    let _lock = lock(path)?;
    let old = File::options().read(true).write(true).open(path).ok();
    let old = old.and_then(|file| read_header(&file).map(|header| (file, header)));
    match old {
        Some((file, (pages, count))) if roomy(count, new.len(), pages) => {
            update(&file, pages, count, new)
        }
        Some((file, (pages, _))) => {
            let all = (0..pages).filter_map(|page| read_page(&file, page));
            let all: Vec<Record> = all.flat_map(|page| page_records(&page)).collect();
            rewrite(path, &all, new)
        }
        None => rewrite(path, &[], new),
    }
}

/// Whether the pages stay at most two thirds full.
fn roomy(count: u32, new: usize, pages: u32) -> bool {
    pages == MAX_PAGES || (count as usize + new) * 3 <= pages as usize * PER_PAGE * 2
}

fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(name)?;
    share(path, &file);
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

/// Adds a record to its page; returns the increase of the number of records.
fn merge(page: &mut Vec<Record>, new: &Record) -> i64 {
    if let Some(old) = page.iter_mut().find(|old| old.same_file(new)) {
        *old = *new;
        return 0;
    }
    if page.len() < PER_PAGE {
        page.push(*new);
        return 1;
    }
    if let Some(oldest) = page.iter_mut().min_by_key(|record| record.used) {
        *oldest = *new;
    }
    0
}

/// Sorts records by their page.
fn by_page(records: &[Record], pages: u32) -> Vec<(u32, Record)> {
    let mut sorted: Vec<_> = records
        .iter()
        .map(|record| (page_of(&record.key, pages), *record))
        .collect();
    sorted.sort_by_key(|&(page, _)| page);
    sorted
}

fn update(file: &File, pages: u32, count: u32, new: &[Record]) -> io::Result<()> {
    let mut count = i64::from(count);
    let sorted = by_page(new, pages);
    let changed: Vec<&[(u32, Record)]> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
    let number = |group: &&[(u32, Record)]| group[0].0;
    // Adjacent pages are read and written together.
    for run in changed.chunk_by(|a, b| number(a) + 1 == number(b)) {
        let place = page_offset(number(&run[0]));
        let mut bytes = vec![0; run.len() * PAGE];
        // An unreadable page is empty.
        let _ = file.read_exact_at(&mut bytes, place);
        for (old, group) in bytes.chunks_exact_mut(PAGE).zip(run) {
            let mut page = page_records(old);
            for (_, record) in *group {
                count += merge(&mut page, record);
            }
            old.copy_from_slice(&page_bytes(&page));
        }
        file.write_all_at(&bytes, place)?;
    }
    let count = u32::try_from(count).unwrap_or_default();
    file.write_all_at(&header_bytes(pages, count), 0)
}

fn rewrite(path: &Path, old: &[Record], new: &[Record]) -> io::Result<()> {
    let wanted = (old.len() + new.len()) * 2 / PER_PAGE;
    let pages = u32::try_from(wanted.next_power_of_two())
        .unwrap_or(MAX_PAGES)
        .clamp(MIN_PAGES, MAX_PAGES);
    let mut sorted: Vec<Vec<Record>> = vec![Vec::new(); pages as usize];
    let mut count = 0;
    for record in old.iter().chain(new) {
        count += merge(&mut sorted[page_of(&record.key, pages) as usize], record);
    }
    let mut bytes = vec![0; PAGE];
    let count = u32::try_from(count).unwrap_or_default();
    bytes[..HEADER].copy_from_slice(&header_bytes(pages, count));
    for page in &sorted {
        bytes.extend_from_slice(&page_bytes(page));
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".digests-")
        .tempfile_in(dir)?;
    file.write_all(&bytes)?;
    share(path, file.as_file());
    file.persist(path)?;
    Ok(())
}

/// Gives the users of the table's directory access to the file.
fn share(path: &Path, file: &File) {
    use std::os::unix::fs::PermissionsExt;
    let dir = path.parent().unwrap_or(Path::new("."));
    if let Ok(found) = std::fs::metadata(dir) {
        super::share_file(file, found.permissions().mode());
    }
}

/// Whether bytes are a table with at least one intact page; never panics.
#[doc(hidden)]
pub fn check_table(bytes: &[u8]) -> bool {
    bytes
        .chunks(PAGE)
        .any(|page| !page_records(page).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> Record {
        Record {
            key: FileKey {
                device: 7,
                inode: n,
                size: n * 3,
                modified: n as i64,
                changed: -(n as i64),
            },
            digest: Digest([n as u8; 32]),
            flags: 3,
            used: 20_000,
        }
    }

    #[test]
    fn records_survive_growth() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let all: Vec<_> = (0..20_000).map(record).collect();
        for part in all.chunks(500) {
            write(&path, part).unwrap();
        }
        let reader = Reader::open(&path).unwrap();
        let found = all
            .iter()
            .filter(|r| reader.get(&r.key) == Some(**r))
            .count();
        // A full page loses a record, which costs a hash.
        assert!(found >= all.len() - 40, "{found}");
    }

    #[test]
    fn a_new_state_of_a_file_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let (old, mut new) = (record(1), record(1));
        new.key.modified += 1;
        write(&path, &[old]).unwrap();
        write(&path, &[new]).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.get(&old.key), None);
        assert_eq!(reader.get(&new.key), Some(new));
    }

    #[test]
    fn a_damaged_page_is_empty_and_heals() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let all: Vec<_> = (0..100).map(record).collect();
        write(&path, &all).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (pages, _) = read_header(&file).unwrap();
        for page in 0..pages {
            file.write_all_at(b"x", page_offset(page) + 50).unwrap();
        }
        let reader = Reader::open(&path).unwrap();
        assert!(all.iter().all(|r| reader.get(&r.key).is_none()));
        write(&path, &all).unwrap();
        let reader = Reader::open(&path).unwrap();
        assert!(all.iter().all(|r| reader.get(&r.key) == Some(*r)));
    }

    #[test]
    fn a_damaged_header_starts_afresh() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, vec![b'x'; 3 * PAGE]).unwrap();
        assert!(Reader::open(&path).is_none());
        write(&path, &[record(1)]).unwrap();
        assert!(Reader::open(&path).unwrap().get(&record(1).key).is_some());
    }
}
