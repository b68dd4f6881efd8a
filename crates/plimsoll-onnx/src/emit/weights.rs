//! Weights of the graph: which stored tensors train, and what they are called.

use std::collections::HashMap;
use std::rc::Rc;

use plimsoll_graph::{DType, Shape, Weight, WeightId, WeightKind};

use crate::interpret::names::is_generated;
use crate::program::{Origin, Program, Step, Value, ValueId};

/// What an operator does with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Weight,
    Bias,
    /// Updated by the forward pass, such as a running mean.
    Statistic(&'static str),
    /// An operand of arithmetic: a parameter if it is named like one.
    Operand,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Bias => "bias",
            Self::Statistic(name) => name,
            Self::Operand => "operand",
        }
    }
}

/// Words in the names of tensors that a module keeps and does not train.
const BUFFER_WORDS: [&str; 12] = [
    "running_mean",
    "running_var",
    "num_batches_tracked",
    "inv_freq",
    "freqs_cis",
    "rope",
    "coords_table",
    "relative_position_index",
    "attn_mask",
    "position_ids",
    "anchor",
    "buffer",
];

/// A module, and what it uses a weight for.
type Owner = (Rc<str>, &'static str);

/// All weights of a graph.
#[derive(Default)]
pub(super) struct Weights {
    pub(super) all: Vec<Weight>,
    names: HashMap<String, u32>,
    /// By stored tensor, and by module for those that an exporter merged.
    known: HashMap<(usize, Option<Owner>), WeightId>,
    constants: HashMap<ValueId, WeightId>,
    /// Merged weights that could not be told apart.
    pub(super) shared: Vec<String>,
}

/// The modules that use each stored tensor.
pub(super) struct Users(HashMap<usize, Vec<Rc<str>>>);

impl Users {
    pub(super) fn of(program: &Program) -> Self {
        let mut users: HashMap<usize, Vec<Rc<str>>> = HashMap::new();
        for step in &program.steps {
            for id in step.inputs.iter().flatten() {
                if let Some(stored) = program.value(*id).weight() {
                    let modules = users.entry(stored).or_default();
                    if !modules.contains(&step.module) {
                        modules.push(step.module.clone());
                    }
                }
            }
        }
        Self(users)
    }

    fn are_many(&self, stored: usize) -> bool {
        self.0.get(&stored).is_some_and(|modules| modules.len() > 1)
    }
}

impl Weights {
    /// The weight that a step uses in a role; `None` for numbers, which are no tensors on a GPU.
    pub(super) fn of(
        &mut self,
        program: &Program,
        users: &Users,
        step: &Step,
        id: ValueId,
        role: Role,
        is_turned: bool,
    ) -> Option<WeightId> {
        let value = program.value(id);
        match value.origin {
            Origin::Weight(stored) => Some(self.stored(program, users, step, value, stored, role, is_turned)),
            Origin::Constant if value.shape.elements(1) == Some(1) => None,
            Origin::Constant => self.constant(value, id, step),
            _ => None,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the place of a weight and what it is there for")]
    fn stored(
        &mut self,
        program: &Program,
        users: &Users,
        step: &Step,
        value: &Value,
        stored: usize,
        role: Role,
        is_turned: bool,
    ) -> WeightId {
        let tensor = &program.stored[stored];
        // Exporters merge equal tensors. Those that start out as one number everywhere are equal by chance: each module
        // has its own.
        let is_merged = users.are_many(stored) && tensor.is_uniform.unwrap_or(tensor.extents.len() == 1);
        let owner = (is_merged && !step.module.is_empty()).then(|| (step.module.clone(), role.name()));
        if is_merged && owner.is_none() {
            self.shared.push(tensor.name.to_string());
        }
        let key = (stored, owner.clone());
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let made_up = is_generated(&tensor.name);
        let kind = match role {
            Role::Statistic(_) => WeightKind::Buffer,
            Role::Weight | Role::Bias => WeightKind::Parameter,
            Role::Operand => {
                // PyTorch's older exporter folds views of parameters into constants of these names.
                let is_folded = tensor.name.starts_with("onnx::") && tensor.extents.iter().any(|&extent| extent > 1);
                let is_named_buffer = BUFFER_WORDS.iter().any(|word| tensor.name.contains(word));
                let is_buffer = (made_up && !is_folded) || is_named_buffer;
                if is_buffer { WeightKind::Buffer } else { WeightKind::Parameter }
            }
        };
        let belongs =
            owner.is_none() || tensor.name.strip_prefix(&*step.module).is_some_and(|rest| rest.starts_with('.'));
        let name = if (made_up || !belongs) && !step.module.is_empty() {
            format!("{}.{}", step.module, role.name())
        } else {
            tensor.name.to_string()
        };
        let mut extents = tensor.extents.clone();
        if is_turned && extents.len() == value.rank() && extents.len() > 1 {
            let last = extents.len() - 1;
            extents.swap(last, last - 1);
        }
        let dtype = if tensor.dtype.is_float() { tensor.dtype } else { DType::Float32 };
        let id = self.add(name, &extents, dtype, kind);
        self.known.insert(key, id);
        id
    }

    fn constant(&mut self, value: &Value, id: ValueId, step: &Step) -> Option<WeightId> {
        if value.shape.scales_with_batch() {
            return None;
        }
        if let Some(&known) = self.constants.get(&id) {
            return Some(known);
        }
        let extents: Vec<u64> = value.dims().iter().map(|dim| dim.factor()).collect();
        let name = if is_generated(&value.name) && !step.module.is_empty() {
            format!("{}.constant", step.module)
        } else {
            value.name.to_string()
        };
        let weight = self.add(name, &extents, value.dtype, WeightKind::Buffer);
        self.constants.insert(id, weight);
        Some(weight)
    }

    /// A weight of a name that is made unique.
    pub(super) fn add(&mut self, name: String, extents: &[u64], dtype: DType, kind: WeightKind) -> WeightId {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name}_{count}") };
        self.names.insert(name.clone(), 1);
        self.all.push(Weight { name, shape: Shape::fixed(extents), dtype, kind });
        WeightId((self.all.len() - 1) as u32)
    }
}
