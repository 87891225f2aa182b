//! Encoded values decode to themselves, and no other bytes decode.

use proptest::prelude::*;

use super::*;
use crate::model::fact::TimeUse;
use crate::model::outcome::{Effect, Ending, StreamChunk, StreamData, Time};
use crate::remote::check::check_remote;

fn set(names: &[&str]) -> PathSet {
    PathSet::new(
        names
            .iter()
            .map(|name| Query::Content((*name).into()))
            .collect(),
    )
}

/// Without hints.
fn alone(sets: &[PathSet]) -> Sets {
    Sets {
        sets: sets.to_vec(),
        hints: Vec::new(),
    }
}

fn stored() -> Stored {
    let digest = Digest(*blake3::hash(b"x").as_bytes());
    let outcome = Outcome {
        ending: Ending::Exited(3),
        stream: vec![StreamChunk {
            fd: 1,
            data: StreamData::Inline(b"text".to_vec()),
        }],
        positions: vec![(0, 7)],
        flags: vec![(2, 1024)],
        effects: vec![
            Effect::Write {
                path: "/w/x".into(),
                content: digest,
                length: 1,
                holes: false,
                mode: None,
                create_mode: 0o644,
                fresh: true,
                time: Time::Present,
            },
            Effect::Remove {
                path: "/w/y".into(),
            },
        ],
        ages: Vec::new(),
        facts: Vec::new(),
        conditions: None,
        cpu_us: 1,
        wall_us: 2,
        units: 3,
    };
    Stored {
        outcome,
        contents: vec![Content {
            digest,
            hash: [7; 32],
            length: 1,
        }],
    }
}

#[test]
fn encoded_path_sets_decode_to_the_same() {
    let sets = vec![set(&["/b", "/a", "/b"]), set(&[]), set(&["/c"])];
    let mut sets = alone(&sets);
    sets.sets.push(PathSet(vec![Query::OneMount {
        paths: ["/a".into(), "/b".into()],
        device: true,
    }]));
    sets.hints.push(Hint {
        near: Key([1; 32]),
        result: Key([2; 32]),
        contents: stored().contents,
    });
    let bytes = encode_sets(&sets).unwrap();
    assert_eq!(decode_sets(&bytes).unwrap(), sets);
    let bytes = encode_result(&stored()).unwrap();
    assert_eq!(decode_result(&bytes).unwrap(), stored());
}

#[test]
fn the_order_of_queries_does_not_change_a_set() {
    assert_eq!(set(&["/a", "/b"]), set(&["/b", "/a", "/a"]));
}

#[test]
fn results_and_sets_do_not_decode_as_each_other() {
    let bytes = encode_result(&stored()).unwrap();
    assert!(matches!(decode_sets(&bytes), Err(FormError::Magic)));
    let bytes = encode_sets(&alone(&[set(&["/a"])])).unwrap();
    assert!(matches!(decode_result(&bytes), Err(FormError::Magic)));
    let mut newer = bytes;
    newer[3] = VERSION + 1;
    assert!(matches!(decode_sets(&newer), Err(FormError::Version(_))));
}

#[test]
fn damage_is_noticed_or_harmless() {
    for bytes in [
        encode_result(&stored()).unwrap(),
        encode_sets(&alone(&[set(&["/a"])])).unwrap(),
    ] {
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let _ = (decode_result(&damaged), decode_sets(&damaged));
            }
            assert!(decode_result(&bytes[..at]).is_err());
            assert!(decode_sets(&bytes[..at]).is_err());
        }
    }
}

#[test]
fn decompression_stops_at_the_encoding_limit() {
    let zeros = vec![0_u8; (MAX_UNPACKED + 1) as usize];
    let bomb = zstd::bulk::compress(&zeros, 19).unwrap();
    assert!(bomb.len() < 10_000);
    for magic in [SETS, RESULT] {
        let bytes = [&magic[..], &[VERSION], &bomb].concat();
        assert!(decode_sets(&bytes).is_err());
        let error = decode_result(&bytes).unwrap_err();
        assert!(
            matches!(error, FormError::Large | FormError::Magic),
            "{error}"
        );
    }
}

#[test]
fn a_list_with_an_excessive_length_prefix_is_refused() {
    // Each empty path takes two bytes here, and a hundred in memory.
    let query = postcard::to_stdvec(&Query::Content("".into())).unwrap();
    let mut plain = postcard::to_stdvec(&1_usize).unwrap();
    plain.extend(postcard::to_stdvec(&(MAX_ITEMS + 1)).unwrap());
    plain.extend(query.repeat(MAX_ITEMS + 1));
    let packed = zstd::bulk::compress(&plain, 1).unwrap();
    let bytes = [&SETS[..], &[VERSION], &packed].concat();
    let error = decode_sets(&bytes).unwrap_err();
    assert!(matches!(error, FormError::Damaged(_)), "{error}");
}

#[test]
fn the_oldest_sets_are_dropped_first() {
    let many: Vec<PathSet> = (0..20).map(|n| set(&[&format!("/{n}")])).collect();
    let bytes = encode_sets(&alone(&many)).unwrap();
    assert_eq!(decode_sets(&bytes).unwrap().sets, many[..MAX_SETS]);
    let large = |n: usize| {
        let names =
            (0..MAX_ITEMS / 2 - 1).map(|k| Query::Content(format!("/{n}/{k}").as_str().into()));
        PathSet::new(names.collect())
    };
    let sets = [large(0), large(1), large(2)];
    let bytes = encode_sets(&alone(&sets)).unwrap();
    assert_eq!(decode_sets(&bytes).unwrap().sets.len(), 2);
}

#[test]
fn keys_differ_if_any_part_differs() {
    let weak = |n| WeakKey(Digest([n; 32]));
    let answers = [Answer::Granted];
    let key = |weak, set: &PathSet, answers: &[Answer]| Key::of_result(&weak, set, answers);
    let one = key(weak(1), &set(&["/a"]), &answers);
    assert!(one.is_some());
    assert_eq!(one, key(weak(1), &set(&["/a"]), &answers));
    assert_ne!(one, key(weak(2), &set(&["/a"]), &answers));
    assert_ne!(one, key(weak(1), &set(&["/b"]), &answers));
    assert_ne!(one, key(weak(1), &set(&["/a"]), &[Answer::Directory]));
    assert_ne!(one, Some(Key::of_sets(&weak(1))));
    let other = PathSet::new(vec![Query::Stat {
        path: "/a".into(),
        follow: true,
        time: TimeUse::None,
    }]);
    assert_ne!(one, key(weak(1), &other, &answers));
}

#[test]
fn an_unknown_answer_gives_no_result_key() {
    let unknown = [Answer::Unknown("why".to_owned())];
    let weak = WeakKey(Digest([1; 32]));
    assert_eq!(Key::of_result(&weak, &set(&["/a"]), &unknown), None);
}

#[test]
fn near_queries_exclude_system_files() {
    let near = |names: &[&str]| set(names).near().cloned().collect::<Vec<_>>();
    let (project, system) = ("/home/me/project/a.c", "/usr/include/stdio.h");
    assert_eq!(near(&[project, system]), set(&[project]).0);
    assert_eq!(near(&["/lib64/ld.so", "/etc/passwd"]), []);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_remote(&bytes);
        for magic in [SETS, RESULT] {
            let packed = zstd::bulk::compress(&bytes, 1).unwrap();
            check_remote(&[&magic[..], &[VERSION], &packed].concat());
        }
    }
}
