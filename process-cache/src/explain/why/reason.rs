//! Describes reasons in words.

use serde::Serialize;

use super::Cause;

/// The kind of difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The content of a file.
    Content,
    /// A file exists that was absent.
    Appeared,
    /// A file is absent that existed.
    Gone,
    /// An argument.
    Argument,
    /// An environment variable.
    Variable,
    /// The working directory.
    Directory,
    /// The program itself, or its interpreter.
    Program,
    /// The target of a symbolic link.
    Link,
    /// Names in a directory.
    Listing,
    /// Permissions.
    Permission,
    /// Other metadata.
    Metadata,
    /// Another property of the file system.
    Other,
    /// Inherited descriptors.
    Descriptor,
    /// Ids, masks, signals, affinity, limits.
    Process,
    /// The machine: processor, personality, user ids.
    Machine,
    /// The time of a file that is compared with others.
    Touched,
    /// The order of the times of files.
    Order,
    /// The unit is never stored, for this reason.
    Uncacheable,
    /// The unit belongs to its parent, which is looked up as a whole.
    Internal,
    /// The unit takes less time than its lookup would.
    Short,
    /// No similar unit ran before.
    New,
    /// Its result is no longer in the store.
    Lost,
    /// A result was found but could not be used.
    Unusable,
    /// The unit was not looked up.
    NotLookedUp,
}

impl Kind {
    /// Returns the kind of an uncacheable reason.
    pub fn of_uncacheable(reason: &str) -> Self {
        if reason == crate::engine::unit::TOO_SHORT {
            Self::Short
        } else if reason == crate::engine::unit::INTERNAL {
            Self::Internal
        } else {
            Self::Uncacheable
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Its kind.
    pub kind: Kind,
    /// Its subject: a path, the name of a variable, an argument, or a description.
    pub subject: String,
    /// The old value, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Whether the unit makes this file itself: its presence says more about the earlier run than
    /// about a change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_product: bool,
    /// The cause of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

impl Reason {
    /// Creates a reason without values.
    pub fn new(kind: Kind, subject: impl Into<String>) -> Self {
        Self {
            kind,
            subject: subject.into(),
            old: None,
            new: None,
            own_product: false,
            cause: None,
        }
    }

    /// Adds values.
    pub fn values(mut self, old: Option<String>, new: Option<String>) -> Self {
        (self.old, self.new) = (old, new);
        self
    }

    /// Returns a rank that is smaller for more informative reasons.
    pub fn rank(&self) -> (bool, bool, Kind) {
        let is_last = self.kind == Kind::Uncacheable;
        (self.own_product, is_last, self.kind)
    }

    /// Returns the reason at the end of the chain of causes: this one, or the reason why the unit
    /// that caused the change ran, and so on.
    pub fn root(&self) -> &Self {
        match &self.cause {
            Some(Cause::Unit {
                because: Some(because),
                ..
            }) => because.root(),
            _ => self,
        }
    }

    /// Whether the subject is the path of a file.
    pub fn is_about_a_file(&self) -> bool {
        matches!(
            self.kind,
            Kind::Content
                | Kind::Program
                | Kind::Appeared
                | Kind::Gone
                | Kind::Link
                | Kind::Listing
                | Kind::Permission
                | Kind::Metadata
                | Kind::Touched
                | Kind::Other
        )
    }

    /// Returns one line without the values. Paths below `base` are shown relative to it.
    pub fn headline(&self, base: &str) -> String {
        let subject = match self.subject.strip_prefix(base) {
            Some(below) if self.is_about_a_file() && !base.is_empty() => {
                below.strip_prefix('/').filter(|rest| !rest.is_empty())
            }
            _ => None,
        }
        .unwrap_or(&self.subject);
        let product = if self.own_product {
            " (its own product)"
        } else {
            ""
        };
        match self.kind {
            Kind::Content => format!("{subject} changed{product}"),
            Kind::Appeared => format!("{subject} appeared{product}"),
            Kind::Gone => format!("{subject} is gone{product}"),
            Kind::Argument => match (&self.old, &self.new) {
                (Some(old), Some(new)) => format!("argument {new} instead of {old}"),
                (None, Some(new)) => format!("new argument {new}"),
                (Some(old), None) => format!("argument {old} is gone"),
                (None, None) => format!("arguments in another order: {subject}"),
            },
            Kind::Variable => match (&self.old, &self.new) {
                (Some(_), Some(_)) => format!("variable {subject} changed"),
                (None, _) => format!("variable {subject} is set"),
                (_, None) => format!("variable {subject} is not set"),
            },
            Kind::Directory => "another working directory".to_owned(),
            Kind::Program => format!("program {subject} changed"),
            Kind::Link => format!("link {subject} changed"),
            Kind::Listing => format!("names in {subject} changed{product}"),
            Kind::Permission => format!("permissions of {subject} changed{product}"),
            Kind::Metadata => format!("metadata of {subject} changed{product}"),
            Kind::Touched => format!("{subject} is newer, with the same content"),
            Kind::Uncacheable => format!("not cached: {subject}"),
            Kind::Internal => "covered by the unit above".to_owned(),
            Kind::Short => "too short to cache".to_owned(),
            Kind::NotLookedUp => format!("not looked up: {subject}"),
            Kind::Other
            | Kind::Descriptor
            | Kind::Process
            | Kind::Machine
            | Kind::Order
            | Kind::New
            | Kind::Lost
            | Kind::Unusable => subject.to_owned(),
        }
    }

    /// Returns old and new value, if the headline does not contain them.
    pub fn detail(&self) -> Option<String> {
        if self.kind == Kind::Argument {
            return None;
        }
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => Some(format!("{old} → {new}")),
            (None, Some(new)) => Some(format!("now {new}")),
            (Some(old), None) => Some(format!("was {old}")),
            (None, None) => None,
        }
    }
}
