//! Planted defects: known errors, switched on one at a time.
//!
//! They show that the differential test detects errors. With the feature `planted-defects`,
//! `PCACHE_DEFECT=<name>` makes the implementation drop one kind of fact or effect, and the test
//! must find each of them. Without the feature, [`planted`] is constant.

macro_rules! defects {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// One planted defect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Defect { $(#[doc = $name] $variant),* }

        /// All defects by name.
        pub const ALL: &[(&str, Defect)] = &[$(($name, Defect::$variant)),*];
    };
}

defects! {
    ContentFact = "drop-content-fact",
    AbsenceFact = "drop-absence-fact",
    StatFact = "drop-stat-fact",
    ListFact = "drop-list-fact",
    LinkFact = "drop-link-fact",
    AccessFact = "drop-access-fact",
    OrderFact = "drop-order-fact",
    TargetFact = "drop-target-fact",
    ExecutableFact = "drop-executable-fact",
    StdinFact = "drop-stdin-fact",
    EnvironmentKey = "drop-environment",
    DirectoryKey = "drop-working-directory",
    ClockDoubt = "trust-clock",
    WriteEffect = "drop-write-effect",
    RemoveEffect = "drop-remove-effect",
    DirectoryEffect = "drop-directory-effect",
    SymlinkEffect = "drop-symlink-effect",
    ModeEffect = "drop-mode-effect",
    StreamOrder = "merge-streams",
    ExitStatus = "drop-exit-status",
    AppendEffect = "append-as-write",
    TimeEffect = "drop-time-effect",
    OutsiderOutput = "trust-outsiders",
    ForeignNamespace = "skip-in-namespaces",
    KilledOutside = "trust-killed",
    MomentFailure = "trust-moment-failures",
    TruncateFact = "drop-truncate-fact",
    LinkedResource = "take-links-for-their-targets",
    DefaultAclFact = "ignore-default-acl",
    AttributeFact = "drop-attributes",
    LinkTimeEffect = "drop-link-times",
    DirectoryTimeEffect = "drop-directory-times",
    OutputAge = "outputs-as-old-as-sources",
    MountFact = "drop-mount-fact",
    AppendedContent = "ignore-appended-content",
    AppendedSize = "ignore-appended-size",
    FailingFlags = "trust-failing-flags",
    ShortTransfer = "trust-short-transfers",
    DirectoryPlace = "trust-places-of-directories",
    InheritedPlace = "trust-places-of-inherited-files",
}

/// Whether this defect is switched on.
#[cfg(feature = "planted-defects")]
pub fn planted(defect: Defect) -> bool {
    static ACTIVE: std::sync::OnceLock<Option<Defect>> = std::sync::OnceLock::new();
    *ACTIVE.get_or_init(|| {
        let name = std::env::var("PCACHE_DEFECT").ok()?;
        ALL.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, defect)| *defect)
    }) == Some(defect)
}

/// Whether this defect is switched on: never, without the feature.
#[cfg(not(feature = "planted-defects"))]
pub const fn planted(_: Defect) -> bool {
    false
}
