//! Prediction of the next event: the model that reader and writer share, and the few events that
//! it foresees.

mod model;
mod ring;

pub(crate) use model::{Foreseen, Model, put_varint, take_varint, unzigzag, zigzag};
pub(crate) use ring::Ring;
