//! Reasons in words.

use serde::Serialize;

use super::Cause;

/// The kind of thing that differed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The content of a file.
    Content,
    /// Something is where nothing was.
    Appeared,
    /// Nothing is where something was.
    Gone,
    /// An argument.
    Argument,
    /// An environment variable.
    Variable,
    /// The working directory.
    Directory,
    /// The program itself, or its interpreter.
    Program,
    /// Where a symbolic link points.
    Link,
    /// Names in a directory.
    Listing,
    /// Permissions.
    Permission,
    /// Other metadata.
    Metadata,
    /// Something else that was asked of the file system.
    Other,
    /// Inherited descriptors.
    Descriptor,
    /// Ids, masks, signals, affinity, limits.
    Process,
    /// The machine: processor, personality, user ids.
    Machine,
    /// The time of a file, which is compared with others.
    Touched,
    /// The order of the times of files.
    Order,
    /// It is never stored, for this reason.
    Uncacheable,
    /// It is covered by the unit above, which is looked up as a whole.
    Internal,
    /// It takes less time than looking it up would.
    Short,
    /// Nothing like it ran before.
    New,
    /// Its result was there once.
    Lost,
    /// A result was found but could not be used.
    Unusable,
    /// It was not looked up.
    NotLookedUp,
}

impl Kind {
    /// The kind of a reason not to store a unit.
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

/// One thing that differed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Its kind.
    pub kind: Kind,
    /// Which one: a path, the name of a variable, an argument, or all in words.
    pub subject: String,
    /// The old value, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The unit makes this itself: that it was there already tells more about the
    /// earlier run than about what changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_product: bool,
    /// The cause of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

impl Reason {
    /// A reason without more.
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

    /// The same with values.
    pub fn values(mut self, old: Option<String>, new: Option<String>) -> Self {
        (self.old, self.new) = (old, new);
        self
    }

    /// Smaller for those that tell more.
    pub fn rank(&self) -> (bool, bool, Kind) {
        let is_last = self.kind == Kind::Uncacheable;
        (self.own_product, is_last, self.kind)
    }

    /// The reason at the end of the chain of causes: this one, or why the unit ran
    /// that changed this, and so on.
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

    /// One line without the values. Paths below `base` are shown from there.
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

    /// Old and new value, if there is something that the headline does not say.
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
