//! Measures the cost of a lookup, a start and a restoration.
#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use std::fs;
use std::hint::black_box;
use std::os::unix::fs::MetadataExt;

use criterion::{Criterion, criterion_group, criterion_main};
use process_cache::model::fact::{Answer, Digest, Fact, Query, TimeUse};
use process_cache::model::file_key::FileKey;
use process_cache::model::outcome::{Effect, Ending, Outcome, Time};
use process_cache::model::path::FilePath;
use process_cache::model::weak_key::WeakKey;
use process_cache::restore;
use process_cache::store::{DigestTable, Lookup, Store, Trust};
use process_cache::world::World;

const FACTS: usize = 3000;

fn path(n: usize) -> FilePath {
    let name = format!("/usr/include/c++/14/bits/part{}/header_{n:05}.h", n % 37);
    FilePath::from(name.as_str())
}

/// Two thirds contents, one third absences.
fn facts(version: u8) -> Vec<Vec<Fact>> {
    let fact = |n: usize| Fact {
        query: Query::Content(path(n)),
        answer: match n % 3 {
            0 => Answer::Error(2),
            _ => {
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&n.to_le_bytes());
                digest[31] = if n < 10 { version } else { 0 };
                Answer::File(Digest(digest))
            }
        },
    };
    let all: Vec<Fact> = (0..FACTS).map(fact).collect();
    all.chunks(1000).map(<[Fact]>::to_vec).collect()
}

fn outcome(effects: Vec<Effect>) -> Outcome {
    Outcome {
        ending: Ending::Exited(0),
        stream: Vec::new(),
        positions: Vec::new(),
        flags: Vec::new(),
        effects,
        ages: Vec::new(),
        facts: Vec::new(),
        conditions: None,
        cpu_us: 0,
        wall_us: 0,
        units: 1,
    }
}

/// A lookup with free answers: reads, checks and walks the tree.
fn lookup(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for results in [1, 60] {
        let key = WeakKey(Digest([results; 32]));
        for version in 0..results {
            store
                .record(&key, facts(version), &outcome(vec![]))
                .unwrap();
        }
        let answers: rustc_hash::FxHashMap<Query, Answer> = facts(0)
            .into_iter()
            .flatten()
            .map(|fact| (fact.query, fact.answer))
            .collect();
        // Answers without a hash table: in the order of the tree.
        let mut order = Vec::new();
        let mut ask = |query: &Query| {
            order.push(answers[query].clone());
            answers[query].clone()
        };
        store.lookup(&key, &mut ask).unwrap();
        c.bench_function(&format!("lookup/{FACTS} facts, {results} results"), |b| {
            b.iter(|| {
                let mut next = order.iter();
                let mut ask = |_: &Query| next.next().unwrap().clone();
                let found = store.lookup(&key, &mut ask).unwrap();
                assert!(matches!(found, Lookup::Hit(_)));
            });
        });
        c.bench_function(&format!("record/{FACTS} facts, {results} results"), |b| {
            b.iter(|| store.record(&key, facts(0), &outcome(vec![])).unwrap());
        });
    }
}

fn tables(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("digests");
    let key = |n: u64| FileKey {
        device: 1,
        inode: n * 7919,
        size: n,
        modified: 5,
        changed: 5,
    };
    let table = DigestTable::open(&file, false);
    for n in 0..20_000 {
        table.insert(&key(n), Digest([n as u8; 32]), 0, Trust::HashedAt(i64::MAX));
    }
    table.flush().unwrap();
    for asked in [1, 100, 20_000] {
        c.bench_function(&format!("table/open and {asked} of 20000"), |b| {
            b.iter(|| {
                let table = DigestTable::open(&file, false);
                (0..asked).filter_map(|n| table.get(&key(n))).count()
            });
        });
    }
    let mut next = 0;
    c.bench_function("table/flush 10 of 20000", |b| {
        b.iter(|| {
            let table = DigestTable::open(&file, false);
            for n in 0..10 {
                next += 1;
                let changed = FileKey {
                    size: next,
                    ..key(n)
                };
                table.insert(&changed, Digest([1; 32]), 0, Trust::HashedAt(i64::MAX));
            }
            table.flush().unwrap();
        });
    });
    let store = dir.path().join("store");
    Store::open(&store).unwrap();
    c.bench_function("store/open", |b| b.iter(|| Store::open(&store).unwrap()));
}

fn world(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let mut queries = Vec::new();
    let table = DigestTable::in_memory();
    for n in 0..FACTS {
        let path = dir.path().join(format!("header_{n:05}.h"));
        if n % 3 != 0 {
            fs::write(&path, format!("int f{n}(void);\n")).unwrap();
            let found = fs::metadata(&path).unwrap();
            let key = FileKey {
                device: found.dev(),
                inode: found.ino(),
                size: found.len(),
                modified: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
                changed: found.ctime() * 1_000_000_000 + found.ctime_nsec(),
            };
            table.insert(&key, Digest([1; 32]), 0, Trust::ThisRun);
        }
        queries.push(Query::Content(path.as_path().into()));
    }
    let world = World::new(table);
    c.bench_function(&format!("world/{FACTS} known contents"), |b| {
        b.iter(|| {
            for query in &queries {
                black_box(world.ask(query));
            }
        });
    });
    let unknown = World::new(DigestTable::in_memory());
    // Digests of files this young are never cached.
    c.bench_function("world/1 small content", |b| {
        b.iter(|| unknown.ask(&queries[1]))
    });
    let stat = Query::Stat {
        path: dir.path().into(),
        follow: true,
        time: TimeUse::None,
    };
    c.bench_function("world/stat", |b| b.iter(|| world.ask(&stat)));
    let list = Query::List(dir.path().into());
    c.bench_function("world/list of 2000", |b| b.iter(|| world.ask(&list)));
}

fn restoring(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    for length in [100 << 10, 10 << 20] {
        let bytes: Vec<u8> = (0..length).map(|n: usize| (n * n % 251) as u8).collect();
        let content = store.put_bytes(&bytes).unwrap();
        for fresh in [true, false] {
            let effect = Effect::Write {
                path: dir.path().join("out").into(),
                content,
                length: bytes.len() as u64,
                holes: false,
                mode: None,
                create_mode: 0o644,
                fresh,
                time: Time::Present,
            };
            let name = format!("restore/{} KiB, fresh: {fresh}", length >> 10);
            c.bench_function(&name, |b| {
                b.iter(|| restore::apply(&store, std::slice::from_ref(&effect)).unwrap());
            });
        }
        let file = dir.path().join("in");
        fs::write(&file, &bytes).unwrap();
        let file = fs::File::open(file).unwrap();
        c.bench_function(&format!("store/{} KiB, new", length >> 10), |b| {
            b.iter(|| {
                store.discard(&content);
                store.put_file(&file, length as u64).unwrap()
            });
        });
        c.bench_function(&format!("store/{} KiB, known", length >> 10), |b| {
            b.iter(|| store.put_file(&file, length as u64).unwrap());
        });
    }
}

criterion_group!(benches, lookup, tables, world, restoring);
criterion_main!(benches);
