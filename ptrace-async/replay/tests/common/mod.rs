//! Reading and rewriting the records of a trace, for several tests.

use std::path::Path;

use reprise::trace::{Directory, Reader, Record, Writer};

/// The records of a trace.
pub(crate) fn records(trace: &Path) -> Vec<Record> {
    let (directory, _) = Directory::open(trace).unwrap();
    Reader::open(&directory)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Writes them anew, each as these.
pub(crate) fn rewrite(trace: &Path, change: impl Fn(u64, Record) -> Vec<Record>) {
    let records = records(trace);
    let (directory, _) = Directory::open(trace).unwrap();
    std::fs::write(directory.events(), b"").unwrap();
    let mut writer = Writer::create(&directory, || ()).unwrap();
    for (number, record) in (0..).zip(records) {
        for record in change(number, record) {
            writer.append(&record);
        }
    }
    writer.finish().unwrap();
}
