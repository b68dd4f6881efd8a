//! Module paths, from the names that exporters give to nodes.

use std::rc::Rc;

use crate::proto::NodeProto;

/// Metadata in which PyTorch's newer exporter writes the modules that a node stems from.
const SCOPES: &str = "pkg.torch.onnx.name_scopes";

/// Where a node stands in the program that it was exported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The node's name as the file has it.
    pub(super) node: Rc<str>,
    /// Path of its module.
    pub(super) module: Rc<str>,
    /// The node's name within the module.
    pub(super) label: Rc<str>,
    /// What the operator was before the exporter took it apart.
    pub(super) hint: Rc<str>,
}

/// The place of a node; one without a name of its own is named after what it writes.
pub(super) fn place(node: &NodeProto, caller: Option<&Rc<str>>) -> Place {
    let op = node.op_type.as_deref().unwrap_or("node");
    let named = node.name.as_deref().filter(|name| !name.is_empty());
    let name = named.or_else(|| node.output.first().map(String::as_str)).unwrap_or(op);
    let label: Rc<str> = op.to_lowercase().into();
    if let Some(scopes) = node.metadata_props.iter().find(|entry| entry.key.as_deref() == Some(SCOPES)) {
        let scopes = listed(scopes.value.as_deref().unwrap_or_default());
        if let Some((own, modules)) = scopes.split_last() {
            let module = modules.last().copied().unwrap_or_default();
            return Place { node: name.into(), module: module.into(), label, hint: (*own).into() };
        }
    }
    let module = path(name);
    let module = match caller {
        Some(caller) if caller.is_empty() => module,
        Some(caller) => caller.to_string(),
        None => module,
    };
    Place { node: name.into(), module: module.into(), label, hint: "".into() }
}

/// The texts of a list as Python prints it.
fn listed(text: &str) -> Vec<&str> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    inner.split(", ").map(|part| part.trim_matches(['\'', '"'])).collect()
}

/// The path in `/layer1/layer1.0/conv1/Conv`: parts of containers repeat the path of the container.
fn path(name: &str) -> String {
    let Some((scopes, _)) = name.rsplit_once('/') else { return String::new() };
    let mut parts: Vec<&str> = Vec::new();
    for part in scopes.split('/').filter(|part| !part.is_empty()) {
        let repeats =
            parts.last().is_some_and(|last| part.strip_prefix(last).is_some_and(|rest| rest.starts_with('.')));
        if repeats {
            parts.pop();
        }
        parts.push(part);
    }
    parts.join(".")
}

/// Whether an exporter made up the name of a constant: no program has a parameter of that name.
pub(crate) fn is_generated(name: &str) -> bool {
    let is_numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).map(|rest| rest.trim_start_matches('_'));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_'))
    };
    name.starts_with("onnx::")
        || name.starts_with('/')
        || name.to_lowercase().contains("const")
        || ["", "val", "_val", "t", "scalar_tensor", "lift_fresh_copy"].into_iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::StringStringEntryProto;

    #[test]
    fn both_exporters_of_pytorch_tell_modules() {
        assert_eq!(path("/stages/stages.2/stages.2.1/attn/qkv/MatMul"), "stages.2.1.attn.qkv");
        assert_eq!(path("/conv/Conv"), "conv");
        assert_eq!(path("Conv_3"), "");
        let entry = StringStringEntryProto {
            key: Some(SCOPES.into()),
            value: Some("['', 'blocks', 'blocks.0', 'blocks.0.bn1', 'batch_norm_1']".into()),
        };
        let node = NodeProto { name: Some("n0".into()), metadata_props: vec![entry], ..NodeProto::default() };
        let place = place(&node, None);
        assert_eq!((&*place.module, &*place.hint), ("blocks.0.bn1", "batch_norm_1"));
    }
}
