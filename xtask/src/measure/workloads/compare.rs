//! Whether the tree that pcache left is the one that the plain run left.
//!
//! Some builds write down when they ran, so that no two of them leave the same. Which
//! files these are is found out by building plainly, again and again; of them only that
//! is compared in which the plain builds agree, and the report names them.

use std::process::Stdio;

use super::report::Runner;
use super::scenario::Scenario;
use super::{Arena, Bench, Side};
use crate::support::tree::snapshot::{Aspect, Snapshot, Story};
use crate::support::tree::unstable::Unstable;

impl Bench<'_> {
    /// Lists what differs between the plain tree and pcache's, and adds to `unstable`
    /// what plain builds do not agree on.
    ///
    /// # Errors
    ///
    /// When a tree cannot be read, or a plain build fails.
    pub(super) fn compare(
        &self,
        arena: &Arena,
        unstable: &mut Unstable,
    ) -> anyhow::Result<Vec<String>> {
        let mut ours = snapshot(arena, Side::Plain)?;
        let mut theirs = snapshot(arena, Side::Cached)?;
        ours.leave_out(unstable);
        theirs.leave_out(unstable);
        let suspects = ours.parts(&theirs);
        if !suspects.is_empty() {
            unstable.add(&self.unstable(arena, &suspects)?);
            ours.leave_out(unstable);
            theirs.leave_out(unstable);
        }
        let mut differences: Vec<String> = ours
            .differences(&theirs)
            .into_iter()
            .filter_map(|(aspect, line)| (aspect != Aspect::Times).then_some(line))
            .collect();
        let (plain, cached) = (
            self.answer(arena, Side::Plain)?,
            self.answer(arena, Side::Cached)?,
        );
        if plain != cached {
            differences.push(format!(
                "`{}` says {plain:?} plainly, {cached:?} under pcache",
                self.workload.ask
            ));
        }
        Ok(differences)
    }

    /// The build tool's conclusion from a tree. To tell it may write there (make remakes
    /// what a Makefile includes), so both sides are asked equally often.
    fn answer(&self, arena: &Arena, side: Side) -> anyhow::Result<String> {
        arena.live(side, |tree| {
            let output = self
                .shell(arena, tree, Runner::Plain, self.workload.ask)
                .stdin(Stdio::null())
                .output()?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }

    /// The paths on which plain builds do not agree. Builds until all suspects are among that, or
    /// often enough to see the other order of two things.
    fn unstable(&self, arena: &Arena, suspects: &Unstable) -> anyhow::Result<Unstable> {
        let mut found = Unstable::default();
        let mut first: Option<Snapshot> = None;
        for _ in 0..MAX_PLAIN {
            let aside = arena.parked(Side::Plain).with_file_name("kept");
            std::fs::rename(arena.parked(Side::Plain), &aside)?;
            std::fs::create_dir(arena.parked(Side::Plain))?;
            self.take(arena, Scenario::Cold, 0, Side::Plain, Runner::Plain, None)?;
            let snapshot = snapshot(arena, Side::Plain)?;
            let parked = arena.parked(Side::Plain);
            crate::support::tree::set_aside(&parked, &self.yard.aside(), &[])?;
            std::fs::remove_dir(parked)?;
            std::fs::rename(&aside, arena.parked(Side::Plain))?;
            match &first {
                None => first = Some(snapshot),
                Some(first) => found.add(&first.parts(&snapshot)),
            }
            if found.covers(suspects) {
                break;
            }
        }
        Ok(found)
    }
}

fn snapshot(arena: &Arena, side: Side) -> std::io::Result<Snapshot> {
    Snapshot::take(&arena.parked(side), &Story::default(), 0)
}

/// Plain builds that must agree on a file before it counts as deterministic.
const MAX_PLAIN: usize = 8;
