//! Printed layer summaries: the tables of torchsummary and torchinfo.
//!
//! Such a table has layers, output shapes and parameter counts. It has no edges, no strides and no operations
//! outside modules, so the graph is a reading of it: every row reads the row before, unless its parameter count or
//! shape needs another input; then it reads the nearest earlier row that fits. Where shapes tell that a
//! concatenation, a sum, a gate or a reshape stood between two rows it is put in, and where they only tell that
//! something did, a node `unprinted` of an unknown operator stands for it. The parameters are exactly the printed
//! ones.
//!
//! What cannot be told is assumed: nothing works in place, kernels are odd and square, attention is fused with
//! heads of 64. A table that prints more columns (torchinfo's input size and kernel size) leaves less to assume.
//! torchsummary prints a block's own row like a layer's, after the block's layers; a row of an unknown class without
//! parameters whose output is what its layers computed is taken for a block.

mod assemble;
mod bridge;
mod cells;
mod conv;
mod conv_input;
mod kinds;
mod layer;
mod network;
mod rows;
mod table;
mod torchinfo;
mod torchsummary;
mod weights;
mod window;

use crate::error::Result;
use crate::graph::Graph;

/// Longer names of modules are not names.
const MAX_NAME_LENGTH: usize = 256;

/// Reads a printed summary; `what` names the text in errors.
///
/// # Errors
/// A text without a table, rows that cannot be read, a table that is cut off, parameters that do not sum to the
/// printed total, and everything [`Graph::new`] refuses.
pub fn parse(text: &str, what: &str) -> Result<Graph> {
    let table = table::read(text, what)?;
    // torchsummary does not print the model's name; the file's is the next best.
    let file = what.rsplit(['/', '\\']).next().unwrap_or(what);
    let name = file.split_once('.').map_or(file, |(stem, _)| stem);
    assemble::assemble(&table, name, what)
}

/// Whether a text looks like a printed summary.
pub fn is_summary(text: &str) -> bool {
    text.lines().any(table::is_header)
}
