//! The decision tree under one weak key.
//!
//! A node asks a canonically sorted batch of queries, and may have several alternative batches
//! (racing processes observe in different orders). An edge represents one vector of answers to the
//! batch; a leaf holds a result. Results with the same first observations share that part of the
//! tree.
//!
//! Edges of one batch differ in few answers, so they are stored as differences from one base
//! vector. Sixty results over three thousand headers cost little more than one, and matching is
//! one comparison per query with the base. If the digest of its answers alone named an edge, a
//! lookup would have to ask the whole batch before it could detect that the first answer had
//! changed. It also could not name that answer.
//!
//! **Invariant:** nodes are in a vector in which a child comes after its parent and has only one
//! parent. So a walk of a tree terminates and needs no recursion (a run may have thousands of
//! batches). This module does no I/O.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::error::{Result, StoreError};
use crate::model::fact::{Answer, Digest, Fact, Query};

/// Maximal number of alternative batches of a node, newest first.
pub(crate) const MAX_ALTERNATIVES: usize = 8;
/// Maximal number of results of a tree, most recently used first.
pub(crate) const MAX_LEAVES: usize = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tree {
    pub(crate) queries: Vec<Query>,
    pub(crate) answers: Vec<Answer>,
    /// The root first; empty for an empty tree.
    pub(crate) nodes: Vec<Node>,
    /// The serial number of the next leaf.
    pub(crate) serial: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) leaf: Option<Leaf>,
    /// Newest first.
    pub(crate) alternatives: Vec<Alternative>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alternative {
    /// Indices of queries, in the order of [`Query`].
    pub(crate) batch: Vec<u32>,
    /// Indices of answers, one for each query.
    pub(crate) base: Vec<u32>,
    /// Newest first.
    pub(crate) edges: Vec<Edge>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Edge {
    /// Answers that differ from the base: (position in the batch, answer), by position.
    pub(crate) diffs: Vec<(u32, u32)>,
    /// Index of its child node.
    pub(crate) child: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) outcome: OutcomeRef,
    /// The day (since the epoch) of its last use.
    pub(crate) used: u32,
    /// Identifies the leaf; later ones are larger.
    pub(crate) serial: u64,
    /// One of its facts, if any: a [`Query::presence`] that must fail with `ENOENT`. It
    /// contradicts the result's own effects, so the result does not hold after itself.
    pub(crate) absent: Option<Query>,
}

/// The location of the encoded outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OutcomeRef {
    Inline(Vec<u8>),
    Stored(Digest),
}

/// The nodes of a tree, as a lookup reads them.
pub(crate) trait Source {
    /// The nodes.
    fn nodes(&self) -> &[Node];
    /// Returns the number of queries.
    fn questions(&self) -> usize;
    /// Returns the query with this index.
    fn query(&self, index: u32) -> Query;
    /// Returns the answer with this index.
    fn answer(&self, index: u32) -> Answer;
}

/// The first failing fact on the most promising path.
#[derive(Debug)]
pub(crate) struct NearMiss {
    /// Number of facts that held before it.
    pub(crate) depth: usize,
    pub(crate) query: Query,
    pub(crate) recorded: Answer,
    pub(crate) found: Answer,
}

/// A position on the way down.
struct Frame {
    node: usize,
    /// The alternative to try next.
    next: usize,
    /// The batch and edge that led here.
    via: Option<(usize, usize)>,
    /// Number of facts on the way to this node.
    depth: usize,
}

impl Edge {
    /// Returns the edge's answer at one position of the batch.
    fn answer(&self, base: &[u32], place: usize) -> u32 {
        let found = self
            .diffs
            .binary_search_by_key(&place, |&(place, _)| place as usize);
        found.map_or(base[place], |index| self.diffs[index].1)
    }
}

impl Alternative {
    /// Returns all answers of an edge.
    fn answers(&self, edge: &Edge) -> Vec<u32> {
        let mut answers = self.base.clone();
        for &(place, answer) in &edge.diffs {
            answers[place as usize] = answer;
        }
        answers
    }
}

/// Sorts each batch and removes duplicates.
///
/// # Errors
/// A contradiction, or an unknown answer: such facts can never hold.
pub(crate) fn canonical(mut batches: Vec<Vec<Fact>>) -> Result<Vec<Vec<Fact>>> {
    for batch in &mut batches {
        batch.sort_by(|a, b| a.query.cmp(&b.query));
    }
    let count = batches.iter().map(Vec::len).sum();
    let mut known: FxHashMap<&Query, &Answer> = FxHashMap::default();
    known.reserve(count);
    let mut is_new = Vec::with_capacity(count);
    for fact in batches.iter().flatten() {
        if let Answer::Unknown(reason) = &fact.answer {
            let query = Box::new(fact.query.clone());
            return Err(StoreError::UnknownAnswer(query, reason.clone()));
        }
        let before = known.insert(&fact.query, &fact.answer);
        if before.is_some_and(|answer| *answer != fact.answer) {
            return Err(StoreError::Contradiction(Box::new(fact.query.clone())));
        }
        is_new.push(before.is_none());
    }
    let mut is_new = is_new.into_iter();
    for batch in &mut batches {
        batch.retain(|_| is_new.next().unwrap_or(false));
    }
    batches.retain(|batch| !batch.is_empty());
    Ok(batches)
}

impl Source for Tree {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn questions(&self) -> usize {
        self.queries.len()
    }

    fn query(&self, index: u32) -> Query {
        self.queries[index as usize].clone()
    }

    fn answer(&self, index: u32) -> Answer {
        self.answers[index as usize].clone()
    }
}

/// Looks for a leaf whose facts all hold. Asks only needed queries, and each once. `accept` may
/// refuse a leaf (its contents are gone); then the search continues.
pub(crate) fn lookup<T>(
    tree: &impl Source,
    ask: &mut dyn FnMut(&Query) -> Answer,
    accept: &mut dyn FnMut(&Leaf) -> Option<T>,
) -> std::result::Result<(T, Vec<Fact>), Option<Box<NearMiss>>> {
    if tree.nodes().is_empty() {
        return Err(None);
    }
    let mut memo = vec![Known::Nothing; tree.questions()];
    let mut nearest: Option<Box<NearMiss>> = None;
    let mut path = vec![Frame {
        node: 0,
        next: 0,
        via: None,
        depth: 0,
    }];
    while let Some(frame) = path.last_mut() {
        let node = &tree.nodes()[frame.node];
        if frame.next == 0
            && let Some(leaf) = &node.leaf
            && let Some(accepted) = accept(leaf)
        {
            return Ok((accepted, facts(tree, &path)));
        }
        let (index, depth) = (frame.next, frame.depth);
        frame.next += 1;
        let Some(alternative) = node.alternatives.get(index) else {
            path.pop();
            continue;
        };
        match matching(tree, alternative, depth, &mut memo, ask) {
            Ok(edge) => path.push(Frame {
                node: alternative.edges[edge].child as usize,
                next: 0,
                via: Some((index, edge)),
                depth: depth + alternative.batch.len(),
            }),
            Err(Some(miss)) if nearest.as_ref().is_none_or(|best| miss.depth > best.depth) => {
                nearest = Some(miss);
            }
            Err(_) => {}
        }
    }
    Err(nearest)
}

/// Returns the edge whose answers hold, or the fact that ruled out the last edge, `depth` facts
/// below the root.
fn matching(
    tree: &impl Source,
    alternative: &Alternative,
    depth: usize,
    memo: &mut [Known],
    ask: &mut dyn FnMut(&Query) -> Answer,
) -> std::result::Result<usize, Option<Box<NearMiss>>> {
    // Possible edges, each with its next difference from the base.
    let mut alive: Vec<(usize, usize)> = (0..alternative.edges.len()).map(|e| (e, 0)).collect();
    let upcoming = |alive: &[(usize, usize)]| {
        let next = |&(edge, next): &(usize, usize)| alternative.edges[edge].diffs.get(next);
        alive
            .iter()
            .filter_map(next)
            .map(|&(at, _)| at as usize)
            .min()
    };
    // Up to this position, all of them agree with the base.
    let mut soonest = upcoming(&alive);
    for (place, (&query, &base)) in alternative.batch.iter().zip(&alternative.base).enumerate() {
        let base = tree.answer(base);
        let settled = soonest.is_none_or(|soonest| place < soonest);
        let known = &mut memo[query as usize];
        if settled && base == Answer::Error(libc::ENOENT) {
            if let Known::Nothing = known
                && let Some(presence) = tree.query(query).presence()
            {
                match ask(&presence) {
                    absent @ Answer::Error(_) => *known = Known::Answer(absent),
                    there if there.is_presence() => *known = Known::There(there),
                    _ => {}
                }
            }
            if let Known::There(there) = known {
                return Err(Some(Box::new(NearMiss {
                    depth: depth + place,
                    query: tree.query(query),
                    recorded: base,
                    found: there.clone(),
                })));
            }
        }
        if !matches!(known, Known::Answer(_)) {
            *known = Known::Answer(ask(&tree.query(query)));
        }
        let Known::Answer(found) = &*known else {
            return Err(None);
        };
        let as_base = base == *found;
        if as_base && settled {
            continue;
        }
        let newest = alive.first().copied();
        alive.retain_mut(
            |(edge, next)| match alternative.edges[*edge].diffs.get(*next) {
                Some(&(at, answer)) if at as usize == place => {
                    *next += 1;
                    tree.answer(answer) == *found
                }
                _ => as_base,
            },
        );
        soonest = upcoming(&alive);
        if alive.is_empty() {
            return Err(newest.map(|(edge, _)| {
                let recorded = alternative.edges[edge].answer(&alternative.base, place);
                Box::new(NearMiss {
                    depth: depth + place,
                    query: tree.query(query),
                    recorded: tree.answer(recorded),
                    found: found.clone(),
                })
            }));
        }
    }
    alive.first().map(|&(edge, _)| edge).ok_or(None)
}

/// The answer to a query, as far as a lookup knows it.
#[derive(Debug, Clone)]
enum Known {
    Nothing,
    /// The answer of [`Query::presence`]: a file exists.
    There(Answer),
    Answer(Answer),
}

/// If a file must be absent for each result of a tree, and all these files exist, returns the fact
/// that rules out the first result.
pub(crate) fn ruled_out(
    absent: &[Query],
    ask: &mut dyn FnMut(&Query) -> Answer,
) -> Option<Box<NearMiss>> {
    let mut found = None;
    for query in absent {
        let there = Some(ask(query)).filter(Answer::is_presence)?;
        found.get_or_insert((query, there));
    }
    found.map(|(query, found)| {
        Box::new(NearMiss {
            depth: 0,
            query: query.clone(),
            recorded: Answer::Error(libc::ENOENT),
            found,
        })
    })
}

/// Returns the facts along a path.
fn facts(tree: &impl Source, path: &[Frame]) -> Vec<Fact> {
    let mut facts = Vec::with_capacity(path.last().map_or(0, |frame| frame.depth));
    for pair in path.windows(2) {
        let Some((alternative, edge)) = pair[1].via else {
            continue;
        };
        facts.extend(alternative_facts(
            tree,
            &tree.nodes()[pair[0].node].alternatives[alternative],
            edge,
        ));
    }
    facts
}

/// Returns the facts of one edge.
fn alternative_facts(
    tree: &impl Source,
    alternative: &Alternative,
    edge: usize,
) -> impl Iterator<Item = Fact> {
    let answers = alternative.answers(&alternative.edges[edge]);
    alternative
        .batch
        .iter()
        .zip(answers)
        .map(|(&query, answer)| Fact {
            query: tree.query(query),
            answer: tree.answer(answer),
        })
}

impl Tree {
    /// Creates a tree whose leaves have numbers from `serial` on.
    pub(crate) fn from_serial(serial: u64) -> Self {
        Self {
            serial,
            ..Self::default()
        }
    }

    /// Adds all results of another tree, as the newest.
    pub(crate) fn absorb(&mut self, other: &Self) {
        // Oldest first: each becomes the newest.
        let mut results = other.results();
        results.sort_by_key(|(_, leaf)| leaf.serial);
        for (batches, leaf) in results {
            self.insert_leaf(batches, leaf.clone());
        }
        self.serial = self.serial.max(other.serial);
    }

    /// Returns all results with the batches that lead to them.
    pub(crate) fn results(&self) -> Vec<(Vec<Vec<Fact>>, &Leaf)> {
        let mut results = Vec::new();
        let mut open = vec![(0_usize, Vec::new())];
        while let Some((index, batches)) = open.pop() {
            let Some(node) = self.nodes.get(index) else {
                continue;
            };
            for alternative in &node.alternatives {
                for (at, edge) in alternative.edges.iter().enumerate() {
                    let mut batches: Vec<Vec<Fact>> = batches.clone();
                    batches.push(alternative_facts(self, alternative, at).collect());
                    open.push((edge.child as usize, batches));
                }
            }
            if let Some(leaf) = &node.leaf {
                results.push((batches, leaf));
            }
        }
        results
    }

    /// Adds a result with [`canonical`] batches as the newest; a result with the same facts is
    /// replaced. For `absent` see [`Leaf`].
    pub(crate) fn insert(
        &mut self,
        batches: Vec<Vec<Fact>>,
        outcome: OutcomeRef,
        absent: Option<Query>,
        today: u32,
    ) {
        let leaf = Leaf {
            outcome,
            used: today,
            serial: self.serial,
            absent,
        };
        self.serial = self.serial.wrapping_add(1);
        self.insert_leaf(batches, leaf);
        self.shrink(MAX_LEAVES);
    }

    fn insert_leaf(&mut self, batches: Vec<Vec<Fact>>, leaf: Leaf) {
        let mut ids = Interner::new(self, batches.iter().map(Vec::len).sum());
        let batches: Vec<(Vec<u32>, Vec<u32>)> = batches
            .into_iter()
            .map(|batch| batch.into_iter().map(|fact| ids.add(self, fact)).unzip())
            .collect();
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = 0;
        for (batch, answers) in batches {
            node = self.descend(node, batch, answers);
        }
        self.nodes[node].leaf = Some(leaf);
    }

    /// Returns the child of `node` with these answers. The child is created if necessary, and
    /// moved to the front.
    fn descend(&mut self, node: usize, batch: Vec<u32>, answers: Vec<u32>) -> usize {
        let fresh = self.nodes.len();
        let alternatives = &mut self.nodes[node].alternatives;
        match alternatives.iter().position(|known| known.batch == batch) {
            Some(index) => alternatives[..=index].rotate_right(1),
            None => {
                alternatives.insert(
                    0,
                    Alternative {
                        batch,
                        base: answers.clone(),
                        edges: Vec::new(),
                    },
                );
                alternatives.truncate(MAX_ALTERNATIVES);
            }
        }
        let alternative = &mut alternatives[0];
        let diffs: Vec<(u32, u32)> = (0u32..)
            .zip(answers.iter().zip(&alternative.base))
            .filter(|(_, (answer, base))| answer != base)
            .map(|(place, (&answer, _))| (place, answer))
            .collect();
        let edges = &mut alternative.edges;
        if let Some(index) = edges.iter().position(|edge| edge.diffs == diffs) {
            edges[..=index].rotate_right(1);
            edges[0].child as usize
        } else {
            let child = fresh as u32;
            edges.insert(0, Edge { diffs, child });
            self.nodes.push(Node::default());
            fresh
        }
    }

    /// Renews a leaf's use mark; returns whether the leaf exists and its mark was older.
    pub(crate) fn touch(&mut self, serial: u64, today: u32) -> bool {
        let leaf = self
            .nodes
            .iter_mut()
            .filter_map(|node| node.leaf.as_mut())
            .find(|leaf| leaf.serial == serial);
        leaf.is_some_and(|leaf| std::mem::replace(&mut leaf.used, today) < today)
    }

    /// Returns all reachable leaves.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.nodes.iter().filter_map(|node| node.leaf.as_ref())
    }

    /// Keeps the `limit` most recently used leaves, and removes unused branches, queries and
    /// answers.
    pub(crate) fn shrink(&mut self, limit: usize) {
        let order = self.reachable();
        let mut uses: Vec<(u32, u64)> = order
            .iter()
            .filter_map(|&node| self.nodes[node].leaf.as_ref())
            .map(|leaf| (leaf.used, leaf.serial))
            .collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = uses.get(limit.max(1) - 1).copied().unwrap_or_default();
        // Children come after their parents, so a backward pass decides them first.
        let mut useful = vec![false; self.nodes.len()];
        for &index in order.iter().rev() {
            let node = &mut self.nodes[index];
            if let Some(leaf) = &node.leaf
                && (leaf.used, leaf.serial) < oldest
            {
                node.leaf = None;
            }
            for alternative in &mut node.alternatives {
                alternative.edges.retain(|edge| useful[edge.child as usize]);
            }
            node.alternatives
                .retain(|alternative| !alternative.edges.is_empty());
            useful[index] = node.leaf.is_some() || !node.alternatives.is_empty();
        }
        self.compact();
    }

    /// Returns the reachable nodes, parents first.
    fn reachable(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        if !self.nodes.is_empty() {
            order.push(0);
        }
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            let alternatives = &self.nodes[node].alternatives;
            let edges = alternatives
                .iter()
                .flat_map(|alternative| &alternative.edges);
            order.extend(edges.map(|edge| edge.child as usize));
        }
        order
    }

    /// Renumbers nodes, queries and answers without the unused ones. The newest edge becomes the
    /// base of its batch.
    fn compact(&mut self) {
        let order = self.reachable();
        let mut place = vec![0u32; self.nodes.len()];
        for (new, &old) in (0u32..).zip(&order) {
            place[old] = new;
        }
        let mut queries = Renumber::new(std::mem::take(&mut self.queries));
        let mut answers = Renumber::new(std::mem::take(&mut self.answers));
        let mut nodes = std::mem::take(&mut self.nodes);
        for &old in &order {
            let mut node = std::mem::take(&mut nodes[old]);
            for alternative in &mut node.alternatives {
                let base = alternative.answers(&alternative.edges[0]);
                for edge in &mut alternative.edges {
                    edge.child = place[edge.child as usize];
                    rebase(edge, &alternative.base, &base);
                    for (_, answer) in &mut edge.diffs {
                        *answer = answers.number(*answer);
                    }
                }
                alternative.base = base;
                for answer in &mut alternative.base {
                    *answer = answers.number(*answer);
                }
                for query in &mut alternative.batch {
                    *query = queries.number(*query);
                }
            }
            self.nodes.push(node);
        }
        self.queries = queries.kept;
        self.answers = answers.kept;
    }
}

/// Expresses an edge's answers as differences from `new` instead of `old`.
fn rebase(edge: &mut Edge, old: &[u32], new: &[u32]) {
    if old == new {
        return;
    }
    let diffs = (0u32..)
        .zip(new)
        .map(|(place, &base)| (place, edge.answer(old, place as usize), base))
        .filter(|(_, answer, base)| answer != base)
        .map(|(place, answer, _)| (place, answer))
        .collect();
    edge.diffs = diffs;
}

/// Assigns new numbers to used items, in the order of first use.
struct Renumber<T> {
    old: Vec<Option<T>>,
    numbers: Vec<u32>,
    kept: Vec<T>,
}

impl<T> Renumber<T> {
    fn new(old: Vec<T>) -> Self {
        Self {
            numbers: vec![u32::MAX; old.len()],
            kept: Vec::with_capacity(old.len()),
            old: old.into_iter().map(Some).collect(),
        }
    }

    fn number(&mut self, old: u32) -> u32 {
        let index = old as usize;
        if let Some(value) = self.old[index].take() {
            self.numbers[index] = self.kept.len() as u32;
            self.kept.push(value);
        }
        self.numbers[index]
    }
}

/// Finds or creates the indices of a fact's query and answer.
struct Interner {
    queries: FxHashMap<Query, u32>,
    answers: FxHashMap<Answer, u32>,
}

impl Interner {
    /// Creates one with room for `more` items.
    fn new(tree: &Tree, more: usize) -> Self {
        let mut queries = FxHashMap::default();
        queries.reserve(tree.queries.len() + more);
        queries.extend(tree.queries.iter().cloned().zip(0..));
        let mut answers = FxHashMap::default();
        answers.reserve(tree.answers.len() + more);
        answers.extend(tree.answers.iter().cloned().zip(0..));
        Self { queries, answers }
    }

    fn add(&mut self, tree: &mut Tree, fact: Fact) -> (u32, u32) {
        let query = number(&mut self.queries, &mut tree.queries, fact.query);
        let answer = number(&mut self.answers, &mut tree.answers, fact.answer);
        (query, answer)
    }
}

/// Returns the index of `one` in `all`; appends it if it is missing.
fn number<T: Clone + Eq + Hash>(known: &mut FxHashMap<T, u32>, all: &mut Vec<T>, one: T) -> u32 {
    let next = all.len() as u32;
    *known.entry(one).or_insert_with_key(|one| {
        all.push(one.clone());
        next
    })
}

#[cfg(test)]
mod tests;
