//! In-process checks that stop a replayed task at a recorded execution point.

pub(super) mod check;
mod relocated;
