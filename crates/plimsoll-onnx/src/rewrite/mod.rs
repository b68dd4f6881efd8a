//! Recognises what exporters took apart.
//!
//! Each rule looks for the last step of a chain, checks that nothing else reads what lies inside, and puts one
//! recognised step in its place. The rest of the chain is then read by nobody and goes.

mod activations;
mod attention;
mod functions;
mod linear;
mod noise;
mod norms;
mod own_statistics;
mod restored;
mod runtime;
mod stacks;
mod web;

use crate::program::Program;

/// Rewrites a program in place.
pub(crate) fn rewrite(program: &mut Program) {
    runtime::take_apart(program);
    own_statistics::forget(program);
    restored::put_back(program);
    let passes: [fn(&mut web::Web<'_>); 7] = [
        norms::groups,
        norms::rows,
        activations::recognise,
        noise::recognise,
        attention::recognise,
        linear::recognise,
        stacks::join,
    ];
    for pass in passes {
        let mut web = web::Web::new(program);
        pass(&mut web);
        web.finish();
    }
}
