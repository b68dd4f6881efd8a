//! Runs a model on shapes: every value gets its shape, and whatever follows from constants is computed away.
//!
//! Nodes are evaluated in the file's order. A node whose inputs are small constants (or sizes, which may be multiples
//! of the batch) gives a constant; a view of a weight is the weight; anything else becomes a step.

mod call;
mod control;
mod elementwise;
mod inputs;
mod layout;
pub(crate) mod names;
mod picked;
mod picking;
mod quantised;
mod reductions;
mod sequences;
mod shapes;
mod windows;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use plimsoll_graph::{Dim, Shape};

use self::call::{Call, Context, Outcome};
use crate::ReadOptions;
use crate::attributes::Attributes;
use crate::constant::Constant;
use crate::error::{OnnxError, Result};
use crate::program::{Action, Origin, Program, Step, Stored, Value, ValueId};
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto};
use crate::quantity::Quantity;

/// Operator sets that are read.
const OPSETS: std::ops::RangeInclusive<i64> = 7..=25;
/// Nodes that are evaluated, those of functions each time they are called.
const MAX_CALLS: u64 = 400_000;
/// Functions in functions, graphs in graphs.
const MAX_DEPTH: usize = 24;
/// Elements of small constants that are held at once.
const MAX_NUMBERS: usize = 4 << 20;

/// Evaluates a model.
pub(crate) fn interpret(model: ModelProto, what: &str, options: &ReadOptions) -> Result<Program> {
    let malformed = |expected: &str| OnnxError::Malformed {
        what: what.into(),
        at: "the model".into(),
        expected: expected.into(),
        found: "none".into(),
    };
    let opset = default_opset(&model.opset_import).ok_or_else(|| malformed("the version of ONNX's operator set"))?;
    if !OPSETS.contains(&opset) {
        let (oldest, newest) = (*OPSETS.start(), *OPSETS.end());
        return Err(OnnxError::Opset { what: what.into(), oldest, newest, found: opset });
    }
    let graph = model.graph.ok_or_else(|| malformed("a graph"))?;
    let functions = model.functions.into_iter().map(|function| {
        let key = (plain_domain(function.domain.as_deref()), function.name.clone().unwrap_or_default());
        (key, Rc::new(function))
    });
    let mut interpreter = Interpreter {
        what,
        options,
        opset,
        program: Program::default(),
        scopes: vec![HashMap::new()],
        functions: functions.collect(),
        declared: BTreeMap::new(),
        assumed_batch: None,
        batch_names: Vec::new(),
        calls: 0,
        numbers: 0,
    };
    interpreter.graph(graph)?;
    Ok(interpreter.program)
}

/// The version of ONNX's own operator set.
fn default_opset(imports: &[OperatorSetIdProto]) -> Option<i64> {
    let own = imports.iter().find(|import| plain_domain(import.domain.as_deref()).is_empty());
    own.and_then(|import| import.version)
}

/// A domain, empty for ONNX's own.
fn plain_domain(domain: Option<&str>) -> String {
    match domain {
        None | Some("ai.onnx") => String::new(),
        Some(other) => other.into(),
    }
}

struct Interpreter<'a> {
    what: &'a str,
    options: &'a ReadOptions,
    opset: i64,
    program: Program,
    /// Values by name, the innermost graph last.
    scopes: Vec<HashMap<Rc<str>, ValueId>>,
    functions: HashMap<(String, String), Rc<FunctionProto>>,
    /// Shapes that the file tells of values in between.
    declared: BTreeMap<String, Declared>,
    assumed_batch: Option<u64>,
    batch_names: Vec<String>,
    calls: u64,
    numbers: usize,
}

/// Type and shape that the file tells.
#[derive(Clone)]
struct Declared {
    dtype: plimsoll_graph::DType,
    dims: Option<Vec<Option<Dim>>>,
}

/// What the nodes of a function's body are bound to.
#[derive(Clone, Copy)]
struct Caller<'a> {
    attributes: &'a Attributes,
    function: &'a FunctionProto,
    module: &'a Rc<str>,
    opset: i64,
}

impl Interpreter<'_> {
    fn graph(&mut self, graph: GraphProto) -> Result<()> {
        self.store(&graph)?;
        self.declare_inputs(&graph)?;
        for info in graph.value_info.iter().chain(&graph.output) {
            self.declare(info);
        }
        for node in graph.node {
            self.node(node, None)?;
        }
        for output in &graph.output {
            let name = output.name.as_deref().unwrap_or_default();
            let id = self.lookup(name).ok_or_else(|| OnnxError::Reference {
                what: self.what.into(),
                node: "the graph's outputs".into(),
                op: "graph".into(),
                value: name.into(),
            })?;
            self.program.outputs.push(id);
        }
        Ok(())
    }

    /// Constants of a graph.
    fn store(&mut self, graph: &GraphProto) -> Result<()> {
        for tensor in &graph.initializer {
            self.add_stored(tensor, None)?;
        }
        for sparse in &graph.sparse_initializer {
            if let Some(values) = &sparse.values {
                self.add_stored(values, Some(&sparse.dims))?;
            }
        }
        Ok(())
    }

    fn add_stored(&mut self, tensor: &TensorProto, dims: Option<&[i64]>) -> Result<()> {
        let name: Rc<str> = tensor.name.as_deref().unwrap_or_default().into();
        let constant = match dims {
            Some(dims) => Constant::of(&TensorProto {
                dims: dims.to_vec(),
                data_type: tensor.data_type,
                ..TensorProto::default()
            }),
            None => Constant::of(tensor),
        };
        let constant = constant.ok_or_else(|| OnnxError::Malformed {
            what: self.what.into(),
            at: format!("initializer `{name}`"),
            expected: "numbers of a shape that can be counted".into(),
            found: format!("dimensions {:?} of type {}", tensor.dims, tensor.data_type.unwrap_or_default()),
        })?;
        let is_single = constant.extents.iter().all(|&extent| extent == 1);
        let is_number = is_single && names::is_generated(&name);
        let origin = if (constant.dtype.is_float() || is_quantised(constant.dtype)) && !is_number {
            Origin::Weight(self.program.stored.len())
        } else {
            Origin::Constant
        };
        self.program.stored.push(Stored {
            name: name.clone(),
            extents: constant.extents.clone(),
            dtype: constant.dtype,
            is_uniform: constant.is_uniform,
        });
        let (shape, numbers) = (Shape::fixed(&constant.extents), self.afforded(constant.numbers));
        let id = self.program.add(Value { name: name.clone(), dtype: constant.dtype, shape, origin, numbers });
        self.bind(name, id);
        Ok(())
    }

    /// Elements, as long as not too many are held.
    fn afforded(&mut self, numbers: Option<Vec<Quantity>>) -> Option<Rc<[Quantity]>> {
        let numbers = numbers?;
        self.numbers += numbers.len();
        (self.numbers <= MAX_NUMBERS).then(|| numbers.into())
    }

    fn bind(&mut self, name: Rc<str>, id: ValueId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, id);
        }
    }

    fn lookup(&self, name: &str) -> Option<ValueId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// Evaluates a node.
    fn node(&mut self, node: NodeProto, caller: Option<Caller<'_>>) -> Result<()> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(OnnxError::TooLarge { what: self.what.into(), of: "nodes to evaluate", limit: MAX_CALLS });
        }
        let call = self.call(node, caller)?;
        if self.control(&call)? {
            return Ok(());
        }
        let call = quantised::as_float(call, &mut self.program);
        let context =
            Context { what: self.what, program: &self.program, call: &call, assumed_batch: self.assumed_batch };
        let outcomes = match shapes::infer(context) {
            Ok(Some(outcomes)) => outcomes,
            Ok(None) => self.outcomes_declared(&call)?,
            Err(error @ OnnxError::UnknownShape { .. }) => self.outcomes_declared(&call).map_err(|_| error)?,
            Err(error) => return Err(error),
        };
        self.record(call, outcomes)
    }

    fn call(&self, node: NodeProto, caller: Option<Caller<'_>>) -> Result<Call> {
        let op = node.op_type.clone().unwrap_or_default();
        let place = names::place(&node, caller.map(|caller| caller.module));
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            if name.is_empty() {
                inputs.push(None);
                continue;
            }
            let id = self.lookup(name).ok_or_else(|| OnnxError::Reference {
                what: self.what.into(),
                node: place.node.to_string(),
                op: op.clone(),
                value: name.clone(),
            })?;
            inputs.push(Some(id));
        }
        let attributes = match caller {
            None => Attributes::new(node.attribute),
            Some(caller) => Attributes::bound(node.attribute, caller.attributes, &caller.function.attribute_proto),
        };
        Ok(Call {
            node: place.node,
            op,
            domain: plain_domain(node.domain.as_deref()),
            opset: caller.map_or(self.opset, |caller| caller.opset),
            inputs,
            outputs: node.output,
            attributes,
            module: place.module,
            label: place.label,
            hint: place.hint,
        })
    }

    /// What the file declares of a call's outputs.
    fn outcomes_declared(&self, call: &Call) -> Result<Vec<Outcome>> {
        let context = Context { what: self.what, program: &self.program, call, assumed_batch: self.assumed_batch };
        let mut outcomes = Vec::with_capacity(call.outputs.len());
        for name in &call.outputs {
            let declared = self.declared.get(name);
            let dims = declared
                .and_then(|declared| declared.dims.clone())
                .and_then(|dims| dims.into_iter().collect::<Option<Vec<Dim>>>());
            match (declared, dims) {
                (Some(declared), Some(dims)) => outcomes.push(Outcome::New(declared.dtype, Shape::new(dims))),
                _ if name.is_empty() => {}
                _ => return Err(context.unknown("has no rule here, and the file tells no shape".into())),
            }
        }
        Ok(outcomes)
    }

    /// Binds the outputs of a call, and makes it a step if anything is left to compute.
    fn record(&mut self, call: Call, outcomes: Vec<Outcome>) -> Result<()> {
        let is_random = shapes::is_random(&call.op);
        let is_constant =
            !is_random && call.inputs.iter().flatten().all(|&id| self.program.value(id).origin == Origin::Constant);
        let weight = call.inputs.first().copied().flatten().and_then(|id| self.program.value(id).weight());
        let mut outputs = Vec::with_capacity(outcomes.len());
        let mut is_step = false;
        for (name, outcome) in call.outputs.iter().zip(outcomes) {
            let (dtype, shape, numbers, origin) = match outcome {
                Outcome::Same(id) => {
                    self.same(name, id);
                    continue;
                }
                Outcome::Known(dtype, shape, numbers) => (dtype, shape, numbers, Origin::Constant),
                Outcome::View(dtype, shape) if weight.is_some() => {
                    (dtype, shape, None, weight.map_or(Origin::Constant, Origin::Weight))
                }
                Outcome::View(dtype, shape) | Outcome::New(dtype, shape) if is_constant => {
                    (dtype, shape, None, Origin::Constant)
                }
                Outcome::View(dtype, shape) | Outcome::New(dtype, shape) => (dtype, shape, None, Origin::Computed),
            };
            let name: Rc<str> = name.as_str().into();
            self.check_rank(&call, &name, &shape)?;
            let numbers = self.afforded(numbers);
            let id = self.program.add(Value { name: name.clone(), dtype, shape, origin, numbers });
            if !name.is_empty() {
                self.bind(name, id);
            }
            if origin == Origin::Computed {
                is_step = true;
                outputs.push(id);
            }
        }
        if is_step {
            let Call { op, domain, inputs, attributes, module, label, hint, .. } = call;
            let op = if domain.is_empty() || shapes::is_known_domain(&domain) { op } else { format!("{domain}::{op}") };
            self.program.steps.push(Step {
                action: Action::Onnx(op),
                attributes,
                inputs,
                outputs,
                module,
                label,
                hint,
            });
        }
        Ok(())
    }

    /// Another name for a value. An exporter that merged equal weights leaves the names of the others behind: each is
    /// a weight of its own, unless its elements tell that it is truly the same.
    fn same(&mut self, name: &str, id: ValueId) {
        let value = self.program.value(id);
        let copy = value.weight().map(|index| self.program.stored[index].clone()).filter(|stored| {
            let is_plain = stored.extents.len() == value.rank();
            is_plain && stored.is_uniform.unwrap_or(stored.extents.len() == 1)
        });
        let id = match copy {
            Some(stored) if *stored.name != *name => {
                let mut value = value.clone();
                value.name = name.into();
                value.origin = Origin::Weight(self.program.stored.len());
                self.program.stored.push(Stored { name: name.into(), ..stored });
                self.program.add(value)
            }
            _ => id,
        };
        self.bind(name.into(), id);
    }

    fn check_rank(&self, call: &Call, name: &str, shape: &Shape) -> Result<()> {
        if shape.rank() <= Shape::MAX_RANK {
            return Ok(());
        }
        Err(OnnxError::Node {
            what: self.what.into(),
            node: call.node.to_string(),
            op: call.op.clone(),
            expected: format!("values of at most {} dimensions", Shape::MAX_RANK),
            found: format!("`{name}` of {}", shape.rank()),
        })
    }
}

/// Types in which quantised weights are stored.
const fn is_quantised(dtype: plimsoll_graph::DType) -> bool {
    matches!(dtype, plimsoll_graph::DType::Int8 | plimsoll_graph::DType::UInt8)
}
