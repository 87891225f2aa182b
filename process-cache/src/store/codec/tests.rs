//! Round trips, and foreign bytes.

use proptest::prelude::*;

use super::*;
use crate::model::fact::Fact;
use crate::model::outcome::{Effect, Ending, StreamChunk, StreamData, Time};
use crate::store::tree::{OutcomeRef, canonical};

fn path() -> impl Strategy<Value = FilePath> {
    prop::collection::vec(any::<u8>(), 0..12).prop_map(|bytes| FilePath::from(bytes.as_slice()))
}

fn query() -> impl Strategy<Value = Query> {
    let time = prop_oneof![
        Just(TimeUse::None),
        Just(TimeUse::Order),
        Just(TimeUse::Modified),
        Just(TimeUse::Exact)
    ];
    prop_oneof![
        path().prop_map(Query::Content),
        (path(), any::<bool>(), time).prop_map(|(path, follow, time)| Query::Stat {
            path,
            follow,
            time
        }),
        (path(), any::<i32>(), any::<bool>(), any::<bool>()).prop_map(
            |(path, mode, effective, follow)| Query::Access {
                path,
                mode,
                effective,
                follow
            }
        ),
        path().prop_map(Query::Link),
        path().prop_map(Query::List),
        path().prop_map(Query::RealPath),
        path().prop_map(Query::Target),
        path().prop_map(Query::Replaced),
        path().prop_map(Query::Permissions),
        (path(), any::<bool>()).prop_map(|(path, follow)| Query::Kind { path, follow }),
        (path(), any::<bool>()).prop_map(|(path, follow)| Query::Inode { path, follow }),
        prop::collection::vec(path(), 0..4).prop_map(Query::Order),
        path().prop_map(Query::StatFs),
        path().prop_map(Query::Inherited),
        path().prop_map(Query::Attributes),
        (path(), path(), any::<bool>()).prop_map(|(one, other, device)| Query::OneMount {
            paths: [one, other],
            device
        }),
        (
            path(),
            any::<bool>(),
            prop::collection::vec(any::<u8>(), 0..5)
        )
            .prop_map(|(path, follow, name)| Query::Xattr { path, follow, name }),
        prop::sample::select(&Part::ALL[..]).prop_map(Query::LeftOut),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let digest = || any::<[u8; 32]>().prop_map(Digest);
    let metadata = (
        any::<(u32, u32, u32, u64, u64)>(),
        any::<(i128, i128, u64, u64)>(),
        prop::option::of(digest()),
    );
    prop_oneof![
        any::<i32>().prop_map(Answer::Error),
        digest().prop_map(Answer::File),
        Just(Answer::Directory),
        any::<(u32, u64)>().prop_map(|(kind, device)| Answer::Special { kind, device }),
        metadata.prop_map(
            |((mode, uid, gid, size, links), (modified, changed, i, d), content)| {
                Answer::Metadata(Box::new(Metadata {
                    mode,
                    uid,
                    gid,
                    size,
                    links,
                    modified,
                    changed,
                    inode: (i, d),
                    content,
                }))
            }
        ),
        Just(Answer::Granted),
        path().prop_map(Answer::Path),
        digest().prop_map(Answer::Summary),
        Just(Answer::Writable),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let fact = (query(), answer()).prop_map(|(query, answer)| Fact { query, answer });
    let run = prop::collection::vec(prop::collection::vec(fact, 1..6), 0..4);
    prop::collection::vec(run, 0..5).prop_map(|runs| {
        let mut tree = Tree::default();
        for run in runs {
            // Contradictory runs are not recorded.
            if let Ok(batches) = canonical(run) {
                tree.insert(batches, OutcomeRef::Inline(vec![1, 2]), None, 3);
            }
        }
        tree
    })
}

fn outcome() -> Outcome {
    let path = FilePath::from("/a/b");
    let content = Digest([7; 32]);
    Outcome {
        ending: Ending::Exited(3),
        stream: vec![StreamChunk {
            fd: 1,
            data: StreamData::Inline(b"text".to_vec()),
        }],
        positions: vec![(0, 9)],
        flags: vec![(1, libc::O_APPEND)],
        effects: vec![
            Effect::Write {
                path: path.clone(),
                content,
                length: 5,
                holes: false,
                mode: Some(0o755),
                create_mode: 0o644,
                fresh: true,
                time: Time::Set(None, Some(-5)),
            },
            Effect::Attribute {
                path: path.clone(),
                name: b"user.a".to_vec(),
                value: Some(b"1".to_vec()),
            },
            Effect::Remove { path },
        ],
        ages: vec![0, 0, 0],
        facts: Vec::new(),
        conditions: None,
        cpu_us: 1,
        wall_us: 2,
        units: 3,
    }
}

proptest! {
    #[test]
    fn trees_survive(tree in tree()) {
        let bytes = encode_tree(&tree).unwrap();
        prop_assert_eq!(decode_tree(&bytes).unwrap(), tree);
    }

    #[test]
    fn a_changed_byte_is_noticed(tree in tree(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut bytes = encode_tree(&tree).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        prop_assert!(decode_tree(&bytes).is_err());
    }

    #[test]
    fn a_truncated_tree_is_noticed(tree in tree(), at in any::<prop::sample::Index>()) {
        let bytes = encode_tree(&tree).unwrap();
        prop_assert!(decode_tree(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn no_body_makes_decoding_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::store::check_entry_body(&body);
        prop_assert!(crate::store::check_entry(&body).is_err());
    }

    // Damage behind a valid checksum: only the shape checks remain.
    #[test]
    fn a_changed_body_decodes_safely_or_not_at_all(
        tree in tree(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut body = encode_tree(&tree).unwrap().split_off(HEADER);
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        crate::store::check_entry_body(&body);
    }
}

#[test]
fn outcomes_survive() {
    let bytes = encode_outcome(&outcome()).unwrap();
    assert_eq!(decode_outcome(&bytes).unwrap(), outcome());
}

#[test]
fn a_newer_version_is_told_apart_from_damage() {
    let mut bytes = encode_outcome(&outcome()).unwrap();
    bytes[3] = ENTRY.version + 1;
    assert!(matches!(
        decode_outcome(&bytes),
        Err(DecodeError::Version(version)) if version == ENTRY.version + 1
    ));
}

#[test]
fn common_beginnings_of_paths_are_stored_once() {
    let mut tree = Tree::default();
    let facts = (0..1000)
        .map(|n| Fact {
            query: Query::Content(
                format!("/usr/lib/gcc/x86_64-linux-gnu/14/include/header{n:04}.h")
                    .as_str()
                    .into(),
            ),
            answer: Answer::Error(2),
        })
        .collect();
    tree.insert(
        canonical(vec![facts]).unwrap(),
        OutcomeRef::Inline(vec![]),
        None,
        0,
    );
    let bytes = encode_tree(&tree).unwrap();
    assert!(bytes.len() < 16_000, "{}", bytes.len());
}
