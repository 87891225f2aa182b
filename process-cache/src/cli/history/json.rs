//! Past runs as JSON.

use serde_json::{Value, json};

use super::text::{base, effect_words, fact_words};
use crate::explain::why::Reason;
use crate::journal::{Entry, Run, secrets};
use crate::model::fate::Fate;
use crate::model::outcome::Ending;
use crate::store::Recorded;

/// The version of all JSON documents here.
pub(in crate::cli) const VERSION: u32 = 1;

pub(super) fn run_json(run: &Run) -> Value {
    let hits = run
        .units
        .iter()
        .filter(|unit| matches!(unit.fate, Some(Fate::Hit { .. })))
        .count();
    json!({
        "id": run.id(),
        "began_us": run.began,
        "wall_us": run.wall_us,
        "command": run.unit(1).map(|unit| texts(secrets::shown(run.argv(unit)))),
        "directory": base(run),
        "ending": match run.ending {
            Ending::Exited(status) => json!({ "status": status }),
            Ending::Killed(signal) => json!({ "signal": signal }),
        },
        "strict": run.mode.strict,
        "refresh": run.mode.refresh,
        "units": run.units.len(),
        "hits": hits,
        "saved_us": run.saved_us(),
    })
}

pub(super) fn texts(list: Vec<Vec<u8>>) -> Vec<String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    list.into_iter().map(text).collect()
}

/// Returns a unit with its result, and the reason.
pub(in crate::cli) fn unit_json(run: &Run, number: u32, unit: &Entry, reasons: &[Reason]) -> Value {
    let (result, more) = match &unit.fate {
        Some(Fate::Hit {
            recorded_us,
            took_us,
            units,
        }) => (
            "hit",
            json!({ "recorded_us": recorded_us, "took_us": took_us, "units": units }),
        ),
        Some(Fate::Stored) => ("stored", json!({})),
        Some(Fate::NotStored { reason }) => ("not_stored", json!({ "reason": reason })),
        None => ("unfinished", json!({})),
    };
    let mut value = json!({
        "unit": number,
        "above": unit.above,
        "depth": run.depth(number),
        "command": texts(secrets::shown(run.argv(unit))),
        "program": String::from_utf8_lossy(run.text(unit.program)),
        "directory": String::from_utf8_lossy(run.text(unit.cwd)),
        "key": unit.key.map(|key| key.to_string()),
        "began_us": unit.began_us,
        "wall_us": unit.wall_us,
        "result": result,
        "miss": unit.miss.to_string(),
        "reasons": reasons,
        "outputs": unit.outputs.iter()
            .map(|path| String::from_utf8_lossy(run.text(*path)).into_owned())
            .collect::<Vec<_>>(),
    });
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

/// Returns the facts and effects of a result.
pub(super) fn result_json(result: Option<&Recorded>) -> Value {
    json!({
        "facts": result.map(|result| result.facts.iter().map(|fact| {
            let (question, subject, answer) = fact_words(fact);
            json!({ "question": question, "subject": subject, "answer": answer })
        }).collect::<Vec<_>>()),
        "effects": result.and_then(|result| result.outcome.as_ref()).map(|outcome| {
            outcome.effects.iter().map(|effect| {
                let (what, more) = effect_words(effect);
                json!({
                    "effect": what,
                    "path": effect.path().display().to_string(),
                    "detail": more,
                })
            }).collect::<Vec<_>>()
        }),
    })
}
