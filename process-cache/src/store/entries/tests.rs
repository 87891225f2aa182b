//! Records and looks up results in a real directory.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::model::fact::Digest;
use crate::model::outcome::{Ending, StreamChunk};

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    (dir, store)
}

fn key(n: u8) -> WeakKey {
    WeakKey(Digest([n; 32]))
}

fn fact(n: u32, answer: i32) -> Fact {
    Fact {
        query: Query::Content(format!("/{n}").as_str().into()),
        answer: Answer::Error(answer),
    }
}

fn outcome(status: i32) -> Outcome {
    Outcome {
        ending: Ending::Exited(status),
        stream: Vec::new(),
        positions: Vec::new(),
        flags: Vec::new(),
        effects: Vec::new(),
        ages: Vec::new(),
        facts: Vec::new(),
        conditions: None,
        cpu_us: 0,
        wall_us: 0,
        units: 1,
    }
}

fn write(store: &Store, bytes: &[u8]) -> Effect {
    Effect::Write {
        path: "/out".into(),
        content: store.put_bytes(bytes).unwrap(),
        length: bytes.len() as u64,
        holes: false,
        mode: None,
        create_mode: 0o644,
        fresh: false,
        time: crate::model::outcome::Time::Present,
    }
}

/// Looks up in a world in which this error is every answer.
fn look(store: &Store, key: &WeakKey, answer: i32) -> Lookup {
    store.lookup(key, &mut |_| Answer::Error(answer)).unwrap()
}

#[track_caller]
fn hit(lookup: Lookup) -> Outcome {
    match lookup {
        Lookup::Hit(outcome) => *outcome,
        Lookup::Miss(miss) => panic!("a miss: {miss:?}"),
    }
}

#[track_caller]
fn miss(lookup: Lookup) -> Miss {
    match lookup {
        Lookup::Hit(outcome) => panic!("a hit: {outcome:?}"),
        Lookup::Miss(miss) => miss,
    }
}

#[test]
fn a_recorded_result_is_found_with_its_facts() {
    let (_dir, store) = store();
    assert_eq!(miss(look(&store, &key(1), 0)), Miss::NoEntry);
    store
        .record(&key(1), vec![vec![fact(2, 0), fact(1, 0)]], &outcome(7))
        .unwrap();
    let found = hit(look(&store, &key(1), 0));
    assert_eq!(found.ending, Ending::Exited(7));
    assert_eq!(found.facts, [fact(1, 0), fact(2, 0)]);
    assert_eq!(miss(look(&store, &key(2), 0)), Miss::NoEntry);
}

#[test]
fn a_miss_names_the_changed_fact() {
    let (_dir, store) = store();
    store
        .record(&key(1), vec![vec![fact(1, 0)]], &outcome(7))
        .unwrap();
    let expected = Miss::Changed {
        query: fact(1, 0).query,
        recorded: Answer::Error(0),
        found: Answer::Error(2),
    };
    assert_eq!(miss(look(&store, &key(1), 2)), expected);
}

/// A result depends on the absence of a file that it makes; this counts the queries if the file
/// exists.
#[test]
fn a_result_with_a_failing_first_fact_needs_one_query() {
    let (_dir, mut store) = store();
    let absent = |path: &str| Fact {
        query: Query::Content(path.into()),
        answer: Answer::Error(libc::ENOENT),
    };
    let mut result = outcome(7);
    result.effects.push(write(&store, b"made"));
    let facts = vec![fact(1, 0), absent("/elsewhere"), absent("/out")];
    store.record(&key(1), vec![facts], &result).unwrap();
    let there = Query::Kind {
        path: "/out".into(),
        follow: true,
    };
    let look = |store: &Store, is_there: bool| {
        let mut asked = Vec::new();
        let found = store.lookup(&key(1), &mut |query| {
            asked.push(query.clone());
            match query {
                Query::Content(path) if path.as_bytes() == b"/1" => Answer::Error(0),
                query if *query == there && is_there => Answer::Directory,
                _ => Answer::Error(libc::ENOENT),
            }
        });
        (found.unwrap(), asked)
    };
    let appeared = Miss::Changed {
        query: there.clone(),
        recorded: Answer::Error(libc::ENOENT),
        found: Answer::Directory,
    };
    let (found, asked) = look(&store, true);
    assert_eq!(
        (miss(found), asked),
        (appeared.clone(), vec![there.clone()])
    );
    let at_once = |store: &Store, key: &WeakKey, answer: Answer| {
        store.miss_at_once(key, &mut |query| {
            assert_eq!(*query, there);
            answer.clone()
        })
    };
    assert_eq!(at_once(&store, &key(1), Answer::Directory), Some(appeared));
    let gone = Answer::Error(libc::ENOENT);
    assert_eq!(at_once(&store, &key(1), gone), None);
    assert_eq!(
        at_once(&store, &key(2), Answer::Directory),
        Some(Miss::NoEntry)
    );
    assert_eq!(hit(look(&store, false).0).ending, Ending::Exited(7));

    // Explanations need the difference from the nearest result.
    store.explains = true;
    assert_eq!(at_once(&store, &key(1), Answer::Directory), None);
    let (found, asked) = look(&store, true);
    assert!(asked.len() > 1, "{asked:?}");
    assert!(matches!(miss(found), Miss::Changed { .. }));
    store.explains = false;

    // A result without that dependency: a quick check shows nothing.
    let indifferent = vec![fact(1, 0)];
    store
        .record(&key(1), vec![indifferent.clone()], &outcome(8))
        .unwrap();
    assert_eq!(hit(look(&store, true).0).ending, Ending::Exited(8));
    assert_eq!(at_once(&store, &key(1), Answer::Directory), None);
    for n in 0..2 * MAX_FRAMES as i32 {
        // The same as one tree.
        let mut facts = indifferent.clone();
        facts.push(fact(2, 100 + n));
        store.record(&key(1), vec![facts], &outcome(9)).unwrap();
        assert_eq!(hit(look(&store, true).0).ending, Ending::Exited(8));
    }
}

#[test]
fn a_missing_or_shorter_content_makes_it_incomplete() {
    let (_dir, store) = store();
    let mut result = outcome(0);
    result.effects.push(write(&store, b"content"));
    result.stream.push(StreamChunk {
        fd: 1,
        data: StreamData::Stored(store.put_bytes(b"text").unwrap(), 4),
    });
    store.record(&key(1), vec![], &result).unwrap();
    assert_eq!(hit(look(&store, &key(1), 0)), result);
    for bytes in [&b"content"[..], b"text"] {
        let digest = store.put_bytes(bytes).unwrap();
        store.discard(&digest);
        assert!(matches!(
            miss(look(&store, &key(1), 0)),
            Miss::Incomplete(_)
        ));
        store.put_bytes(bytes).unwrap();
        hit(look(&store, &key(1), 0));
        let path = sharded(&store.root.join("blobs"), &digest);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, b"").unwrap();
        assert!(matches!(
            miss(look(&store, &key(1), 0)),
            Miss::Incomplete(_)
        ));
        store.put_bytes(bytes).unwrap();
    }
    hit(look(&store, &key(1), 0));
}

#[test]
fn a_large_outcome_is_kept_as_a_content() {
    let (_dir, store) = store();
    let mut result = outcome(0);
    result.effects = (0..200).map(|_| write(&store, b"x")).collect();
    store.record(&key(1), vec![], &result).unwrap();
    assert_eq!(store.stats().unwrap().blobs, 2);
    assert_eq!(hit(look(&store, &key(1), 0)), result);
}

#[test]
fn a_damaged_tree_is_a_miss_and_is_recorded_anew() {
    let (_dir, store) = store();
    let record = || {
        store
            .record(&key(1), vec![vec![fact(1, 0)]], &outcome(7))
            .unwrap()
    };
    record();
    let path = store.tree_path(&key(1));
    for damage in [&b""[..], b"pcu", b"pcu\xfe from the future", &[0xff; 300]] {
        fs::write(&path, damage).unwrap();
        assert!(matches!(
            miss(look(&store, &key(1), 0)),
            Miss::Incomplete(_)
        ));
        record();
        hit(look(&store, &key(1), 0));
    }
}

#[test]
fn recordings_at_the_same_time_are_all_kept() {
    let (dir, store) = store();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let root = dir.path().join("store");
            scope.spawn(move || {
                // As another process would, with its own handle.
                let store = Store::open(root).unwrap();
                for m in 0..4 {
                    let answer = n * 4 + m;
                    let batch = vec![fact(1, answer), fact(2, answer)];
                    store
                        .record(&key(1), vec![batch], &outcome(answer))
                        .unwrap();
                }
            });
        }
    });
    for n in 0..32 {
        assert_eq!(hit(look(&store, &key(1), n)).ending, Ending::Exited(n));
    }
}

#[test]
fn results_beyond_the_bound_are_dropped() {
    let (_dir, store) = store();
    let count = MAX_LEAVES as i32 + 10;
    for n in 0..count {
        store
            .record(&key(1), vec![vec![fact(1, n)]], &outcome(n))
            .unwrap();
    }
    assert!(matches!(
        miss(look(&store, &key(1), 0)),
        Miss::Changed { .. }
    ));
    hit(look(&store, &key(1), count - 1));
    hit(look(&store, &key(1), 10));
}

#[test]
fn a_reader_finds_results_and_records_none() {
    let (_dir, store) = store();
    store.record(&key(1), vec![], &outcome(7)).unwrap();
    let reader = Store::open_read_only(store.dir()).unwrap();
    hit(look(&reader, &key(1), 0));
    let refused = reader.record(&key(2), vec![], &outcome(7));
    assert!(matches!(refused, Err(StoreError::ReadOnly)));
}

#[test]
fn a_hit_after_days_renews_its_use() {
    let (_dir, store) = store();
    store.record(&key(1), vec![], &outcome(7)).unwrap();
    let mut tree = store.merged(&key(1)).unwrap();
    tree.nodes[0].leaf.as_mut().unwrap().used = 5;
    store.rewrite(&key(1), tree).unwrap();
    hit(look(&store, &key(1), 0));
    let tree = store.merged(&key(1)).unwrap();
    assert!(tree.leaves().all(|leaf| leaf.used == today()));
}

#[test]
fn results_are_added_and_then_become_one_tree() {
    let (_dir, store) = store();
    let mut frames = Vec::new();
    for n in 0..20 {
        let batches = vec![vec![fact(1, n), fact(2, 0)], vec![fact(3, n)]];
        store.record(&key(1), batches, &outcome(n)).unwrap();
        let bytes = store.read(&key(1)).unwrap().unwrap();
        let (found, rest) = codec::frames(&bytes);
        assert!(rest.is_none());
        frames.push(found.len());
    }
    assert_eq!(frames[..9], [1, 2, 3, 4, 5, 6, 7, 8, 1]);
    assert!(frames.iter().all(|frames| *frames <= MAX_FRAMES));
    let merged = store.merged(&key(1)).unwrap();
    assert_eq!(merged.leaves().count(), 20);
    for n in 0..20 {
        let mut ask = |query: &Query| {
            let second = *query == fact(2, 0).query;
            Answer::Error(if second { 0 } else { n })
        };
        let found = hit(store.lookup(&key(1), &mut ask).unwrap());
        assert_eq!(found.ending, Ending::Exited(n));
        assert_eq!(found.facts, [fact(1, n), fact(2, 0), fact(3, n)]);
    }
}

#[test]
fn the_newest_of_results_with_the_same_facts_is_found() {
    let (_dir, store) = store();
    for n in 0..12 {
        store
            .record(&key(1), vec![vec![fact(1, 0)]], &outcome(n))
            .unwrap();
        assert_eq!(hit(look(&store, &key(1), 0)).ending, Ending::Exited(n));
    }
}

#[test]
fn a_query_shared_by_results_is_asked_once() {
    let (_dir, store) = store();
    for n in 0..5 {
        store
            .record(
                &key(1),
                vec![vec![fact(1, 7), fact(2, 10 + n)]],
                &outcome(n),
            )
            .unwrap();
    }
    let mut asked = Vec::new();
    let mut ask = |query: &Query| {
        asked.push(query.clone());
        Answer::Error(7)
    };
    let missed = miss(store.lookup(&key(1), &mut ask).unwrap());
    assert!(matches!(missed, Miss::Changed { .. }));
    assert_eq!(asked, [fact(1, 0).query, fact(2, 0).query]);
}

#[test]
fn a_frame_that_was_not_finished_is_none_and_is_replaced() {
    let (_dir, store) = store();
    let record = |n| {
        let facts = vec![vec![fact(1, n)]];
        store.record(&key(1), facts, &outcome(n)).unwrap();
    };
    record(0);
    record(1);
    let path = store.tree_path(&key(1));
    let whole = fs::read(&path).unwrap();
    let first = codec::frames(&whole).0[0].len();
    for cut in first + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(hit(look(&store, &key(1), 0)).ending, Ending::Exited(0));
        assert!(matches!(
            miss(look(&store, &key(1), 1)),
            Miss::Incomplete(_)
        ));
    }
    record(2);
    for n in [0, 2] {
        assert_eq!(hit(look(&store, &key(1), n)).ending, Ending::Exited(n));
    }
    let whole = fs::read(&path).unwrap();
    assert!(codec::frames(&whole).1.is_none());
}

#[test]
fn a_damaged_frame_hides_no_other() {
    let (_dir, store) = store();
    for n in 0..3 {
        let facts = vec![vec![fact(1, n)]];
        store.record(&key(1), facts, &outcome(n)).unwrap();
    }
    let path = store.tree_path(&key(1));
    let mut bytes = fs::read(&path).unwrap();
    let first = codec::frames(&bytes).0[0].len();
    bytes[first + codec::HEADER + 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for n in [0, 2] {
        assert_eq!(hit(look(&store, &key(1), n)).ending, Ending::Exited(n));
    }
    assert!(matches!(
        miss(look(&store, &key(1), 1)),
        Miss::Incomplete(_)
    ));
}

#[test]
fn a_file_that_appeared_is_not_read() {
    let (_dir, store) = store();
    for n in 0..2 {
        let facts = vec![vec![fact(1, libc::ENOENT), fact(2, n)]];
        store.record(&key(1), facts, &outcome(n)).unwrap();
    }
    let there = Query::Kind {
        path: "/1".into(),
        follow: true,
    };
    let mut asked = Vec::new();
    let mut ask = |query: &Query| {
        asked.push(query.clone());
        Answer::Directory
    };
    let missed = miss(store.lookup(&key(1), &mut ask).unwrap());
    let expected = Miss::Changed {
        query: fact(1, 0).query,
        recorded: Answer::Error(libc::ENOENT),
        found: Answer::Directory,
    };
    assert_eq!(missed, expected);
    assert_eq!(asked, [there]);
}
