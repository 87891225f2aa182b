//! The bytes of a result's stream.

use std::sync::Arc;

use super::Store;
use crate::model::outcome::{Outcome, StreamData};

/// Bytes by descriptor number, in order.
pub type Chunks = Vec<(i32, Arc<[u8]>)>;

/// Returns the bytes of an outcome's stream, chunk by chunk.
///
/// # Errors
/// Fails if the store has lost some of them.
pub fn stream(store: &Store, outcome: &Outcome) -> Result<Chunks, String> {
    outcome
        .stream
        .iter()
        .map(|chunk| {
            let bytes = match &chunk.data {
                StreamData::Inline(bytes) | StreamData::Place(bytes) => bytes.clone(),
                StreamData::Stored(digest, _) => {
                    store.get_bytes(digest).map_err(|error| error.to_string())?
                }
            };
            Ok((chunk.fd, bytes.into()))
        })
        .collect()
}
