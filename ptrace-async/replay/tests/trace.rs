//! Traces as files: whatever is in them, reading gives records or an error.

use proptest::prelude::*;
use reprise::platform::machine::Machine;
use reprise::trace::event::{Call, Return, Write};
use reprise::trace::{Directory, Event, FORMAT, Header, Reader, Record, Tail, Task, Writer};

fn header() -> Header {
    Header {
        format: FORMAT,
        command: vec!["true".to_owned()],
        directory: "/".to_owned(),
        started: 0,
        machine: Machine::here(),
        chaos: None,
        digests: false,
    }
}

fn some(count: u64) -> Vec<Record> {
    (0..count)
        .map(|n| Record {
            task: Task((n % 3) as u32),
            time: n / 7,
            event: if n % 2 == 0 {
                Event::Call(Call {
                    nr: n,
                    args: [n; 6],
                    ip: n << 20,
                    sp: !n,
                    check: n as u32,
                })
            } else {
                Event::Return(Return {
                    value: -(n as i64),
                    writes: vec![Write {
                        address: n,
                        bytes: vec![n as u8; n as usize % 5000],
                    }],
                    ..Return::default()
                })
            },
        })
        .collect()
}

fn written(records: &[Record], flush_each: usize) -> (tempfile::TempDir, Directory) {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::create(home.path().join("t"), &header()).unwrap();
    let mut writer = Writer::create(&directory, || ()).unwrap();
    for (index, record) in records.iter().enumerate() {
        writer.append(record);
        if index % flush_each == flush_each - 1 {
            writer.flush();
        }
    }
    writer.finish().unwrap();
    (home, directory)
}

#[test]
fn written_records_are_read_back() {
    let records = some(3000);
    let (_home, directory) = written(&records, 700);
    let mut reader = Reader::open(&directory).unwrap();
    let read: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert!(read == records);
    assert_eq!(reader.tail(), Some(Tail::Whole));
}

#[test]
fn all_whole_blocks_of_a_cut_trace_are_read() {
    let records = some(500);
    let (_home, directory) = written(&records, 100);
    let bytes = std::fs::read(directory.events()).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        std::fs::write(directory.events(), &bytes[..length]).unwrap();
        let mut reader = Reader::open(&directory).unwrap();
        let read: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(read.len() % 100, 0);
        assert!(read == records[..read.len()]);
    }
}

#[test]
fn reading_ahead_gives_the_same_records() {
    let (_home, directory) = written(&some(500), 100);
    let bytes = std::fs::read(directory.events()).unwrap();
    for length in (0..=bytes.len()).step_by(89).chain([bytes.len()]) {
        let mut bytes = bytes[..length].to_vec();
        if length % 2 == 1 {
            bytes[length / 2] ^= 1;
        }
        std::fs::write(directory.events(), &bytes).unwrap();
        let read = |mut reader: Reader| {
            let records: Vec<_> = reader
                .by_ref()
                .map(|record| record.map_err(|error| error.to_string()))
                .collect();
            (records, reader.tail(), reader.offset(), reader.blocks())
        };
        let here = Reader::open(&directory).unwrap();
        let ahead = Reader::open(&directory).unwrap().ahead(|| ()).unwrap();
        assert!(read(here) == read(ahead), "{length} bytes");
    }
}

#[test]
fn a_trace_without_an_end_mark_is_not_whole() {
    let records = some(100);
    let (_home, directory) = written(&records, 10);
    let bytes = std::fs::read(directory.events()).unwrap();
    // The last block is the mark of the end, of a head and an empty frame.
    let last = bytes.windows(4).rposition(|word| word == b"RPB1").unwrap();
    std::fs::write(directory.events(), &bytes[..last]).unwrap();
    let mut reader = Reader::open(&directory).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 100);
    assert_eq!(reader.tail(), Some(Tail::Open));
    let mut more = bytes.clone();
    more.extend_from_slice(&bytes[..last]);
    std::fs::write(directory.events(), &more).unwrap();
    assert!(
        Reader::open(&directory)
            .unwrap()
            .any(|record| record.is_err())
    );
}

#[test]
fn a_full_disk_ends_the_records_only() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::create(home.path().join("t"), &header()).unwrap();
    std::fs::remove_file(directory.events()).unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.events()).unwrap();
    let mut writer = Writer::create(&directory, || ()).unwrap();
    let record = &some(1)[0];
    while writer.failure().is_none() {
        writer.append(record);
        writer.flush();
    }
    writer.append(record);
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_an_error_and_no_panic(
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let records = some(50);
        let (_home, directory) = written(&records, 20);
        let mut bytes = std::fs::read(directory.events()).unwrap();
        let at = at.index(bytes.len());
        let changed = bytes[at] != with;
        bytes[at] = with;
        bytes.extend_from_slice(&noise);
        std::fs::write(directory.events(), &bytes).unwrap();
        let mut reader = Reader::open(&directory).unwrap();
        let (mut read, mut damaged) = (0, false);
        for record in reader.by_ref() {
            match record {
                Ok(record) => {
                    prop_assert!(record == records[read]);
                    read += 1;
                }
                Err(_) => damaged = true,
            }
        }
        let is_whole = read == records.len() && !damaged && reader.tail() == Some(Tail::Whole);
        prop_assert_eq!(is_whole, !changed && noise.is_empty());
    }
}
