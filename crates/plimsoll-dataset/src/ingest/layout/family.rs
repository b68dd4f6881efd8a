//! Families of models, from their names: near-twins are held out of a fit together.

/// Words before the name proper that say where weights come from, or what a block was given.
const QUALIFIERS: [&str; 20] = [
    "tf", "legacy", "gluon", "ig", "ssl", "swsl", "nf", "dm", "eca", "gc", "se", "ese", "bat", "lambda", "wide",
    "tiny", "jx", "sam2", "test", "dino",
];

/// Stems that are variants of another: whatever contains the first is of the family of the second.
const VARIANTS: [(&str, &str); 22] = [
    ("resnext", "resnet"),
    ("resnet", "resnet"),
    ("regnet", "regnet"),
    ("densenet", "densenet"),
    ("darknet", "darknet"),
    ("mobilenet", "mobilenet"),
    ("mobilevit", "mobilevit"),
    ("efficientnet", "efficientnet"),
    ("mnasnet", "mnasnet"),
    ("semnasnet", "mnasnet"),
    ("nfnet", "nfnet"),
    ("ghostnet", "ghostnet"),
    ("rexnet", "rexnet"),
    ("vovnet", "vovnet"),
    ("maxxvit", "maxvit"),
    ("deit", "vit"),
    ("flexivit", "vit"),
    ("caformer", "metaformer"),
    ("convformer", "metaformer"),
    ("poolformer", "metaformer"),
    ("botn", "botnet"),
    ("halon", "halonet"),
];

/// The family of a model, such as `efficientnet` for `tf_efficientnetv2_s`.
///
/// 1. Words in front that only qualify the name are dropped: `tf_`, `legacy_`, `gluon_`, `wide_`, ...
/// 2. What is left counts up to its first `_`, `-` or `.`, and up to the first number that stands for a size or a
///    version: one after which fewer than three letters follow (`resnet50d`, but `res2net`); `v` before it goes too.
/// 3. Variants are of the family of what they vary: `seresnext` and `resnetrs` of `resnet`, `deit` of `vit`.
pub(super) fn model_family(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(['_', '-', '.', '/', ' ']).filter(|word| !word.is_empty()).peekable();
    while words.peek().is_some_and(|word| QUALIFIERS.contains(word)) {
        let word = words.next().unwrap_or_default();
        if words.peek().is_none() {
            return word.to_owned();
        }
    }
    let stem = without_size(words.next().unwrap_or_default());
    let family = VARIANTS.iter().find(|(variant, _)| stem.contains(variant)).map_or(stem, |(_, family)| family);
    family.to_owned()
}

/// A word up to the number that says its size or version.
fn without_size(word: &str) -> &str {
    let is_size = |&(at, _): &(usize, char)| word[at..].chars().filter(char::is_ascii_alphabetic).count() < 3;
    let size = word.char_indices().filter(|(_, letter)| letter.is_ascii_digit()).find(is_size);
    let Some((end, _)) = size else { return word };
    let stem = &word[..end];
    let stem = stem.strip_suffix('v').filter(|stem| stem.len() > 1).unwrap_or(stem);
    // `t5` and the like are names of their own.
    if stem.len() < 2 { word } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_twins_are_of_one_family() {
        for (family, names) in [
            (
                "efficientnet",
                &["efficientnet_b0", "tf_efficientnetv2_s", "gc_efficientnetv2_rw_t", "efficientnet-b7"][..],
            ),
            (
                "resnet",
                &["resnet50", "resnet152d", "seresnext101_32x4d", "wide_resnet50_2", "tresnet_l", "resnetv2_50"],
            ),
            ("vit", &["vit_base_patch16_224", "deit3_small", "deit_tiny_patch16_224", "flexivit_base"]),
            ("regnet", &["regnetx_002", "regnety_1280", "regnet_y_128gf", "regnetz_b16"]),
            ("swin", &["swinv2_cr_giant_224", "swin_tiny_patch4_window7_224"]),
            ("metaformer", &["caformer_b36", "convformer_s18", "poolformerv2_m48"]),
            ("mobilenet", &["mobilenet_v2", "tf_mobilenetv3_large_100", "mobilenetv4_conv_small"]),
            ("res2net", &["res2net50_14w_8s", "res2net101d"]),
            ("hiera", &["sam2_hiera_large", "hiera_tiny_224"]),
            ("maxvit", &["maxxvitv2_nano_rw_256", "maxvit_tiny_tf_224"]),
            ("vgg", &["vgg16", "vgg19_bn"]),
            ("bert", &["bert-large-uncased", "bert_base"]),
            ("t5", &["t5-base"]),
            ("eva", &["eva02_base_patch14_224", "eva_giant_patch14_336"]),
        ] {
            for name in names {
                assert_eq!(model_family(name), family, "{name}");
            }
        }
        for (one, other) in [("convnext_large", "vit_base"), ("densenet121", "dla34"), ("beit_base", "vit_base")] {
            assert_ne!(model_family(one), model_family(other));
        }
    }

    #[test]
    fn odd_names_have_a_family_too() {
        assert_eq!(model_family(""), "");
        assert_eq!(model_family("tf"), "tf");
        assert_eq!(model_family("50"), "50");
        assert_eq!(model_family("模型-1"), "模型");
    }
}
