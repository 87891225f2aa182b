//! Finds the run and the unit that a user names.

use anyhow::{Context, bail};

use super::text::cut;
use crate::cli::{StoreArgs, open};
use crate::explain::why::Kind;
use crate::journal::{Entry, History, Run};
use crate::model::fate::Fate;
use crate::store::Store;

/// Opens the store and its history.
pub(in crate::cli) fn remembered(args: &StoreArgs) -> anyhow::Result<(Store, History)> {
    let store = open(args, true)?;
    let history = History::read(&store).context("cannot read the journal")?;
    Ok((store, history))
}

/// Returns the index of the run with this name, or of the last run of the working directory.
pub(super) fn chosen(history: &History, run: Option<&str>) -> anyhow::Result<usize> {
    // Without a working directory, this is the last run of all.
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    history.find(run, &here).map_err(anyhow::Error::msg)
}

/// Finds the unit that a user names.
pub(super) fn find_unit(run: &Run, name: &str) -> anyhow::Result<u32> {
    if let Ok(number) = name.parse::<u32>() {
        run.unit(number)
            .with_context(|| format!("run {} has units 1 to {}", run.id(), run.units.len()))?;
        return Ok(number);
    }
    let made = |unit: &Entry| {
        unit.outputs.iter().any(|path| {
            let path = String::from_utf8_lossy(run.text(*path)).into_owned();
            path == name || path.ends_with(&format!("/{}", name.trim_start_matches("./")))
        })
    };
    let last = run.numbered().filter(|(_, unit)| made(unit)).last();
    if let Some((mut number, mut unit)) = last {
        // Parts of another unit are explained by that unit.
        while let Some(Fate::NotStored { reason }) = &unit.fate
            && Kind::of_uncacheable(reason) == Kind::Internal
            && let Some(above) = run.unit(unit.above)
        {
            (number, unit) = (unit.above, above);
        }
        return Ok(number);
    }
    let argv = |unit: &Entry| run.argv(unit);
    let is_program = |unit: &Entry| argv(unit).first().is_some_and(|arg| arg == name.as_bytes());
    let is_called = |unit: &Entry| {
        let plain = String::from_utf8_lossy(&argv(unit).join(&b' ')).into_owned();
        plain.contains(name) || run.command(unit, usize::MAX).contains(name)
    };
    let found = |is_it: &dyn Fn(&Entry) -> bool| -> Vec<(u32, String)> {
        let units = run.numbered().filter(|(_, unit)| is_it(unit));
        units
            .map(|(number, unit)| (number, run.command(unit, usize::MAX)))
            .collect()
    };
    // The script of a shell above it may contain the same text.
    let mut commands = found(&is_program);
    if commands.is_empty() {
        commands = found(&is_called);
    }
    match commands.as_slice() {
        [(number, _)] => Ok(*number),
        [] => bail!(
            "no unit of run {} wrote or is called {name}; pcache graph lists them",
            run.id()
        ),
        several => {
            let mut text = format!("{} units have this name:", several.len());
            for (number, command) in several.iter().take(20) {
                text.push_str(&format!("\n{number:>5}  {}", cut(command, 90)));
            }
            bail!(text)
        }
    }
}
