//! Compares the tree with the list of results that it represents.

use proptest::prelude::*;

use super::*;

/// A fact of a small world: query, answer.
type Small = (u8, u8);

fn query(n: u8) -> Query {
    Query::Content(format!("/dir/{n}").as_str().into())
}

/// 2 means that the file is absent.
fn answer(n: u8) -> Answer {
    match n {
        2 => Answer::Error(libc::ENOENT),
        n => Answer::File(Digest([n; 32])),
    }
}

/// An answer with a file type.
fn kind(n: u8) -> Answer {
    match answer(n) {
        absent @ Answer::Error(_) => absent,
        _ => Answer::Special {
            kind: libc::S_IFREG,
            device: 0,
        },
    }
}

fn facts(batches: &[Vec<Small>]) -> Vec<Vec<Fact>> {
    let fact = |&(q, a): &Small| Fact {
        query: query(q),
        answer: answer(a),
    };
    batches
        .iter()
        .map(|batch| batch.iter().map(fact).collect())
        .collect()
}

fn insert(tree: &mut Tree, batches: &[Vec<Small>], name: u8, today: u32) {
    let batches = canonical(facts(batches)).unwrap();
    tree.insert(batches, OutcomeRef::Inline(vec![name]), None, today);
}

/// Looks up in a world: returns the result's name and its facts.
fn find(tree: &Tree, world: &[u8]) -> Result<(u8, Vec<Fact>), Option<Box<NearMiss>>> {
    let mut asked = Vec::new();
    let mut ask = |asking: &Query| {
        assert!(!asked.contains(asking), "{asking:?} is asked twice");
        asked.push(asking.clone());
        let there = |n: &usize| query(*n as u8).presence().unwrap() == *asking;
        if let Some(index) = (0..world.len()).find(there) {
            return kind(world[index]);
        }
        let index = (0..world.len())
            .find(|&n| query(n as u8) == *asking)
            .unwrap();
        answer(world[index])
    };
    let mut accept = |leaf: &Leaf| match &leaf.outcome {
        OutcomeRef::Inline(bytes) => Some(bytes[0]),
        OutcomeRef::Stored(_) => None,
    };
    lookup(tree, &mut ask, &mut accept)
}

/// Results of runs in different worlds. Each run makes some of the observations, in several
/// batches, with repeated queries.
fn runs() -> impl Strategy<Value = Vec<Vec<Vec<Small>>>> {
    let run = (
        prop::collection::vec(0..3u8, 6),
        prop::collection::vec(prop::collection::vec(0..6u8, 0..4), 0..4),
    );
    let run = run.prop_map(|(world, batches)| {
        let answered = |q: u8| (q, world[usize::from(q)]);
        batches
            .into_iter()
            .map(|batch| batch.into_iter().map(answered).collect())
            .collect()
    });
    // At most a node's number of alternatives, so that nothing is dropped.
    prop::collection::vec(run, 0..=MAX_ALTERNATIVES)
}

fn holds(run: &[Vec<Small>], world: &[u8]) -> bool {
    run.iter()
        .flatten()
        .all(|&(q, a)| world[usize::from(q)] == a)
}

proptest! {
    #[test]
    fn a_lookup_hits_iff_all_facts_of_some_result_hold(
        runs in runs(),
        worlds in prop::collection::vec(prop::collection::vec(0..3u8, 6), 1..20),
    ) {
        let mut tree = Tree::default();
        for (name, run) in runs.iter().enumerate() {
            insert(&mut tree, run, name as u8, 0);
        }
        for world in &worlds {
            let expected = runs.iter().any(|run| holds(run, world));
            match find(&tree, world) {
                Ok((name, facts)) => {
                    let run = &runs[usize::from(name)];
                    prop_assert!(holds(run, world));
                    let mut wanted: Vec<_> = run.iter().flatten().copied().collect();
                    wanted.sort_unstable();
                    wanted.dedup();
                    prop_assert_eq!(facts.len(), wanted.len());
                    for (q, a) in wanted {
                        let fact = Fact { query: query(q), answer: answer(a) };
                        prop_assert!(facts.contains(&fact));
                    }
                }
                Err(miss) => {
                    prop_assert!(!expected);
                    if let Some(miss) = miss {
                        prop_assert!(miss.recorded != miss.found);
                    } else {
                        prop_assert!(runs.is_empty());
                    }
                }
            }
        }
    }

    #[test]
    fn a_bounded_tree_never_hits_wrongly(
        runs in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(0..6u8, 1..4), 0..4), 0..40),
        seeds in prop::collection::vec(prop::collection::vec(0..3u8, 6), 40),
        limit in 1..6usize,
    ) {
        let mut tree = Tree::default();
        let mut named = Vec::new();
        for (name, (run, world)) in runs.iter().zip(&seeds).enumerate() {
            let run: Vec<Vec<Small>> = run
                .iter()
                .map(|batch| batch.iter().map(|&q| (q, world[usize::from(q)])).collect())
                .collect();
            insert(&mut tree, &run, name as u8, 0);
            tree.shrink(limit);
            prop_assert!(tree.leaves().count() <= limit);
            // The newest result is always present.
            prop_assert!(find(&tree, world).is_ok());
            named.push(run);
        }
        for world in &seeds {
            if let Ok((name, _)) = find(&tree, world) {
                prop_assert!(holds(&named[usize::from(name)], world));
            }
        }
    }
}

#[test]
fn a_miss_names_the_first_difference_of_the_closest_result() {
    let mut tree = Tree::default();
    insert(&mut tree, &[vec![(0, 0)], vec![(1, 0), (2, 0)]], 0, 0);
    insert(&mut tree, &[vec![(0, 1)], vec![(1, 0), (2, 0)]], 1, 0);
    let miss = find(&tree, &[0, 0, 2]).unwrap_err().unwrap();
    assert_eq!(
        (miss.query, miss.recorded, miss.found),
        (query(2), answer(0), answer(2))
    );
}

#[test]
fn a_lookup_stops_at_the_first_difference() {
    let mut tree = Tree::default();
    insert(&mut tree, &[vec![(0, 0), (1, 0), (2, 0)]], 0, 0);
    let mut asked = 0;
    let mut ask = |_: &Query| {
        asked += 1;
        answer(9)
    };
    assert!(lookup(&tree, &mut ask, &mut |_| Some(())).is_err());
    assert_eq!(asked, 1);
}

#[test]
fn a_refused_result_does_not_hide_another() {
    let mut tree = Tree::default();
    insert(&mut tree, &[vec![(0, 0)]], 0, 0);
    insert(&mut tree, &[vec![(1, 0)]], 1, 0);
    let mut accept = |leaf: &Leaf| (leaf.serial == 0).then_some(());
    assert!(lookup(&tree, &mut |_| answer(0), &mut accept).is_ok());
}

#[test]
fn the_same_facts_replace_their_result() {
    let mut tree = Tree::default();
    insert(&mut tree, &[vec![(0, 0), (1, 1)]], 0, 0);
    insert(&mut tree, &[vec![(1, 1), (0, 0)]], 1, 0);
    assert_eq!(tree.leaves().count(), 1);
    assert_eq!(find(&tree, &[0, 1]).unwrap().0, 1);
}

#[test]
fn the_least_recently_used_result_is_dropped() {
    let mut tree = Tree::default();
    for n in 0..3 {
        insert(&mut tree, &[vec![(0, n)]], n, u32::from(n));
    }
    let serial = tree.leaves().map(|leaf| leaf.serial).min().unwrap();
    assert!(tree.touch(serial, 9));
    assert!(!tree.touch(serial, 9));
    tree.shrink(2);
    assert!(find(&tree, &[0]).is_ok());
    assert!(find(&tree, &[1]).is_err());
    assert!(find(&tree, &[2]).is_ok());
}

#[test]
fn queries_without_a_result_are_removed() {
    let mut tree = Tree::default();
    insert(&mut tree, &[vec![(0, 0)], vec![(1, 0)]], 0, 0);
    insert(&mut tree, &[vec![(2, 0)]], 1, 1);
    tree.shrink(1);
    assert_eq!(tree.queries, [query(2)]);
    assert_eq!(tree.nodes.len(), 2);
}

#[test]
fn facts_that_can_never_hold_are_refused() {
    let contradiction = canonical(facts(&[vec![(0, 0)], vec![(0, 1)]]));
    assert!(matches!(contradiction, Err(StoreError::Contradiction(_))));
    let unknown = canonical(vec![vec![Fact {
        query: query(0),
        answer: Answer::Unknown("why".into()),
    }]]);
    assert!(matches!(unknown, Err(StoreError::UnknownAnswer(..))));
}

#[test]
fn thousands_of_batches_need_no_deep_stack() {
    let mut tree = Tree::default();
    let batches: Vec<Vec<Fact>> = (0..20_000)
        .map(|n| {
            vec![Fact {
                query: Query::Content(format!("/{n}").as_str().into()),
                answer: answer(0),
            }]
        })
        .collect();
    tree.insert(batches, OutcomeRef::Inline(vec![]), None, 0);
    let (_, facts) = lookup(&tree, &mut |_| answer(0), &mut |_| Some(()))
        .map_err(|_| "a miss")
        .unwrap();
    assert_eq!(facts.len(), 20_000);
}
