//! The stored form of trees and outcomes.
//!
//! Both are [frames](super::frame) with a postcard body. Paths form a sorted table in which each
//! entry stores the length of its common prefix with the previous one. Digests form a table as
//! well. These two tables are most of a tree's data.
//!
//! The body of a tree begins with paths that must be absent for its results, if every result has
//! such a path. A finished build finds its outputs at these paths, and the rest need not be read.
//!
//! A file of trees is a sequence of frames, so that a frame can be added without reading the
//! others. Most lookups are decided by few queries of a tree: a [`Packed`] tree decodes queries on
//! demand.
//!
//! **Invariant:** for any input bytes, decoding returns an error or a tree whose indices are in
//! range and whose shape follows [`super::tree`].

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub(crate) use super::frame::{DecodeError, HEADER};
use super::frame::{DecodeError::Damaged, Kind};
use super::tree::{Node, Source, Tree};
use crate::model::fact::{Answer, Digest, Metadata, Part, Query, TimeUse};
use crate::model::outcome::Outcome;
use crate::model::path::FilePath;

/// Trees and outcomes.
pub(super) const ENTRY: Kind = Kind {
    magic: *b"pcu",
    version: 11,
};
/// The maximal decoded size of all paths, however small the encoded form is (bytes).
const MAX_PATH_BYTES: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
struct TreeForm<'a> {
    /// (bytes shared with the previous path, the remaining bytes).
    #[serde(borrow)]
    paths: Vec<(u32, &'a [u8])>,
    /// 32 bytes each.
    digests: &'a [u8],
    queries: Vec<QueryForm<'a>>,
    answers: Vec<AnswerForm>,
    nodes: Vec<Node>,
    serial: u64,
}

/// A [`Query`] with indices for paths.
#[derive(Serialize, Deserialize)]
enum QueryForm<'a> {
    Content(u32),
    Stat(u32, bool, TimeUse),
    Access(u32, i32, bool, bool),
    Link(u32),
    List(u32),
    RealPath(u32),
    Target(u32),
    Order(Vec<u32>),
    StatFs(u32),
    Xattr(u32, bool, &'a [u8]),
    Kind(u32, bool),
    Permissions(u32),
    Inode(u32, bool),
    Replaced(u32),
    LeftOut(Part),
    Inherited(u32),
    Attributes(u32),
    OneMount([u32; 2], bool),
}

/// An [`Answer`] with indices for paths and digests.
#[derive(Serialize, Deserialize)]
enum AnswerForm {
    Error(i32),
    File(u32),
    Directory,
    Special(u32, u64),
    Metadata(MetadataForm),
    Granted,
    Path(u32),
    Summary(u32),
    Writable,
}

#[derive(Serialize, Deserialize)]
struct MetadataForm {
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    links: u64,
    modified: i128,
    changed: i128,
    inode: (u64, u64),
    content: Option<u32>,
}

/// Returns the length of the frame with this header, header included.
///
/// # Errors
/// Fails if no frame of this version begins here.
pub(crate) fn frame_len(header: &[u8]) -> Result<u64, DecodeError> {
    ENTRY.len(header)
}

/// Returns the frames of a file, and the error at the rest of the file, if there is one. Checksums
/// are not compared yet.
pub(crate) fn frames(mut bytes: &[u8]) -> (Vec<&[u8]>, Option<DecodeError>) {
    let mut frames = Vec::new();
    while !bytes.is_empty() || frames.is_empty() {
        let length = match frame_len(bytes) {
            Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
            Err(error) => return (frames, Some(error)),
        };
        let Some((frame, rest)) = bytes.split_at_checked(length) else {
            return (frames, Some(Damaged("its end is missing")));
        };
        frames.push(frame);
        bytes = rest;
    }
    (frames, None)
}

pub(crate) fn encode_outcome(outcome: &Outcome) -> postcard::Result<Vec<u8>> {
    ENTRY.seal(|bytes| postcard::to_extend(outcome, bytes))
}

pub(crate) fn decode_outcome(bytes: &[u8]) -> Result<Outcome, DecodeError> {
    decode_outcome_body(ENTRY.unseal(bytes)?)
}

/// Decodes the part after the header, for fuzzing.
pub(crate) fn decode_outcome_body(body: &[u8]) -> Result<Outcome, DecodeError> {
    Ok(postcard::from_bytes(body)?)
}

pub(crate) fn encode_tree(tree: &Tree) -> postcard::Result<Vec<u8>> {
    let tables = Tables::new(tree);
    let mut before: &[u8] = &[];
    let mut paths = Vec::with_capacity(tables.paths.len());
    for &path in &tables.paths {
        let shared = path.iter().zip(before).take_while(|(a, b)| a == b).count();
        paths.push((shared as u32, &path[shared..]));
        before = path;
    }
    let form = TreeForm {
        paths,
        digests: tables.digests.as_flattened(),
        queries: tree
            .queries
            .iter()
            .map(|query| tables.query(query))
            .collect(),
        answers: tree
            .answers
            .iter()
            .filter_map(|answer| tables.answer(answer))
            .collect(),
        nodes: tree.nodes.clone(),
        serial: tree.serial,
    };
    if form.answers.len() != tree.answers.len() {
        // An unknown answer, which is refused when results are recorded.
        return Err(postcard::Error::WontImplement);
    }
    // Every result needs one, or the tree has no such list.
    let absent: Option<Vec<&Query>> = tree.leaves().map(|leaf| leaf.absent.as_ref()).collect();
    let mut absent = absent.unwrap_or_default();
    absent.sort_unstable();
    absent.dedup();
    ENTRY.seal(|bytes| postcard::to_extend(&form, postcard::to_extend(&absent, bytes)?))
}

pub(crate) fn decode_tree(bytes: &[u8]) -> Result<Tree, DecodeError> {
    decode_tree_body(ENTRY.unseal(bytes)?)
}

/// Decodes the part after the header, for fuzzing.
pub(crate) fn decode_tree_body(body: &[u8]) -> Result<Tree, DecodeError> {
    let packed = Opened::of_body(body)?.tree()?;
    Ok(Tree {
        queries: (0..packed.queries.len() as u32)
            .map(|index| packed.query(index))
            .collect(),
        answers: (0..packed.answers.len() as u32)
            .map(|index| packed.answer(index))
            .collect(),
        nodes: packed.nodes,
        serial: packed.serial,
    })
}

/// A tree's frame that has been verified, but not yet decoded.
pub(crate) struct Opened<'a> {
    /// For each result of the tree, a query that must fail with `ENOENT`; empty if some result has
    /// no such query.
    pub(crate) absent: Vec<Query>,
    tree: &'a [u8],
}

impl<'a> Opened<'a> {
    /// # Errors
    /// Returns the defect of the frame.
    pub(crate) fn of(frame: &'a [u8]) -> Result<Self, DecodeError> {
        Self::of_body(ENTRY.unseal(frame)?)
    }

    fn of_body(body: &'a [u8]) -> Result<Self, DecodeError> {
        let (absent, tree) = postcard::take_from_bytes(body)?;
        Ok(Self { absent, tree })
    }

    /// # Errors
    /// Returns the defect of the tree.
    pub(crate) fn tree(&self) -> Result<Packed<'a>, DecodeError> {
        Packed::of(self.tree)
    }
}

/// A tree whose queries and answers are decoded on demand.
pub(crate) struct Packed<'a> {
    /// All paths in one buffer, with their ends.
    paths: Vec<u8>,
    ends: Vec<usize>,
    digests: &'a [[u8; 32]],
    queries: Vec<QueryForm<'a>>,
    answers: Vec<AnswerForm>,
    nodes: Vec<Node>,
    serial: u64,
}

impl<'a> Packed<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let form: TreeForm<'a> = postcard::from_bytes(bytes)?;
        let (paths, ends) = unfold(&form.paths)?;
        let (digests, []) = form.digests.as_chunks::<32>() else {
            return Err(Damaged("half a digest"));
        };
        let packed = Self {
            paths,
            ends,
            digests,
            queries: form.queries,
            answers: form.answers,
            nodes: form.nodes,
            serial: form.serial,
        };
        let has_path = |index: u32| (index as usize) < packed.ends.len();
        let has_digest = |index: u32| (index as usize) < packed.digests.len();
        if !packed.queries.iter().all(|query| query.names(has_path)) {
            return Err(Damaged("no such path"));
        }
        if !packed
            .answers
            .iter()
            .all(|answer| answer.names(has_path, has_digest))
        {
            return Err(Damaged("no such path or digest"));
        }
        check_shape(&packed.nodes, packed.queries.len(), packed.answers.len())?;
        Ok(packed)
    }

    /// Returns the path with this index, which was checked.
    fn path(&self, index: u32) -> FilePath {
        let index = index as usize;
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        FilePath::from(&self.paths[from..self.ends[index]])
    }

    /// Returns the digest with this index, which was checked.
    fn digest(&self, index: u32) -> Digest {
        Digest(self.digests[index as usize])
    }
}

impl Source for Packed<'_> {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn questions(&self) -> usize {
        self.queries.len()
    }

    fn query(&self, index: u32) -> Query {
        self.queries[index as usize].query(&|path| self.path(path))
    }

    fn answer(&self, index: u32) -> Answer {
        let (path, digest) = (|path| self.path(path), |digest| self.digest(digest));
        self.answers[index as usize].answer(&path, &digest)
    }
}

/// Expands shared prefixes: returns all paths in one buffer, with their ends.
fn unfold(forms: &[(u32, &[u8])]) -> Result<(Vec<u8>, Vec<usize>), DecodeError> {
    let mut paths: Vec<u8> = Vec::new();
    let mut ends = Vec::with_capacity(forms.len());
    let mut before = 0..0;
    for (shared, rest) in forms {
        let shared = *shared as usize;
        if shared > before.len() {
            return Err(Damaged("a path shares more than there is"));
        }
        if paths.len() + shared + rest.len() > MAX_PATH_BYTES {
            return Err(Damaged("its paths are too long"));
        }
        let from = paths.len();
        paths.extend_from_within(before.start..before.start + shared);
        paths.extend_from_slice(rest);
        before = from..paths.len();
        ends.push(paths.len());
    }
    Ok((paths, ends))
}

/// Checks the invariants on which a walk of a tree with so many queries and answers relies.
fn check_shape(nodes: &[Node], queries: usize, answers: usize) -> Result<(), DecodeError> {
    let mut parents = vec![0u32; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for alternative in &node.alternatives {
            let length = alternative.batch.len();
            let asks = alternative
                .batch
                .iter()
                .all(|&query| (query as usize) < queries);
            let bases = alternative
                .base
                .iter()
                .all(|&answer| (answer as usize) < answers);
            if !asks || !bases || alternative.base.len() != length {
                return Err(Damaged("a batch is out of range"));
            }
            if length == 0 || alternative.edges.is_empty() {
                return Err(Damaged("a batch is empty"));
            }
            for edge in &alternative.edges {
                let child = edge.child as usize;
                let ordered = edge.diffs.is_sorted_by(|a, b| a.0 < b.0);
                let in_range = edge.diffs.iter().all(|&(place, answer)| {
                    (place as usize) < length && (answer as usize) < answers
                });
                if !ordered || !in_range || child <= index || child >= nodes.len() {
                    return Err(Damaged("an edge is out of range"));
                }
                parents[child] += 1;
            }
        }
    }
    if parents.iter().skip(1).any(|&count| count != 1) {
        return Err(Damaged("a node without one parent"));
    }
    Ok(())
}

/// Tables of paths and digests for encoding.
struct Tables<'t> {
    /// Sorted.
    paths: Vec<&'t [u8]>,
    path_numbers: FxHashMap<&'t [u8], u32>,
    digests: Vec<[u8; 32]>,
    digest_numbers: FxHashMap<Digest, u32>,
}

impl<'t> Tables<'t> {
    fn new(tree: &'t Tree) -> Self {
        let mut paths: Vec<&[u8]> = Vec::with_capacity(tree.queries.len());
        for query in &tree.queries {
            paths.extend(query.paths().iter().map(FilePath::as_bytes));
        }
        let mut digests = Vec::new();
        let mut digest_numbers = FxHashMap::default();
        for answer in &tree.answers {
            let digest = match answer {
                Answer::Path(path) => {
                    paths.push(path.as_bytes());
                    continue;
                }
                Answer::File(digest) | Answer::Summary(digest) => *digest,
                Answer::Metadata(metadata) => match metadata.content {
                    Some(digest) => digest,
                    None => continue,
                },
                _ => continue,
            };
            digest_numbers.entry(digest).or_insert_with(|| {
                digests.push(digest.0);
                digests.len() as u32 - 1
            });
        }
        paths.sort_unstable();
        paths.dedup();
        let path_numbers = paths.iter().copied().zip(0..).collect();
        Self {
            paths,
            path_numbers,
            digests,
            digest_numbers,
        }
    }

    fn path(&self, path: &FilePath) -> u32 {
        self.path_numbers
            .get(path.as_bytes())
            .copied()
            .unwrap_or(u32::MAX)
    }

    fn digest(&self, digest: &Digest) -> u32 {
        self.digest_numbers.get(digest).copied().unwrap_or(u32::MAX)
    }

    fn query<'q>(&self, query: &'q Query) -> QueryForm<'q> {
        match query {
            Query::Content(path) => QueryForm::Content(self.path(path)),
            Query::Stat { path, follow, time } => QueryForm::Stat(self.path(path), *follow, *time),
            Query::Access {
                path,
                mode,
                effective,
                follow,
            } => QueryForm::Access(self.path(path), *mode, *effective, *follow),
            Query::Link(path) => QueryForm::Link(self.path(path)),
            Query::List(path) => QueryForm::List(self.path(path)),
            Query::RealPath(path) => QueryForm::RealPath(self.path(path)),
            Query::Target(path) => QueryForm::Target(self.path(path)),
            Query::Replaced(path) => QueryForm::Replaced(self.path(path)),
            Query::Order(paths) => {
                QueryForm::Order(paths.iter().map(|path| self.path(path)).collect())
            }
            Query::Kind { path, follow } => QueryForm::Kind(self.path(path), *follow),
            Query::Permissions(path) => QueryForm::Permissions(self.path(path)),
            Query::Inode { path, follow } => QueryForm::Inode(self.path(path), *follow),
            Query::StatFs(path) => QueryForm::StatFs(self.path(path)),
            Query::Xattr { path, follow, name } => QueryForm::Xattr(self.path(path), *follow, name),
            Query::LeftOut(part) => QueryForm::LeftOut(*part),
            Query::Inherited(path) => QueryForm::Inherited(self.path(path)),
            Query::Attributes(path) => QueryForm::Attributes(self.path(path)),
            Query::OneMount { paths, device } => {
                QueryForm::OneMount(paths.each_ref().map(|path| self.path(path)), *device)
            }
        }
    }

    /// Returns `None` for an unknown answer, which has no stored form.
    fn answer(&self, answer: &Answer) -> Option<AnswerForm> {
        Some(match answer {
            Answer::Error(errno) => AnswerForm::Error(*errno),
            Answer::File(digest) => AnswerForm::File(self.digest(digest)),
            Answer::Directory => AnswerForm::Directory,
            Answer::Special { kind, device } => AnswerForm::Special(*kind, *device),
            Answer::Metadata(metadata) => AnswerForm::Metadata(MetadataForm {
                mode: metadata.mode,
                uid: metadata.uid,
                gid: metadata.gid,
                size: metadata.size,
                links: metadata.links,
                modified: metadata.modified,
                changed: metadata.changed,
                inode: metadata.inode,
                content: metadata.content.as_ref().map(|digest| self.digest(digest)),
            }),
            Answer::Granted => AnswerForm::Granted,
            Answer::Path(path) => AnswerForm::Path(self.path(path)),
            Answer::Summary(digest) => AnswerForm::Summary(self.digest(digest)),
            Answer::Writable => AnswerForm::Writable,
            Answer::Unknown(_) => return None,
        })
    }
}

type Find<'f, T> = &'f dyn Fn(u32) -> T;

impl QueryForm<'_> {
    /// Whether all its paths exist.
    fn names(&self, has_path: impl Fn(u32) -> bool) -> bool {
        match self {
            Self::Content(at)
            | Self::Stat(at, ..)
            | Self::Access(at, ..)
            | Self::Link(at)
            | Self::List(at)
            | Self::RealPath(at)
            | Self::Target(at)
            | Self::Replaced(at)
            | Self::Kind(at, _)
            | Self::Permissions(at)
            | Self::Inode(at, _)
            | Self::StatFs(at)
            | Self::Inherited(at)
            | Self::Attributes(at)
            | Self::Xattr(at, ..) => has_path(*at),
            Self::Order(several) => several.iter().all(|at| has_path(*at)),
            Self::OneMount(two, _) => two.iter().all(|at| has_path(*at)),
            Self::LeftOut(_) => true,
        }
    }

    fn query(&self, path: Find<'_, FilePath>) -> Query {
        match self {
            Self::Content(at) => Query::Content(path(*at)),
            Self::Stat(at, follow, time) => Query::Stat {
                path: path(*at),
                follow: *follow,
                time: *time,
            },
            Self::Access(at, mode, effective, follow) => Query::Access {
                path: path(*at),
                mode: *mode,
                effective: *effective,
                follow: *follow,
            },
            Self::Link(at) => Query::Link(path(*at)),
            Self::List(at) => Query::List(path(*at)),
            Self::RealPath(at) => Query::RealPath(path(*at)),
            Self::Target(at) => Query::Target(path(*at)),
            Self::Replaced(at) => Query::Replaced(path(*at)),
            Self::Order(several) => Query::Order(several.iter().map(|at| path(*at)).collect()),
            Self::Kind(at, follow) => Query::Kind {
                path: path(*at),
                follow: *follow,
            },
            Self::Permissions(at) => Query::Permissions(path(*at)),
            Self::Inode(at, follow) => Query::Inode {
                path: path(*at),
                follow: *follow,
            },
            Self::StatFs(at) => Query::StatFs(path(*at)),
            Self::Xattr(at, follow, name) => Query::Xattr {
                path: path(*at),
                follow: *follow,
                name: name.to_vec(),
            },
            Self::LeftOut(part) => Query::LeftOut(*part),
            Self::Inherited(at) => Query::Inherited(path(*at)),
            Self::Attributes(at) => Query::Attributes(path(*at)),
            Self::OneMount(two, device) => Query::OneMount {
                paths: two.map(path),
                device: *device,
            },
        }
    }
}

impl AnswerForm {
    /// Whether all its paths and digests exist.
    fn names(&self, has_path: impl Fn(u32) -> bool, has_digest: impl Fn(u32) -> bool) -> bool {
        match self {
            Self::Path(at) => has_path(*at),
            Self::File(at) | Self::Summary(at) => has_digest(*at),
            Self::Metadata(form) => form.content.is_none_or(has_digest),
            Self::Error(_)
            | Self::Directory
            | Self::Special(..)
            | Self::Granted
            | Self::Writable => true,
        }
    }

    fn answer(&self, path: Find<'_, FilePath>, digest: Find<'_, Digest>) -> Answer {
        match self {
            Self::Error(errno) => Answer::Error(*errno),
            Self::File(at) => Answer::File(digest(*at)),
            Self::Directory => Answer::Directory,
            Self::Special(kind, device) => Answer::Special {
                kind: *kind,
                device: *device,
            },
            Self::Metadata(form) => Answer::Metadata(Box::new(Metadata {
                mode: form.mode,
                uid: form.uid,
                gid: form.gid,
                size: form.size,
                links: form.links,
                modified: form.modified,
                changed: form.changed,
                inode: form.inode,
                content: form.content.map(digest),
            })),
            Self::Granted => Answer::Granted,
            Self::Path(at) => Answer::Path(path(*at)),
            Self::Summary(at) => Answer::Summary(digest(*at)),
            Self::Writable => Answer::Writable,
        }
    }
}

#[cfg(test)]
mod tests;
