//! What a label definition means to a network.

use plimsoll_dataset::Label;

/// Quantities that the simulator gives: reserved by the allocator, context and libraries, alive at the peak.
pub const QUANTITIES: usize = 3;

/// Definitions with an input of their own. A device-wide reading is the reference and needs none, and a simulation
/// says what such a reading would be.
pub const SHIFTED: [Label; 4] = [Label::NvidiaSmiProcess, Label::Reserved, Label::Allocated, Label::Unknown];

/// Which quantities a definition adds up, as ones and zeros.
///
/// What the allocator reserves has no context in it, and what it has allocated is the tensors alone.
pub const fn parts(label: Label) -> [f32; QUANTITIES] {
    match label {
        Label::NvidiaSmiDevice | Label::NvidiaSmiProcess | Label::Simulated | Label::Unknown => [1.0, 1.0, 0.0],
        Label::Reserved => [1.0, 0.0, 0.0],
        Label::Allocated => [0.0, 0.0, 1.0],
    }
}

/// Which of the [`SHIFTED`] definitions a label is, as ones and zeros.
pub fn shift(label: Label) -> [f32; SHIFTED.len()] {
    SHIFTED.map(|shifted| f32::from(u8::from(shifted == label)))
}
