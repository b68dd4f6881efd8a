//! The fitted networks as a file, with a header that tells a damaged or foreign one.
//!
//! Little-endian: magic, version, hidden width and the checksum of all that follows; then, for each direction, means,
//! deviations and knots, and the weights and biases of three layers. Weights are half precision, all else is single.

use super::features::FEATURE_COUNT;
use super::half::{from_half, to_half};
use super::network::{MAX_HIDDEN, NetworkWeights, RAMP_COUNT};

/// The first bytes of every such file.
const MAGIC: &[u8; 8] = b"PLIMCONV";
/// Raised whenever the meaning of the bytes changes: features, forms, layers.
const VERSION: u32 = 1;
/// Magic, version, hidden width, checksum.
const HEADER_BYTES: usize = 24;

/// Why bytes are no workspace model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceFileError {
    /// They start otherwise.
    Foreign,
    /// They were written by another version.
    Version {
        /// Its number.
        found: u32,
    },
    /// The hidden width is zero or too large.
    Hidden {
        /// The width.
        found: u32,
    },
    /// There are more or fewer than the header says.
    Length {
        /// As many as there should be.
        expected: usize,
        /// As many as there are.
        found: usize,
    },
    /// Some of them have changed.
    Checksum,
    /// A number is infinite or none, a deviation is not positive, or knots do not rise.
    Number,
}

impl std::fmt::Display for WorkspaceFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => write!(f, "not a workspace model: it does not start with PLIMCONV"),
            Self::Version { found } => write!(f, "a workspace model of version {found}: expected {VERSION}"),
            Self::Hidden { found } => {
                write!(f, "a damaged workspace model: hidden width {found}, expected 1 to {MAX_HIDDEN}")
            }
            Self::Length { expected, found } => {
                write!(f, "a damaged workspace model: {found} bytes, expected {expected}")
            }
            Self::Checksum => write!(f, "a damaged workspace model: its checksum does not match"),
            Self::Number => write!(f, "a damaged workspace model: a number in it cannot be computed with"),
        }
    }
}

impl std::error::Error for WorkspaceFileError {}

/// Writes the networks of the three directions, in the order of [`crate::Direction`]. Weights are rounded.
///
/// # Panics
/// Networks of different hidden widths.
pub fn encode(networks: &[NetworkWeights; 3]) -> Vec<u8> {
    let hidden = networks[0].hidden;
    assert!(networks.iter().all(|network| network.hidden == hidden), "networks have one hidden width");
    let mut payload = Vec::with_capacity(payload_bytes(hidden));
    let single =
        |payload: &mut Vec<u8>, values: &[f32]| payload.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    for network in networks {
        for values in [&network.means, &network.deviations, &network.knots] {
            single(&mut payload, values);
        }
        for (weights, biases) in network.weights.iter().zip(&network.biases) {
            payload.extend(weights.iter().flat_map(|&value| to_half(value).to_le_bytes()));
            single(&mut payload, biases);
        }
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((hidden as u32).to_le_bytes());
    bytes.extend(checksum(&payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// Bytes of another kind, of another version, or damaged.
pub fn decode(bytes: &[u8]) -> Result<[NetworkWeights; 3], WorkspaceFileError> {
    if !bytes.starts_with(MAGIC) {
        return Err(WorkspaceFileError::Foreign);
    }
    let Some((header, payload)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(WorkspaceFileError::Length { expected: HEADER_BYTES, found: bytes.len() });
    };
    let mut header = Cursor(&header[MAGIC.len()..]);
    let (version, hidden) = (u32::from_le_bytes(header.take()), u32::from_le_bytes(header.take()));
    if version != VERSION {
        return Err(WorkspaceFileError::Version { found: version });
    }
    let Some(width) = usize::try_from(hidden).ok().filter(|width| (1..=MAX_HIDDEN).contains(width)) else {
        return Err(WorkspaceFileError::Hidden { found: hidden });
    };
    if payload.len() != payload_bytes(width) {
        let expected = HEADER_BYTES + payload_bytes(width);
        return Err(WorkspaceFileError::Length { expected, found: bytes.len() });
    }
    if u64::from_le_bytes(header.take()) != checksum(payload) {
        return Err(WorkspaceFileError::Checksum);
    }
    let mut cursor = Cursor(payload);
    let networks = [(); 3].map(|()| cursor.network(width));
    if networks.iter().all(is_usable) { Ok(networks) } else { Err(WorkspaceFileError::Number) }
}

fn payload_bytes(hidden: usize) -> usize {
    let layers: usize =
        NetworkWeights::shapes(hidden).iter().map(|[inputs, outputs]| inputs * outputs * 2 + outputs * 4).sum();
    3 * ((2 * FEATURE_COUNT + NetworkWeights::KNOT_COUNT) * 4 + layers)
}

fn is_usable(network: &NetworkWeights) -> bool {
    let numbers = [&network.means, &network.deviations, &network.knots];
    let is_finite = |values: &Vec<f32>| values.iter().all(|value| value.is_finite());
    numbers.into_iter().chain(&network.weights).chain(&network.biases).all(is_finite)
        && network.deviations.iter().all(|&deviation| deviation > 0.0)
        && network.knots.chunks_exact(RAMP_COUNT + 1).all(|knots| knots.is_sorted_by(|left, right| left < right))
}

/// FNV-1a over 64 bits: enough to tell damage, not forgery.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Bytes still to be read; their number was checked before.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("the length was checked");
        self.0 = rest;
        *taken
    }

    fn singles(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| f32::from_le_bytes(self.take())).collect()
    }

    fn network(&mut self, hidden: usize) -> NetworkWeights {
        let means = self.singles(FEATURE_COUNT);
        let deviations = self.singles(FEATURE_COUNT);
        let knots = self.singles(NetworkWeights::KNOT_COUNT);
        let layers = NetworkWeights::shapes(hidden).map(|[inputs, outputs]| {
            let weights: Vec<f32> = (0..inputs * outputs).map(|_| from_half(u16::from_le_bytes(self.take()))).collect();
            (weights, self.singles(outputs))
        });
        let [first, second, third] = layers;
        NetworkWeights {
            hidden,
            means,
            deviations,
            knots,
            weights: [first.0, second.0, third.0],
            biases: [first.1, second.1, third.1],
        }
    }
}
