//! Reads a model without its weights.
//!
//! What a training step needs of a weight is its shape. So the bytes of a file are walked message by message, and what
//! is copied out for decoding is the structure alone: a tensor's elements are skipped where there are many, as if they
//! lay in a file of their own (which is how large models are stored anyway). Names of scopes stay, other metadata and
//! documentation go.

use std::fs::File;
use std::io::{BufReader, Read};

use prost::Message;
use prost::encoding::encode_varint;

use crate::error::{OnnxError, Result};
use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto,
};

/// Nodes of all graphs and functions.
const MAX_NODES: u64 = 200_000;
/// What the decoded structure may take, roughly.
const MAX_STRUCTURE_BYTES: u64 = 256 << 20;
/// Graphs in nodes in graphs.
const MAX_DEPTH: u32 = 24;
/// Elements of tensors up to this size are kept: constants that shapes are computed from are small.
const MAX_KEPT_BYTES: u64 = 16 << 10;
/// Elements that are looked at to see whether all are equal.
const HEAD_BYTES: u64 = 64 << 10;
/// What a message or field takes beside its content.
const OVERHEAD_BYTES: u64 = 48;
/// Key under which a skipped tensor says that all its elements are equal.
pub(crate) const UNIFORM_KEY: &str = "plimsoll.uniform";

/// The model in a stream of bytes; `length` is how many there are.
pub(crate) fn read(reader: &mut impl Pass, length: u64, what: &str) -> Result<ModelProto> {
    let mut walk = Walk { reader, what, position: 0, charged: 0, nodes: 0 };
    let bytes = walk.message(length, Kind::Model, 0)?;
    ModelProto::decode(bytes.as_slice()).map_err(|error| OnnxError::Malformed {
        what: what.into(),
        at: "its structure".into(),
        expected: "the messages of ONNX".into(),
        found: error.to_string(),
    })
}

/// Messages that the walk knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
    SparseTensor,
    Metadata,
    /// Any other, whose fields are not looked into.
    Plain,
}

/// What becomes of a field.
enum Fate {
    Keep,
    Drop,
    Follow(Kind),
    /// Elements of a tensor.
    Elements,
}

impl Kind {
    /// What a message takes when it is decoded, empty as it may be.
    const fn decoded_bytes(self) -> u64 {
        let bytes = match self {
            Self::Node => size_of::<NodeProto>(),
            Self::Attribute => size_of::<AttributeProto>(),
            Self::Tensor => size_of::<TensorProto>(),
            Self::SparseTensor => size_of::<SparseTensorProto>(),
            Self::Function => size_of::<FunctionProto>(),
            Self::Graph => size_of::<GraphProto>(),
            Self::Model | Self::Metadata | Self::Plain => size_of::<ValueInfoProto>(),
        };
        bytes as u64
    }

    fn fate(self, field: u64) -> Fate {
        use Fate::{Drop, Elements, Follow, Keep};
        match (self, field) {
            (Self::Model, 7) => Follow(Self::Graph),
            (Self::Model, 25) => Follow(Self::Function),
            // Training graphs, metadata and documentation say nothing of the forward pass.
            (Self::Model, 6 | 14 | 20) | (Self::Graph, 10 | 14 | 16) => Drop,
            (Self::Graph, 1) | (Self::Function, 7) => Follow(Self::Node),
            (Self::Graph, 5) => Follow(Self::Tensor),
            (Self::Graph, 11..=13) => Follow(Self::Plain),
            (Self::Graph, 15) | (Self::Attribute, 22) => Follow(Self::SparseTensor),
            (Self::Function, 8) | (Self::Node, 6) | (Self::Attribute, 13) | (Self::Tensor, 12) => Drop,
            (Self::Function, 11) | (Self::Node, 5) => Follow(Self::Attribute),
            (Self::Node, 9) => Follow(Self::Metadata),
            (Self::Attribute, 5 | 10) | (Self::SparseTensor, 1 | 2) => Follow(Self::Tensor),
            (Self::Attribute, 6 | 11) => Follow(Self::Graph),
            (Self::Tensor, 4..=7 | 9..=11) => Elements,
            _ => Keep,
        }
    }
}

/// What can pass over bytes without reading them.
pub(crate) trait Pass: Read {
    /// Passes over bytes; an error if there are not as many.
    fn pass(&mut self, bytes: u64) -> std::io::Result<()>;
}

impl Pass for &[u8] {
    fn pass(&mut self, bytes: u64) -> std::io::Result<()> {
        let rest = usize::try_from(bytes).ok().and_then(|bytes| self.get(bytes..));
        *self = rest.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}

impl Pass for BufReader<File> {
    fn pass(&mut self, bytes: u64) -> std::io::Result<()> {
        // The walk never asks for more than the file's length.
        i64::try_from(bytes).map_or(Err(std::io::ErrorKind::UnexpectedEof.into()), |bytes| self.seek_relative(bytes))
    }
}

/// Whether bytes repeat every eight, as equal elements do; zeros may be negative.
pub(crate) fn is_uniform(bytes: &[u8]) -> bool {
    let Some(first) = bytes.first_chunk::<8>() else { return true };
    let is_repeated = bytes.chunks(8).all(|part| part == &first[..part.len()]);
    is_repeated || bytes.chunks(4).all(|word| matches!(word, [0, 0, 0, 0 | 0x80]))
}

struct Walk<'a, R> {
    reader: &'a mut R,
    what: &'a str,
    position: u64,
    charged: u64,
    nodes: u64,
}

impl<R: Pass> Walk<'_, R> {
    /// A message of a length, without what is not needed.
    fn message(&mut self, length: u64, kind: Kind, depth: u32) -> Result<Vec<u8>> {
        self.charge(kind.decoded_bytes())?;
        if kind == Kind::Node {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                return Err(OnnxError::TooLarge { what: self.what.into(), of: "nodes", limit: MAX_NODES });
            }
        }
        if depth > 3 * MAX_DEPTH {
            return Err(self.malformed(format!("at most {MAX_DEPTH} levels of subgraphs"), "more"));
        }
        let end = self.position.saturating_add(length);
        let mut out = Vec::new();
        while self.position < end {
            let key = self.varint(end)?;
            let (field, wire) = (key >> 3, key & 7);
            if field == 0 {
                return Err(self.malformed("the number of a field", "0"));
            }
            match wire {
                0 => {
                    let value = self.varint(end)?;
                    self.keep(key, &mut out)?;
                    encode_varint(value, &mut out);
                }
                1 => self.copied(key, 8, end, &mut out)?,
                5 => self.copied(key, 4, end, &mut out)?,
                2 => {
                    let length = self.varint(end)?;
                    self.field(kind, field, key, length, end, depth, &mut out)?;
                }
                _ => return Err(self.malformed("a field of a known kind", format!("kind {wire}"))),
            }
        }
        Ok(out)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a field and where it goes")]
    fn field(
        &mut self,
        kind: Kind,
        field: u64,
        key: u64,
        length: u64,
        end: u64,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if length > end.saturating_sub(self.position) {
            return Err(self.malformed(format!("{length} more bytes"), "the end"));
        }
        match kind.fate(field) {
            Fate::Drop => self.skip(length).map(drop),
            Fate::Elements if length > MAX_KEPT_BYTES => {
                let is_uniform = self.skip(length)?;
                // Where the elements would be: elsewhere.
                out.extend([14 << 3, 1]);
                if is_uniform {
                    let entry = [&[1 << 3 | 2, UNIFORM_KEY.len() as u8], UNIFORM_KEY.as_bytes()].concat();
                    out.extend([13 << 3 | 2, entry.len() as u8]);
                    out.extend(entry);
                }
                Ok(())
            }
            Fate::Follow(Kind::Metadata) => {
                let entry = self.bytes(length)?;
                if entry.windows(b"name_scopes".len()).any(|part| part == b"name_scopes") {
                    self.nested(key, &entry, out)?;
                }
                Ok(())
            }
            Fate::Follow(kind) => {
                let inner = self.message(length, kind, depth + 1)?;
                self.nested(key, &inner, out)
            }
            // A byte of packed numbers may become eight.
            Fate::Keep | Fate::Elements => {
                self.charge(if matches!(kind, Kind::Tensor | Kind::Attribute) { 8 * length } else { length })?;
                let bytes = self.bytes(length)?;
                self.nested(key, &bytes, out)
            }
        }
    }

    fn nested(&mut self, key: u64, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.keep(key, out)?;
        encode_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
        Ok(())
    }

    fn copied(&mut self, key: u64, length: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        if length > end - self.position {
            return Err(self.malformed(format!("{length} more bytes"), "the end"));
        }
        self.keep(key, out)?;
        let bytes = self.bytes(length)?;
        out.extend(bytes);
        Ok(())
    }

    fn keep(&mut self, key: u64, out: &mut Vec<u8>) -> Result<()> {
        encode_varint(key, out);
        self.charge(OVERHEAD_BYTES)
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.charged = self.charged.saturating_add(bytes);
        if self.charged > MAX_STRUCTURE_BYTES {
            let of = "bytes of structure beside its weights";
            return Err(OnnxError::TooLarge { what: self.what.into(), of, limit: MAX_STRUCTURE_BYTES });
        }
        Ok(())
    }

    fn varint(&mut self, end: u64) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            if self.position >= end {
                return Err(self.malformed("a number", "the end"));
            }
            let mut byte = [0_u8];
            self.reader.read_exact(&mut byte).map_err(|error| self.failed(&error))?;
            self.position += 1;
            let [byte] = byte;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number of at most 64 bits", "a longer one"))
    }

    /// The next bytes; never more memory than there are.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let count = self.reader.by_ref().take(length).read_to_end(&mut bytes).map_err(|error| self.failed(&error))?;
        self.position += count as u64;
        if (count as u64) < length {
            return Err(self.malformed(format!("{} more bytes", length - count as u64), "the end"));
        }
        Ok(bytes)
    }

    /// Skips bytes; whether they are equal elements, as far as their beginning tells.
    fn skip(&mut self, length: u64) -> Result<bool> {
        let head = self.bytes(length.min(HEAD_BYTES))?;
        let left = length - head.len() as u64;
        self.reader.pass(left).map_err(|error| self.failed(&error))?;
        self.position += left;
        Ok(is_uniform(&head))
    }

    fn failed(&self, error: &std::io::Error) -> OnnxError {
        self.malformed("more bytes", error.to_string())
    }

    fn malformed(&self, expected: impl Into<String>, found: impl Into<String>) -> OnnxError {
        OnnxError::Malformed {
            what: self.what.into(),
            at: format!("byte {}", self.position),
            expected: expected.into(),
            found: found.into(),
        }
    }
}
