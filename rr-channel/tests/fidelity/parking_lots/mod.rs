//! Programs whose nondeterminism lies in the locks of parking_lot: the same ones for each
//! version, and what each calls its things.

pub(crate) mod v12;
pub(crate) mod v13;
