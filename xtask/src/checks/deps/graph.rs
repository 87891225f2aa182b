//! Circles in a small graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which node refers to which.
pub(super) type Edges = BTreeMap<usize, BTreeSet<usize>>;

/// For each group of `nodes` that reach each other, through whatever nodes: one circle, as
/// the nodes on the way from the first back to it, the first not repeated.
pub(super) fn circles(edges: &Edges, nodes: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for &first in nodes {
        if done.contains(&first) {
            continue;
        }
        let group: Vec<usize> = nodes
            .iter()
            .copied()
            .filter(|&other| {
                other != first
                    && way(edges, first, other).is_some()
                    && way(edges, other, first).is_some()
            })
            .collect();
        done.extend(group.iter().copied());
        if let Some(&second) = group.first() {
            let there = way(edges, first, second).unwrap_or_default();
            let back = way(edges, second, first).unwrap_or_default();
            found.push([there, back].concat());
        }
    }
    found
}

/// The nodes of a shortest way, with its start and without its end.
fn way(edges: &Edges, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in edges.get(&at).into_iter().flatten() {
            if next == from || came_from.contains_key(&next) {
                continue;
            }
            came_from.insert(next, at);
            if next == to {
                let mut nodes = Vec::new();
                let mut node = to;
                while node != from {
                    node = came_from[&node];
                    nodes.push(node);
                }
                nodes.reverse();
                return Some(nodes);
            }
            queue.push_back(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_also_through_other_nodes() {
        let edges = Edges::from([
            (1, BTreeSet::from([2])),
            (2, BTreeSet::from([3])),
            (3, BTreeSet::from([1, 4])),
        ]);
        assert_eq!(circles(&edges, &BTreeSet::from([1, 3, 4])), [[1, 2, 3]]);
        assert_eq!(
            circles(&edges, &BTreeSet::from([1, 4])),
            Vec::<Vec<usize>>::new()
        );
    }
}
