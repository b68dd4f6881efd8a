//! Linear layers: a product with a weight, and the bias that is added to it.

use plimsoll_graph::Op;

use super::web::Web;

/// Joins a product with a weight and the sum with a bias.
pub(super) fn recognise(web: &mut Web<'_>) {
    for add in 0..web.len() {
        if web.step(add).is_none_or(|step| step.op() != "Add") {
            continue;
        }
        let (Some(one), Some(other)) = (web.input(add, 0), web.input(add, 1)) else { continue };
        for (product, bias) in [(one, other), (other, one)] {
            let Some(index) = web.writer(product, &["MatMul"]) else { continue };
            if web.only_reader(product) != Some(add) {
                continue;
            }
            let (Some(input), Some(weight)) = (web.input(index, 0), web.input(index, 1)) else { continue };
            let is_layer =
                web.value(weight).weight().is_some() && web.value(input).is_runtime() && web.value(weight).rank() == 2;
            let is_bias = web.value(bias).dims() == [web.value(product).shape.last()];
            if is_layer && is_bias && web.value(product).rank() > 1 {
                web.replace(add, &[index], Op::Linear, vec![Some(input), Some(weight), Some(bias)]);
                break;
            }
        }
    }
}
