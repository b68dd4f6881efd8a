use proptest::prelude::*;

use super::*;
use crate::dtype::DType;
use crate::graph::{Graph, GraphParts};
use crate::op::{AttentionKernel, PoolKind, RecurrentCell};
use crate::shape::Shape;

fn conv() -> Conv {
    Conv { kernel: vec![3, 3], stride: vec![2], padding: vec![1, 1], dilation: vec![], groups: 1, transposed: false }
}

fn pool(kind: PoolKind, kernel: &[u64]) -> Pool {
    Pool { kind, kernel: kernel.to_vec(), stride: vec![], padding: vec![] }
}

fn attention(heads: u64, kv_heads: u64, dropout: f64) -> Op {
    Op::Attention { heads, kv_heads, kernel: AttentionKernel::Fused, causal: false, dropout }
}

fn recurrent(hidden: u64, layers: u64) -> Op {
    Op::Recurrent { cell: RecurrentCell::Lstm, hidden, layers, bidirectional: false }
}

#[test]
fn the_ends_of_every_range_are_accepted() {
    for op in [
        Op::Conv(conv()),
        Op::Conv(Conv { kernel: vec![1 << 20], stride: vec![], padding: vec![], groups: 1 << 24, ..conv() }),
        Op::Conv(Conv { kernel: vec![1; 3], dilation: vec![1 << 20; 3], padding: vec![1 << 20; 3], ..conv() }),
        Op::Pool(pool(PoolKind::AdaptiveAverage, &[])),
        Op::Pool(pool(PoolKind::Max, &[])),
        Op::Pool(pool(PoolKind::Max, &[1])),
        Op::GroupNorm { groups: 1 << 24 },
        Op::Dropout { p: 0.0, inplace: false },
        Op::StochasticDepth { p: 1.0 },
        attention(1 << 20, 1 << 20, 1.0),
        attention(1, 0, 0.0),
        recurrent(1 << 24, 4096),
        Op::Other { name: "frobnicate".into() },
    ] {
        assert!(op.check("n").is_ok(), "{op:?}");
    }
}

#[test]
fn what_is_beyond_a_range_is_named_with_its_node() {
    for (attribute, op) in [
        ("kernel", Op::Conv(Conv { kernel: vec![], stride: vec![], padding: vec![], ..conv() })),
        ("kernel", Op::Conv(Conv { kernel: vec![1; 4], ..conv() })),
        ("kernel", Op::Conv(Conv { kernel: vec![3, 0], ..conv() })),
        ("kernel", Op::Conv(Conv { kernel: vec![3, u64::MAX], ..conv() })),
        ("stride", Op::Conv(Conv { stride: vec![0], ..conv() })),
        ("stride", Op::Conv(Conv { stride: vec![1; 3], ..conv() })),
        ("padding", Op::Conv(Conv { padding: vec![(1 << 20) + 1], ..conv() })),
        ("dilation", Op::Conv(Conv { dilation: vec![1, 0], ..conv() })),
        ("groups", Op::Conv(Conv { groups: 0, ..conv() })),
        ("kernel", Op::Pool(pool(PoolKind::Average, &[0]))),
        ("kernel", Op::Pool(pool(PoolKind::AdaptiveMax, &[1; 4]))),
        ("stride", Op::Pool(Pool { stride: vec![0], ..pool(PoolKind::Max, &[2]) })),
        ("padding", Op::Pool(Pool { padding: vec![0; 2], ..pool(PoolKind::Max, &[2]) })),
        ("groups", Op::GroupNorm { groups: 0 }),
        ("groups", Op::GroupNorm { groups: (1 << 24) + 1 }),
        ("p", Op::Dropout { p: f64::NAN, inplace: false }),
        ("p", Op::Dropout { p: 1.5, inplace: true }),
        ("p", Op::StochasticDepth { p: -0.1 }),
        ("heads", attention(0, 0, 0.0)),
        ("kv_heads", attention(4, 5, 0.0)),
        ("dropout", attention(4, 4, f64::INFINITY)),
        ("hidden", recurrent(0, 1)),
        ("layers", recurrent(1, 4097)),
    ] {
        let error = op.check("n").expect_err(attribute).to_string();
        assert!(error.starts_with(&format!("`{attribute}` of node `n` is out of range")), "{op:?}: {error}");
    }
}

/// A graph of one node.
fn graph(op: Op, extents: &[u64]) -> Result<Graph> {
    let tensor = |name: &str| TensorSpec { name: name.into(), shape: Shape::batched(extents), dtype: DType::Float32 };
    Graph::new(GraphParts {
        tensors: vec![tensor("x"), tensor("y")],
        nodes: vec![Node {
            name: "n".into(),
            op,
            inputs: vec![TensorId(0)],
            outputs: vec![TensorId(1)],
            weights: vec![],
        }],
        inputs: vec![TensorId(0)],
        ..GraphParts::default()
    })
}

#[test]
fn a_convolution_reads_as_many_dimensions_as_its_kernel_has_and_two() {
    assert!(graph(Op::Conv(conv()), &[3, 8, 8]).is_ok());
    let error = graph(Op::Conv(conv()), &[3, 8]).expect_err("a rank too low").to_string();
    assert!(error.contains("`n`") && error.contains("4 dimensions") && error.contains("`x`"), "{error}");
}

#[test]
fn a_graph_with_a_bad_attribute_is_refused() {
    assert!(matches!(graph(Op::GroupNorm { groups: 0 }, &[8]), Err(GraphError::OutOfRange { .. })));
}

proptest! {
    #[test]
    fn a_number_is_accepted_if_it_is_in_range(
        groups in prop_oneof![0_u64..100, Just(1 << 24), any::<u64>()],
        p in any::<f64>(),
    ) {
        let in_range = (1..=1 << 24).contains(&groups);
        prop_assert_eq!(Op::GroupNorm { groups }.check("n").is_ok(), in_range);
        prop_assert_eq!(Op::Conv(Conv { groups, ..conv() }).check("n").is_ok(), in_range);
        prop_assert_eq!(Op::StochasticDepth { p }.check("n").is_ok(), p.is_finite() && (0.0..=1.0).contains(&p));
    }

    #[test]
    fn lists_are_held_to_the_kernel(
        kernel in prop::collection::vec(1_u64..9, 0..6),
        stride in prop::collection::vec(1_u64..9, 0..6),
    ) {
        let expected = (1..=3).contains(&kernel.len()) && stride.len() <= kernel.len();
        let conv = Conv { kernel, stride, padding: vec![], ..conv() };
        prop_assert_eq!(Op::Conv(conv).check("n").is_ok(), expected);
    }
}
