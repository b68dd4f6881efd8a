//! What decides which nodes run: constants, names, branches, loops and functions.

use std::collections::HashMap;
use std::rc::Rc;

use plimsoll_graph::Shape;

use super::call::{Call, Context, Outcome};
use super::{Caller, Interpreter, MAX_DEPTH, default_opset, plain_domain};
use crate::constant::Constant;
use crate::error::{OnnxError, Result};
use crate::program::ValueId;
use crate::proto::{GraphProto, TensorProto};
use crate::quantity::Quantity;

impl Interpreter<'_> {
    /// Handles a call that is no computation of its own; whether it was one.
    pub(super) fn control(&mut self, call: &Call) -> Result<bool> {
        let key = (call.domain.clone(), call.op.clone());
        if let Some(function) = self.functions.get(&key).cloned() {
            self.nest(call)?;
            return self.function(call, &function).map(|()| true);
        }
        if !call.domain.is_empty() {
            return Ok(false);
        }
        match call.op.as_str() {
            "Constant" => self.constant(call)?,
            "Identity" => {
                let id = self.context(call).id(0)?;
                if let Some(name) = call.outputs.first() {
                    self.same(name, id);
                }
            }
            "If" => {
                self.nest(call)?;
                self.branch(call)?;
            }
            "Loop" | "Scan" => {
                self.program.warn(format!(
                    "`{}` ({}) is not unrolled: its body counts as an unknown operator",
                    call.node, call.op
                ));
                return Ok(false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn context<'b>(&'b self, call: &'b Call) -> Context<'b> {
        Context { what: self.what, program: &self.program, call, assumed_batch: self.assumed_batch }
    }

    fn nest(&self, call: &Call) -> Result<()> {
        if self.scopes.len() < MAX_DEPTH {
            return Ok(());
        }
        Err(self.context(call).bad(format!("at most {MAX_DEPTH} functions or branches in each other"), "more"))
    }

    fn constant(&mut self, call: &Call) -> Result<()> {
        let attributes = &call.attributes;
        let list = |extents: Vec<i64>, numbers: Vec<f64>, data_type: i32| (extents, numbers, data_type);
        let given = if let Some(value) = attributes.float("value_float") {
            Some(list(vec![], vec![f64::from(value)], 1))
        } else if let Some(value) = attributes.int("value_int") {
            Some(list(vec![], vec![value as f64], 7))
        } else if let Some(values) = attributes.ints("value_ints") {
            Some(list(vec![values.len() as i64], values.iter().map(|&value| value as f64).collect(), 7))
        } else {
            attributes.floats("value_floats").map(|values| {
                list(vec![values.len() as i64], values.iter().map(|&value| f64::from(value)).collect(), 1)
            })
        };
        let constant = match given {
            Some((dims, numbers, data_type)) => {
                let tensor = TensorProto { dims, data_type: Some(data_type), ..TensorProto::default() };
                Constant::of(&tensor).map(|constant| Constant {
                    numbers: Some(numbers.into_iter().map(Quantity::new).collect()),
                    ..constant
                })
            }
            None => match (attributes.tensor("value"), attributes.sparse_dims("sparse_value")) {
                (Some(tensor), _) => Constant::of(tensor),
                (None, Some(dims)) => {
                    let tensor = TensorProto { dims: dims.to_vec(), data_type: Some(1), ..TensorProto::default() };
                    Constant::of(&tensor)
                }
                _ => None,
            },
        };
        let constant = constant.ok_or_else(|| self.context(call).bad("a constant of numbers", "none"))?;
        let outcome = Outcome::Known(constant.dtype, Shape::fixed(&constant.extents), constant.numbers);
        self.record(Call { inputs: Vec::new(), ..call.clone() }, vec![outcome])
    }

    /// Takes the branch that a constant chooses, or the larger one.
    fn branch(&mut self, call: &Call) -> Result<()> {
        let condition = self.context(call).value(0)?.scalar();
        let context = self.context(call);
        let find = |name| call.attributes.graph(name).ok_or_else(|| context.bad(format!("a branch `{name}`"), "none"));
        let (then, other) = (find("then_branch")?, find("else_branch")?);
        let taken = if let Some(condition) = condition {
            if condition == 0.0 { other } else { then }
        } else {
            let larger = if other.node.len() > then.node.len() { other } else { then };
            let count = larger.node.len();
            let warning =
                format!("`{}` (If) depends on the data: the larger branch, of {count} nodes, is counted", call.node);
            self.program.warn(warning);
            larger
        };
        let results = self.body(taken.clone())?;
        for (name, id) in call.outputs.iter().zip(results) {
            self.bind(name.as_str().into(), id);
        }
        Ok(())
    }

    /// Evaluates a subgraph, which sees the values around it; its outputs.
    fn body(&mut self, graph: GraphProto) -> Result<Vec<ValueId>> {
        self.scopes.push(HashMap::new());
        self.store(&graph)?;
        for info in graph.value_info.iter().chain(&graph.output) {
            self.declare(info);
        }
        for node in graph.node {
            self.node(node, None)?;
        }
        let results = self.results(graph.output.iter().map(|output| output.name.as_deref().unwrap_or_default()));
        self.scopes.pop();
        results
    }

    fn results<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<ValueId>> {
        names
            .map(|name| {
                self.lookup(name).ok_or_else(|| OnnxError::Reference {
                    what: self.what.into(),
                    node: "the end of a subgraph".into(),
                    op: "graph".into(),
                    value: name.into(),
                })
            })
            .collect()
    }

    /// Evaluates the body of a function, which sees its arguments alone.
    fn function(&mut self, call: &Call, function: &Rc<crate::proto::FunctionProto>) -> Result<()> {
        let mut scope = HashMap::new();
        for (name, &id) in function.input.iter().zip(&call.inputs) {
            if let Some(id) = id {
                scope.insert(Rc::from(name.as_str()), id);
            }
        }
        let outer = std::mem::replace(&mut self.scopes, vec![scope]);
        // The depth of calls is that of their scopes.
        let depth = outer.len();
        self.scopes.extend((0..depth).map(|_| HashMap::new()));
        let opset = default_opset(&function.opset_import).unwrap_or(self.opset);
        let own = plain_domain(function.domain.as_deref());
        debug_assert_eq!(own, call.domain, "functions are found by their domain");
        let caller = Caller { attributes: &call.attributes, function, module: &call.module, opset };
        for node in function.node.clone() {
            // An optional argument that was not given is a gap wherever the body reads it.
            let node = crate::proto::NodeProto {
                input: node.input.iter().map(|name| self.given(name, function)).collect(),
                ..node
            };
            self.node(node, Some(caller))?;
        }
        let results = self.results(function.output.iter().map(String::as_str));
        self.scopes = outer;
        for (name, id) in call.outputs.iter().zip(results?) {
            if !name.is_empty() {
                self.bind(name.as_str().into(), id);
            }
        }
        Ok(())
    }

    fn given(&self, name: &str, function: &crate::proto::FunctionProto) -> String {
        let is_gap = self.lookup(name).is_none() && function.input.iter().any(|input| input == name);
        if is_gap { String::new() } else { name.into() }
    }
}
