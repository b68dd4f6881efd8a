//! The workspace model: what Burn fits is what the simulator runs.

use burn::tensor::{Device, Tensor, TensorData};
use plimsoll_dataset::WorkspaceRow;
use plimsoll_model::workspaces::{WorkspaceFit, WorkspaceNetwork};
use plimsoll_simulate::workspace::{
    FORMS, Format, Generation, GpuClass, INPUT_COUNT, NetworkWeights, OUTPUT_COUNT, Operands, WorkspaceModel,
    WorkspaceQuery, decode, encode, features,
};
use plimsoll_simulate::{Convolution, Direction};

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::DataGradient, Direction::FilterGradient];

/// Shapes whose answers follow a rule: copies of all three from 256 channels on, nothing below.
fn rows() -> Vec<WorkspaceRow> {
    let mut rows = Vec::new();
    for (number, direction) in (0..96).flat_map(|number| DIRECTIONS.map(|direction| (number, direction))) {
        let channels = 32 * (1 + number % 16);
        let side = 7 * (1 + number % 5);
        let convolution = Convolution {
            direction,
            batch: 64,
            input: [channels, side, side],
            output: [channels, side, side],
            kernel: [3, 3],
            stride: 1,
            padding: 1,
            dilation: 1,
            groups: 1,
            element_bytes: 4,
        };
        let query = WorkspaceQuery {
            convolution,
            class: GpuClass::Ampere,
            format: Format::Tf32,
            is_channels_last: false,
            generation: Generation::New,
        };
        let copies = FORMS[1].bytes(&Operands::of(&convolution));
        rows.push(WorkspaceRow { query, first_bytes: if channels < 256 { 0 } else { copies }, largest_bytes: copies });
    }
    rows
}

/// Logits of Burn's forward pass.
fn burn_logits(weights: &NetworkWeights, query: &WorkspaceQuery) -> Vec<f32> {
    let device = Device::flex();
    let mut inputs = Vec::new();
    NetworkWeights::inputs(&weights.means, &weights.deviations, &weights.knots, &features(query), &mut inputs);
    let inputs = Tensor::<2>::from_data(TensorData::new(inputs, [1, INPUT_COUNT]), &device);
    WorkspaceNetwork::from_weights(weights, &device).forward(inputs).into_data().iter::<f32>().collect()
}

#[test]
fn the_simulator_computes_what_burn_computes() {
    let networks = WorkspaceFit { epochs: 40, hidden: 16, ..WorkspaceFit::default() }
        .fit(&rows(), &Device::flex(), &|| true)
        .expect("a fit");
    // Rounded as in the file.
    let networks = decode(&encode(&networks)).expect("just written");
    let model = WorkspaceModel::from_weights(networks.clone());
    for row in rows() {
        let expected = burn_logits(&networks[row.query.convolution.direction as usize], &row.query);
        let found = model.logits(&row.query);
        assert_eq!(expected.len(), OUTPUT_COUNT);
        let largest = expected.iter().zip(found).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        assert!(largest < 1e-4, "apart by {largest}");
    }
}

#[test]
fn a_handful_of_rows_is_learned_by_heart() {
    let fit = WorkspaceFit { epochs: 150, hidden: 16, ..WorkspaceFit::default() };
    let networks = fit.fit(&rows(), &Device::flex(), &|| true).expect("a fit");
    let again = fit.fit(&rows(), &Device::flex(), &|| true).expect("a fit");
    assert!(networks == again, "a seed decides the weights");
    let model = WorkspaceModel::from_weights(networks);
    for row in rows() {
        let answer = model.answer(&row.query);
        assert_eq!((answer.first, answer.largest), (row.first_bytes, row.largest_bytes), "{:?}", row.query);
    }
}

#[test]
fn a_fit_stops_when_it_is_told_to() {
    let stopped = WorkspaceFit::default().fit(&rows(), &Device::flex(), &|| false);
    assert!(matches!(stopped, Err(plimsoll_model::ModelError::Interrupted { epochs: 1 })));
}
