//! A node's parameters by name and type.

use crate::proto::{AttributeProto, GraphProto, TensorProto};

/// The parameters of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes(Vec<AttributeProto>);

impl Attributes {
    pub(crate) const fn new(attributes: Vec<AttributeProto>) -> Self {
        Self(attributes)
    }

    /// Of a node in the body of a function: parameters that refer to the caller's are replaced by these.
    pub(crate) fn bound(attributes: Vec<AttributeProto>, caller: &Self, defaults: &[AttributeProto]) -> Self {
        let bind = |attribute: AttributeProto| match attribute.ref_attr_name.as_deref() {
            None | Some("") => Some(attribute),
            Some(wanted) => {
                let given = caller.find(wanted).or_else(|| defaults.iter().find(|default| is_named(default, wanted)));
                given.map(|given| AttributeProto { name: attribute.name, ..given.clone() })
            }
        };
        Self(attributes.into_iter().filter_map(bind).collect())
    }

    fn find(&self, name: &str) -> Option<&AttributeProto> {
        self.0.iter().find(|attribute| is_named(attribute, name))
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.find(name).and_then(|attribute| attribute.i)
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> i64 {
        self.int(name).unwrap_or(default)
    }

    /// Whether a parameter that is 0 or 1 is set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.int_or(name, 0) != 0
    }

    pub(crate) fn float(&self, name: &str) -> Option<f32> {
        self.find(name).and_then(|attribute| attribute.f)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.find(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(crate) fn floats(&self, name: &str) -> Option<&[f32]> {
        self.find(name).map(|attribute| attribute.floats.as_slice())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.find(name).and_then(|attribute| attribute.s.as_deref()).and_then(|text| str::from_utf8(text).ok())
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&TensorProto> {
        self.find(name).and_then(|attribute| attribute.t.as_deref())
    }

    pub(crate) fn graph(&self, name: &str) -> Option<&GraphProto> {
        self.find(name).and_then(|attribute| attribute.g.as_deref())
    }

    /// The shape of a sparse tensor.
    pub(crate) fn sparse_dims(&self, name: &str) -> Option<&[i64]> {
        self.find(name).and_then(|attribute| attribute.sparse_tensor.as_deref()).map(|tensor| tensor.dims.as_slice())
    }
}

fn is_named(attribute: &AttributeProto, name: &str) -> bool {
    attribute.name.as_deref() == Some(name)
}
