//! Damaged graph files: the reader answers with an error or a graph, never with a panic.

use plimsoll_graph::json::{parse, write};
use proptest::prelude::*;

const FORMAT: &str = include_str!("../../../docs/graph-format.md");

fn example() -> &'static str {
    let (_, rest) = FORMAT.split_once("```json\n").expect("an example");
    rest.split_once("```").expect("an end of the example").0
}

/// One change to a document, at a place that is taken modulo its length.
#[derive(Debug, Clone)]
enum Damage {
    Delete {
        at: usize,
        length: usize,
    },
    Repeat {
        at: usize,
        length: usize,
    },
    Replace {
        at: usize,
        byte: u8,
    },
    /// A whole token becomes another one of the document.
    Swap {
        at: usize,
        other: usize,
    },
    Number {
        at: usize,
        number: u64,
    },
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        let range = |at: usize, count: usize| at % length..(at % length + count).min(length);
        match *self {
            Self::Delete { at, length } => drop(bytes.drain(range(at, length))),
            Self::Repeat { at, length } => {
                let part = bytes[range(at, length)].to_vec();
                let at = at % bytes.len();
                bytes.splice(at..at, part);
            }
            Self::Replace { at, byte } => bytes[at % length] = byte,
            Self::Swap { at, other } => {
                let tokens = tokens(bytes);
                let (Some(into), Some(from)) = (pick(&tokens, at), pick(&tokens, other)) else { return };
                let part = bytes[from].to_vec();
                bytes.splice(into, part);
            }
            Self::Number { at, number } => {
                let mut tokens = tokens(bytes);
                tokens.retain(|token| bytes[token.start].is_ascii_digit());
                let Some(into) = pick(&tokens, at) else { return };
                bytes.splice(into, number.to_string().into_bytes());
            }
        }
    }
}

fn pick(tokens: &[std::ops::Range<usize>], at: usize) -> Option<std::ops::Range<usize>> {
    tokens.get(at.checked_rem(tokens.len())?).cloned()
}

/// Strings and numbers.
fn tokens(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let rest = &bytes[start..];
        let length = if rest[0] == b'"' {
            rest[1..].iter().position(|&byte| byte == b'"').map_or(rest.len(), |end| end + 2)
        } else {
            rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
        };
        if length > 0 {
            tokens.push(start..start + length);
        }
        start += length.max(1);
    }
    tokens
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>;
    let number = prop_oneof![0_u64..100, Just(u64::MAX), Just(1 << 58), Just(1 << 32)];
    prop_oneof![
        (at(), 1_usize..200).prop_map(|(at, length)| Damage::Delete { at, length }),
        (at(), 1_usize..200).prop_map(|(at, length)| Damage::Repeat { at, length }),
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Replace { at, byte }),
        (at(), at()).prop_map(|(at, other)| Damage::Swap { at, other }),
        (at(), number).prop_map(|(at, number)| Damage::Number { at, number }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_damaged_document_is_refused_or_read(damages in prop::collection::vec(damage(), 1..4)) {
        let mut bytes = example().as_bytes().to_vec();
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(graph) = parse(&text, "damaged") {
            // What is accepted can be counted and written again.
            graph.parameter_count();
            prop_assert!(parse(&write(&graph), "again").is_ok());
        }
    }

    #[test]
    fn a_truncated_document_is_refused(length in any::<prop::sample::Index>()) {
        let text = example().trim_end();
        prop_assert!(parse(&text[..length.index(text.len())], "truncated").is_err());
    }
}
