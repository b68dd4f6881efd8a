//! Who writes and who reads each value, while steps are replaced.

use plimsoll_graph::{Op, Shape};

use crate::attributes::Attributes;
use crate::program::{Action, Origin, Program, Step, Value, ValueId};
use crate::proto::AttributeProto;

/// A program with its edges.
pub(super) struct Web<'a> {
    program: &'a mut Program,
    steps: Vec<Option<Step>>,
    writers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    /// Steps that are to stand before others.
    inserted: Vec<(usize, Step)>,
}

impl<'a> Web<'a> {
    pub(super) fn new(program: &'a mut Program) -> Self {
        let count = program.values.len();
        let mut web = Self {
            steps: std::mem::take(&mut program.steps).into_iter().map(Some).collect(),
            writers: vec![None; count],
            readers: vec![Vec::new(); count],
            is_output: vec![false; count],
            inserted: Vec::new(),
            program,
        };
        for (index, step) in web.steps.iter().enumerate() {
            let Some(step) = step else { continue };
            step.outputs.iter().for_each(|&id| web.writers[id] = Some(index));
            step.inputs.iter().flatten().for_each(|&id| web.readers[id].push(index));
        }
        for &id in &web.program.outputs {
            web.is_output[id] = true;
        }
        web
    }

    /// Puts the steps back, without those whose results nothing reads any more.
    pub(super) fn finish(self) {
        let mut inserted = self.inserted;
        inserted.sort_by_key(|(before, _)| *before);
        let mut inserted = inserted.into_iter().peekable();
        for (index, step) in self.steps.into_iter().enumerate() {
            while let Some((_, step)) = inserted.next_if(|(before, _)| *before == index) {
                self.program.steps.push(step);
            }
            self.program.steps.extend(step);
        }
    }

    pub(super) const fn program(&self) -> &Program {
        self.program
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn step(&self, index: usize) -> Option<&Step> {
        self.steps[index].as_ref()
    }

    pub(super) fn value(&self, id: ValueId) -> &Value {
        self.program.value(id)
    }

    /// The operator that writes a value, if it is of one of these names.
    pub(super) fn writer(&self, id: ValueId, ops: &[&str]) -> Option<usize> {
        let index = self.writers[id]?;
        self.step(index).filter(|step| ops.contains(&step.op())).map(|_| index)
    }

    /// The step that writes a value.
    pub(super) fn any_writer(&self, id: ValueId) -> Option<usize> {
        self.writers[id].filter(|&index| self.steps[index].is_some())
    }

    /// The only step that reads a value, if one does and the value is no result.
    pub(super) fn only_reader(&self, id: ValueId) -> Option<usize> {
        let mut alive = self.readers[id].iter().copied().filter(|&index| self.steps[index].is_some());
        let first = alive.next()?;
        (!self.is_output[id] && alive.all(|other| other == first)).then_some(first)
    }

    /// The steps that read a value.
    pub(super) fn readers(&self, id: ValueId) -> impl Iterator<Item = usize> {
        self.readers[id].iter().copied().filter(|&index| self.steps[index].is_some())
    }

    /// Whether every reader of a value is among these steps.
    pub(super) fn is_inside(&self, id: ValueId, steps: &[usize]) -> bool {
        let mut alive = self.readers[id].iter().filter(|&&index| self.steps[index].is_some());
        !self.is_output[id] && alive.all(|index| steps.contains(index))
    }

    pub(super) fn input(&self, index: usize, place: usize) -> Option<ValueId> {
        self.step(index).and_then(|step| step.input(place))
    }

    pub(super) fn output(&self, index: usize) -> Option<ValueId> {
        self.step(index).and_then(|step| step.outputs.first().copied())
    }

    /// A number that does not depend on anything.
    pub(super) fn scalar(&self, id: ValueId) -> Option<f64> {
        self.value(id).scalar()
    }

    /// The other operand of a step with two: the one beside a value.
    pub(super) fn beside(&self, index: usize, id: ValueId) -> Option<ValueId> {
        let step = self.step(index)?;
        match *step.inputs.as_slice() {
            [Some(one), Some(other)] if one == id => Some(other),
            [Some(one), Some(other)] if other == id => Some(one),
            _ => None,
        }
    }

    /// A number and what it is combined with.
    pub(super) fn scaled(&self, index: usize) -> Option<(ValueId, f64)> {
        let step = self.step(index)?;
        let &[Some(one), Some(other)] = step.inputs.as_slice() else { return None };
        match (self.scalar(one), self.scalar(other)) {
            (None, Some(by)) => Some((one, by)),
            (Some(by), None) => Some((other, by)),
            _ => None,
        }
    }

    /// The value with its last two dimensions swapped, by a new step before another.
    pub(super) fn turned_before(&mut self, before: usize, id: ValueId) -> ValueId {
        let value = self.program.value(id).clone();
        let mut dims = value.dims().to_vec();
        let mut order: Vec<i64> = (0..dims.len() as i64).collect();
        if let [.., one, other] = dims.as_mut_slice() {
            std::mem::swap(one, other);
        }
        if let [.., one, other] = order.as_mut_slice() {
            std::mem::swap(one, other);
        }
        let turned = self.program.add(Value {
            name: format!("{}.turned", value.name).into(),
            shape: Shape::new(dims),
            origin: Origin::Computed,
            numbers: None,
            ..value
        });
        self.writers.push(None);
        self.readers.push(vec![before]);
        self.is_output.push(false);
        self.readers[id].push(before);
        let perm = AttributeProto { name: Some("perm".into()), ints: order, ..AttributeProto::default() };
        let beside = self.steps[before].as_ref();
        let step = Step {
            action: Action::Onnx("Transpose".into()),
            attributes: Attributes::new(vec![perm]),
            inputs: vec![Some(id)],
            outputs: vec![turned],
            module: beside.map_or_else(|| "".into(), |step| step.module.clone()),
            label: "transpose".into(),
            hint: "".into(),
        };
        self.inserted.push((before, step));
        turned
    }

    /// Puts a recognised operator in the place of the last step of a chain; the inner steps go.
    pub(super) fn replace(&mut self, last: usize, inner: &[usize], op: Op, inputs: Vec<Option<ValueId>>) {
        for &index in inner.iter().filter(|&&index| index != last) {
            self.steps[index] = None;
        }
        let Some(step) = &mut self.steps[last] else { return };
        step.action = Action::Known(op);
        step.outputs.truncate(1);
        step.attributes = Attributes::default();
        step.label = "".into();
        for &id in inputs.iter().flatten() {
            self.readers[id].push(last);
        }
        step.inputs = inputs;
    }
}
