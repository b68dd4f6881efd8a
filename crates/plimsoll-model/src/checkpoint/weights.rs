//! Weights as bytes and back.

use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Tensor};

use crate::error::{ModelError, Result};
use crate::network::Network;

/// Characters that are shown of what Burn says about a record: it may list every weight of the network.
const MAX_FOUND_CHARACTERS: usize = 200;

/// A network's weights in Burn's format.
pub(super) fn weight_bytes(network: &Network, folder: &Path) -> Result<Vec<u8>> {
    let bytes = network.clone().into_record().into_bytes();
    let bytes = bytes.map_err(|error| ModelError::Checkpoint {
        path: folder.into(),
        expected: "weights that can be written".into(),
        found: shortened(&error.to_string()),
    })?;
    Ok(bytes.to_vec())
}

/// The hash by which a description knows its weights.
pub(super) fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Refuses other bytes than those that were hashed. A flipped bit in a weight is a number like any other: nothing
/// else would tell.
pub(super) fn check_hash(bytes: &[u8], expected: &str, path: &Path) -> Result<()> {
    let found = hash_of(bytes);
    if expected.is_empty() || expected == found {
        return Ok(());
    }
    Err(ModelError::Checkpoint {
        path: path.into(),
        expected: format!("weights with the hash that checkpoint.json tells, {expected}"),
        found,
    })
}

/// Puts weights from bytes into a network of the same form.
pub(super) fn parse_weights(bytes: Vec<u8>, path: &Path, network: Network) -> Result<Network> {
    let damaged = |expected: &str, found: String| ModelError::Checkpoint {
        path: path.into(),
        expected: expected.into(),
        found: shortened(&found),
    };
    let expected = "weights of the network that checkpoint.json describes";
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes));
    let record = record.map_err(|error| damaged(expected, error.to_string()))?;
    let network = network.try_load_record(record).map_err(|error| damaged(expected, error.to_string()))?;
    let mut strays = Strays { count: 0 };
    network.visit(&mut strays);
    match strays.count {
        0 => Ok(network),
        count => Err(damaged("finite weights", format!("{count} that are NaN or infinite"))),
    }
}

/// Counts weights that are NaN or infinite: they would make every estimate so.
struct Strays {
    count: usize,
}

impl ModuleVisitor for Strays {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.count += param.val().into_data().iter::<f32>().filter(|weight| !weight.is_finite()).count();
    }
}

/// The start of a text that may be long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_FOUND_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_texts_are_cut() {
        let short = "é".repeat(MAX_FOUND_CHARACTERS);
        assert_eq!(shortened(&short), short);
        assert_eq!(shortened(&format!("{short}é")), format!("{short}..."));
    }
}
