//! What a configuration does not say.

use crate::error::{GraphError, Result, nearest};

/// How a configuration is read. The default asks for what its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Tokens of a sample; 512 if nothing is said, or fewer where the network has fewer positions.
    pub tokens: Option<u64>,
    /// Tokens of a target, for networks of an encoder and a decoder; as many as the sample has if nothing is said.
    pub target_tokens: Option<u64>,
    /// What the network ends in; what `architectures` names if nothing is said.
    pub head: Option<Head>,
    /// Whether attention is made of separate products and a softmax where the library would take a fused kernel.
    pub eager_attention: bool,
    /// Whether attention computes in half precision (mixed precision, or bf16 throughout). PyTorch's only fused
    /// kernel for heads that share keys needs it; in fp32 such attention is taken apart.
    pub half_precision: bool,
}

/// What a network ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Head {
    /// The bare network.
    Base,
    /// The encoder alone of a network that has a decoder too.
    Encoder,
    /// Scores of the vocabulary for masked tokens.
    MaskedLm,
    /// Scores of the vocabulary for the next token.
    CausalLm,
    /// Scores of the vocabulary for the next token of a target.
    ConditionalGeneration,
    /// The heads with which the network was trained first.
    PreTraining,
    /// A class for each sample.
    SequenceClassification,
    /// A class for each token.
    TokenClassification,
    /// Start and end of an answer.
    QuestionAnswering,
    /// A class for each image.
    ImageClassification,
}

impl Head {
    /// Every head.
    pub const ALL: [Self; 10] = [
        Self::Base,
        Self::Encoder,
        Self::MaskedLm,
        Self::CausalLm,
        Self::ConditionalGeneration,
        Self::PreTraining,
        Self::SequenceClassification,
        Self::TokenClassification,
        Self::QuestionAnswering,
        Self::ImageClassification,
    ];

    /// The name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Encoder => "encoder",
            Self::MaskedLm => "masked-lm",
            Self::CausalLm => "causal-lm",
            Self::ConditionalGeneration => "conditional-generation",
            Self::PreTraining => "pre-training",
            Self::SequenceClassification => "sequence-classification",
            Self::TokenClassification => "token-classification",
            Self::QuestionAnswering => "question-answering",
            Self::ImageClassification => "image-classification",
        }
    }

    /// The head of a name.
    ///
    /// # Errors
    /// A name that is not in [`Head::ALL`]; the error proposes the nearest.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|head| head.name() == name).ok_or_else(|| GraphError::Unknown {
            what: "head",
            name: name.into(),
            nearest: nearest(name, Self::ALL.map(Self::name)),
        })
    }

    /// The head of a class of the library, by the end of its name.
    pub(super) fn of_class(class: &str) -> Option<Self> {
        const ENDS: [(&str, Head); 14] = [
            ("ForMaskedLM", Head::MaskedLm),
            ("ForCausalLM", Head::CausalLm),
            ("ForConditionalGeneration", Head::ConditionalGeneration),
            ("ForPreTraining", Head::PreTraining),
            ("ForSequenceClassification", Head::SequenceClassification),
            ("ForTokenClassification", Head::TokenClassification),
            ("ForQuestionAnswering", Head::QuestionAnswering),
            ("ForImageClassification", Head::ImageClassification),
            // Names of older releases.
            ("WithLMHeadModel", Head::ConditionalGeneration),
            ("LMHeadModel", Head::CausalLm),
            ("EncoderModel", Head::Encoder),
            ("DoubleHeadsModel", Head::PreTraining),
            ("DecoderModel", Head::PreTraining),
            ("Model", Head::Base),
        ];
        ENDS.into_iter().find(|(end, _)| class.ends_with(end)).map(|(_, head)| head)
    }
}
