//! What BERT and its descendants end in.

use super::{Bert, Kind};
use crate::huggingface::module::Module;
use crate::huggingface::network::Value;
use crate::huggingface::options::Head;
use crate::op::Activation;
use crate::shape::Dim;

impl Bert {
    pub(super) fn new_head(&self, root: &mut Module<'_>) {
        match self.head {
            Head::MaskedLm | Head::CausalLm => self.new_language_head(root),
            Head::PreTraining if self.kind == Kind::Electra => {
                let mut head = root.child("discriminator_predictions");
                head.new_linear("dense", self.width, self.width, true);
                head.new_linear("dense_prediction", self.width, 1, true);
            }
            Head::PreTraining => {
                self.new_language_head(root);
                root.new_linear("cls.seq_relationship", self.width, 2, true);
            }
            Head::SequenceClassification if self.kind != Kind::Bert => {
                let mut head = root.child("classifier");
                head.new_linear("dense", self.width, self.width, true);
                head.new_linear("out_proj", self.width, self.labels, true);
            }
            Head::SequenceClassification | Head::TokenClassification => {
                root.new_linear("classifier", self.width, self.labels, true);
            }
            Head::QuestionAnswering => root.new_linear("qa_outputs", self.width, 2, true),
            _ => {}
        }
    }

    fn new_language_head(&self, root: &mut Module<'_>) {
        if self.kind == Kind::Electra {
            let mut head = root.child("generator_predictions");
            head.new_layer_norm("LayerNorm", self.embedding);
            head.new_linear("dense", self.width, self.embedding, true);
            if self.is_tied {
                root.tie("generator_lm_head.weight", "electra.embeddings.word_embeddings.weight");
            } else {
                root.new_parameter("generator_lm_head.weight", &[self.vocabulary, self.embedding]);
            }
            root.new_parameter("generator_lm_head.bias", &[self.vocabulary]);
            return;
        }
        let (path, dense, norm, table) = match self.kind {
            Kind::Bert => {
                ("cls.predictions", "transform.dense", "transform.LayerNorm", "bert.embeddings.word_embeddings.weight")
            }
            _ => ("lm_head", "dense", "layer_norm", "roberta.embeddings.word_embeddings.weight"),
        };
        let mut head = root.child(path);
        head.new_parameter("bias", &[self.vocabulary]);
        head.new_linear(dense, self.width, self.width, true);
        head.new_layer_norm(norm, self.width);
        if !self.is_tied {
            head.new_linear("decoder", self.width, self.vocabulary, true);
            return;
        }
        if self.kind == Kind::HeadFirstRoberta {
            head.new_parameter("decoder.weight", &[self.vocabulary, self.width]);
        } else {
            head.tie("decoder.weight", table);
        }
        let bias = head.named("bias");
        head.tie("decoder.bias", &bias);
    }

    pub(super) fn outputs(&self, root: &mut Module<'_>, hidden: Value, pooled: Option<Value>) -> Vec<Value> {
        match self.head {
            Head::MaskedLm | Head::CausalLm => vec![self.scores(root, hidden)],
            Head::PreTraining if self.kind == Kind::Electra => {
                let mut head = root.child("discriminator_predictions");
                let dense = head.linear("dense", hidden);
                let active = head.activation("activation", self.function, dense);
                let scores = head.linear("dense_prediction", active);
                vec![head.view("squeeze", scores, &[Dim::Batch(1), Dim::Fixed(self.tokens)])]
            }
            Head::SequenceClassification if self.kind != Kind::Bert => vec![self.classes(root, hidden)],
            Head::TokenClassification => {
                let dropped = root.dropout("dropout", hidden, self.classifier_dropout);
                vec![root.linear("classifier", dropped)]
            }
            Head::QuestionAnswering => root.answer(hidden),
            _ => match pooled {
                Some(pooled) if self.head == Head::SequenceClassification => {
                    let dropped = root.dropout("dropout", pooled, self.classifier_dropout);
                    vec![root.linear("classifier", dropped)]
                }
                Some(pooled) if self.head == Head::PreTraining => {
                    let scores = self.scores(root, hidden);
                    vec![scores, root.linear("cls.seq_relationship", pooled)]
                }
                Some(pooled) => vec![hidden, pooled],
                None => vec![hidden],
            },
        }
    }

    /// Scores of the vocabulary.
    fn scores(&self, root: &mut Module<'_>, hidden: Value) -> Value {
        match self.kind {
            Kind::Bert => {
                let mut transform = root.child("cls.predictions.transform");
                let dense = transform.linear("dense", hidden);
                let active = transform.activation("transform_act_fn", self.function, dense);
                let normed = transform.layer_norm("LayerNorm", active);
                root.linear("cls.predictions.decoder", normed)
            }
            Kind::Electra => {
                let mut head = root.child("generator_predictions");
                let dense = head.linear("dense", hidden);
                let active = head.function("activation", Activation::Gelu, dense);
                let normed = head.layer_norm("LayerNorm", active);
                root.linear("generator_lm_head", normed)
            }
            Kind::Roberta | Kind::HeadFirstRoberta => {
                let mut head = root.child("lm_head");
                let dense = head.linear("dense", hidden);
                let active = head.function("gelu", Activation::Gelu, dense);
                let normed = head.layer_norm("layer_norm", active);
                head.linear("decoder", normed)
            }
        }
    }

    /// Scores of the classes, from the first token.
    fn classes(&self, root: &mut Module<'_>, hidden: Value) -> Value {
        let mut head = root.child("classifier");
        let first = head.first_token(hidden);
        let dropped = head.dropout("dropout", first, self.classifier_dropout);
        let dense = head.linear("dense", dropped);
        let active = match self.kind {
            Kind::Electra => head.function("activation", Activation::Gelu, dense),
            _ => head.function("tanh", Activation::Tanh, dense),
        };
        let dropped = head.dropout("dropout", active, self.classifier_dropout);
        head.linear("out_proj", dropped)
    }
}
