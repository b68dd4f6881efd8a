//! Another runtime for exported models.

use plimsoll_export::{Elements, NamedTensor, ParityCase, comparison_floor, relative_difference};
use tract_onnx::prelude::*;

/// A model in tract.
pub(crate) struct Tract(Arc<TypedRunnableModel>);

impl Tract {
    /// Parses and optimises a model; batch and layers stay open.
    pub(crate) fn new(mut bytes: &[u8]) -> Self {
        let model = tract_onnx::onnx().model_for_read(&mut bytes).expect("tract parses the model");
        let model = model.into_optimized().expect("tract types the model").into_runnable();
        Self(model.expect("tract plans the model"))
    }

    /// Runs a batch; one vector per output.
    pub(crate) fn run(&self, inputs: &[NamedTensor]) -> Vec<Vec<f32>> {
        let inputs = inputs.iter().map(|input| tensor(input).into_tvalue()).collect();
        let outputs = self.0.run(inputs).expect("tract runs the model");
        let numbers = |output: &TValue| output.try_as_plain_ram().and_then(|view| Ok(view.as_slice::<f32>()?.to_vec()));
        outputs.iter().map(|output| numbers(output).expect("all outputs are numbers")).collect()
    }

    /// The largest relative difference from what Plimsoll computed.
    pub(crate) fn difference(&self, case: &ParityCase) -> f64 {
        let found = self.run(&case.inputs);
        assert_eq!(found.len(), case.outputs.len());
        let pairs = case.outputs.iter().zip(&found).flat_map(|(output, found)| {
            let expected = numbers(output);
            assert_eq!(expected.len(), found.len(), "`{}`", output.name);
            let floor = comparison_floor(&output.name);
            expected
                .iter()
                .zip(found)
                .map(move |(one, other)| relative_difference(f64::from(*one), f64::from(*other), floor))
        });
        pairs.fold(0.0, f64::max)
    }
}

/// The numbers of a tensor.
pub(crate) fn numbers(tensor: &NamedTensor) -> &[f32] {
    let Elements::Numbers(numbers) = &tensor.data else { panic!("`{}` holds no numbers", tensor.name) };
    numbers
}

fn tensor(tensor: &NamedTensor) -> Tensor {
    match &tensor.data {
        Elements::Flags(data) => Tensor::from_shape(&tensor.shape, data),
        Elements::Wholes(data) => Tensor::from_shape(&tensor.shape, data),
        Elements::Numbers(data) => Tensor::from_shape(&tensor.shape, data),
    }
    .expect("the shape fits")
}
