//! The software under a run: what a context and libraries take changes with it by hundreds of MiB.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Versions of the software that a run used, as far as they are known.
///
/// Written as names and versions, in any order and with anything else between them: `pytorch 2.4.1, cuda 12.4`,
/// `torch==2.4.1+cu124 cudnn 9.1`, `PyTorch 2.5, ROCm 6.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stack {
    versions: [Option<Version>; Software::ALL.len()],
}

/// Software that decides what a run takes beside its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Software {
    /// The framework.
    Pytorch,
    /// NVIDIA's runtime.
    Cuda,
    /// NVIDIA's library of convolutions.
    Cudnn,
    /// AMD's runtime and libraries.
    Rocm,
    /// The GPU's driver.
    Driver,
}

/// A version up to its second number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Version {
    major: u16,
    minor: Option<u16>,
}

/// A text that names no version of any known software.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected versions, such as `pytorch 2.4, cuda 12.4`, found `{found}`")]
pub struct UnknownStack {
    /// The text, shortened.
    pub found: String,
}

impl Software {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::Pytorch, Self::Cuda, Self::Cudnn, Self::Rocm, Self::Driver];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytorch => "pytorch",
            Self::Cuda => "cuda",
            Self::Cudnn => "cudnn",
            Self::Rocm => "rocm",
            Self::Driver => "driver",
        }
    }

    /// The major version that a stack of which nothing is known counts as having.
    const fn today(self) -> Option<u16> {
        match self {
            Self::Pytorch => Some(2),
            Self::Cuda => Some(12),
            Self::Cudnn => Some(9),
            Self::Rocm | Self::Driver => None,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "torch" => Some(Self::Pytorch),
            "cu" => Some(Self::Cuda),
            "hip" => Some(Self::Rocm),
            _ => Self::ALL.into_iter().find(|software| software.name() == name),
        }
    }
}

impl Stack {
    /// What [`Stack::numbers`] stands for, in order.
    ///
    /// A stack as most measurements have it today is the reference, and what is not known counts as being like it: `PyTorch`
    /// 2, CUDA 12, cuDNN 9. Versions beyond it, which no measurement may show yet, have numbers of their own, so that
    /// what older ones taught is not turned around for them.
    pub const NUMBERS: [&'static str; 9] = [
        "older_pytorch",
        "newer_pytorch",
        "pytorch_minor",
        "older_cuda",
        "newer_cuda",
        "cuda_minor",
        "older_cudnn",
        "newer_cudnn",
        "is_rocm",
    ];

    /// The stack in the order of [`Stack::NUMBERS`], each from -1 to 1; all 0 where nothing is known.
    pub fn numbers(self) -> [f32; Self::NUMBERS.len()] {
        let side = |software: Software| {
            let majors = self.get(software).map(|version| version.major).zip(software.today());
            let flag = |is_so: bool| f32::from(u8::from(is_so));
            majors.map_or([0.0; 2], |(major, today)| [flag(major < today), flag(major > today)])
        };
        // Minor versions count from the middle of those that there were: 0 to 10 and 0 to 8.
        let minor = |software: Software, middle: f32| {
            let minor = self.get(software).and_then(|version| version.minor);
            minor.map_or(0.0, |minor| (f32::from(minor) / middle - 1.0).min(1.0))
        };
        let [older_pytorch, newer_pytorch] = side(Software::Pytorch);
        let [older_cuda, newer_cuda] = side(Software::Cuda);
        let [older_cudnn, newer_cudnn] = side(Software::Cudnn);
        [
            older_pytorch,
            newer_pytorch,
            minor(Software::Pytorch, 5.0),
            older_cuda,
            newer_cuda,
            minor(Software::Cuda, 4.0),
            older_cudnn,
            newer_cudnn,
            f32::from(u8::from(self.get(Software::Rocm).is_some())),
        ]
    }

    /// Whether nothing is known of it.
    pub fn is_unknown(self) -> bool {
        self == Self::default()
    }

    /// Whether two may be one: no software that both name has different major versions, and one with CUDA is none with
    /// `ROCm`. Drivers run programs of older ones and do not count. Where `PyTorch` is not named it counts as today's, and
    /// where nothing is, CUDA and cuDNN do too.
    pub fn agrees_with(self, other: Self) -> bool {
        let names = |stack: Self, software: Software| stack.get(software).is_some();
        let is_of_both_vendors = names(self, Software::Rocm) && names(other, Software::Cuda)
            || names(self, Software::Cuda) && names(other, Software::Rocm);
        let has_rocm = names(self, Software::Rocm) || names(other, Software::Rocm);
        let major = |stack: Self, software: Software| match stack.get(software) {
            Some(version) => Some(version.major),
            // Nobody leaves an old framework unsaid to mean it; of what an old one runs on, more is open.
            None if software == Software::Pytorch => software.today(),
            None if stack.is_unknown() && !has_rocm => software.today(),
            None => None,
        };
        let differs = |software: Software| {
            let majors = major(self, software).zip(major(other, software));
            majors.is_some_and(|(one, other)| one != other)
        };
        !is_of_both_vendors
            && !Software::ALL.into_iter().any(|software| software != Software::Driver && differs(software))
    }

    /// Which of two is nearer to this one: the greater is the same, or names more of the same software, then with minor versions less
    /// far away.
    pub fn compare_nearness(self, one: Self, other: Self) -> Ordering {
        let nearness = |stack: Self| {
            let pairs = Software::ALL.map(|software| self.get(software).zip(stack.get(software)));
            let pairs = pairs.into_iter().flatten();
            let (mut shared, mut distance) = (0_usize, 0_u32);
            for (one, other) in pairs {
                shared += 1;
                let minors = one.minor.zip(other.minor);
                distance += minors.map_or(0, |(one, other)| u32::from(one.abs_diff(other)));
            }
            (stack == self, shared, std::cmp::Reverse(distance))
        };
        nearness(one).cmp(&nearness(other))
    }

    fn get(self, software: Software) -> Option<Version> {
        self.versions[software as usize]
    }
}

impl FromStr for Stack {
    type Err = UnknownStack;

    /// Reads names and versions; an empty text is an unknown stack.
    ///
    /// # Errors
    /// A text without the version of any software that is known.
    fn from_str(text: &str) -> Result<Self, UnknownStack> {
        let mut stack = Self::default();
        let mut named: Option<Software> = None;
        let is_between = |letter: char| letter.is_whitespace() || ",;:=/+()[]_-".contains(letter);
        for word in text.split(is_between).filter(|word| !word.is_empty()) {
            let word = word.to_ascii_lowercase();
            let digits = word.find(|letter: char| letter.is_ascii_digit()).unwrap_or(word.len());
            let (name, version) = word.split_at(digits);
            match name {
                "" | "v" | "version" => {}
                name => named = Software::from_name(name),
            }
            if version.is_empty() {
                continue;
            }
            // A version belongs to the name before it, once.
            if let Some(software) = named.take()
                && let Some(version) = Version::parse(version, software, name == "cu")
            {
                stack.versions[software as usize].get_or_insert(version);
            }
        }
        if stack.is_unknown() && !text.trim().is_empty() {
            return Err(UnknownStack { found: text.chars().take(60).collect() });
        }
        Ok(stack)
    }
}

impl Version {
    /// Reads `12.4.1`; in `cu124` the last digit is the minor version, and cuDNN calls its 8.9.4 8904, its 9.1.0 90100.
    fn parse(text: &str, software: Software, is_joined: bool) -> Option<Self> {
        let number = |part: &str| part.parse::<u16>().ok();
        let joined = |major: usize, minor: usize| -> Option<Self> {
            Some(Self { major: number(&text[..major])?, minor: number(&text[major..minor]) })
        };
        let is_whole = text.bytes().all(|digit| digit.is_ascii_digit());
        match (software, text.len()) {
            (Software::Cuda, digits @ 2..) if is_whole && is_joined => return joined(digits - 1, digits),
            (Software::Cudnn, 4) if is_whole => return joined(1, 2),
            (Software::Cudnn, 5) if is_whole => return joined(1, 3),
            _ => {}
        }
        let mut parts = text.split('.');
        Some(Self { major: number(parts.next()?)?, minor: parts.next().and_then(number) })
    }
}

impl fmt::Display for Stack {
    /// Names and versions in a fixed order; nothing where nothing is known.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Software::ALL.into_iter().filter_map(|software| Some((software, self.get(software)?)));
        for (index, (software, version)) in known.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{} {}", software.name(), version.major)?;
            if let Some(minor) = version.minor {
                write!(out, ".{minor}")?;
            }
        }
        Ok(())
    }
}

impl From<Stack> for String {
    fn from(stack: Stack) -> Self {
        stack.to_string()
    }
}

impl TryFrom<String> for Stack {
    type Error = UnknownStack;

    fn try_from(text: String) -> Result<Self, UnknownStack> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Stack {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn versions_are_read_in_the_forms_in_which_they_are_met() {
        for (text, shown) in [
            ("pytorch 2.4.1, cuda 12.4", "pytorch 2.4, cuda 12.4"),
            ("torch==2.4.1+cu124", "pytorch 2.4, cuda 12.4"),
            ("torch-1.13.1 cu117 cudnn8.5", "pytorch 1.13, cuda 11.7, cudnn 8.5"),
            ("Driver Version: 550.54.15   CUDA Version: 12.4", "cuda 12.4, driver 550.54"),
            ("PyTorch 2.5 / ROCm 6.2", "pytorch 2.5, rocm 6.2"),
            ("Ubuntu 22.04; python 3.11; torch 2", "pytorch 2"),
            ("pytorch v2.9", "pytorch 2.9"),
            ("cudnn 8904", "cudnn 8.9"),
            ("cuDNN 90100", "cudnn 9.1"),
            ("", ""),
            ("  ", ""),
        ] {
            assert_eq!(stack(text).to_string(), shown, "{text}");
            assert_eq!(stack(shown), stack(text), "{shown}");
        }
        assert!(stack("").is_unknown());
    }

    #[test]
    fn a_text_without_a_known_version_is_an_error() {
        for text in ["cluster A", "pytorch", "pytroch 2.4", "2.4", "cuda 99999999999", "\u{0}"] {
            let error = text.parse::<Stack>().expect_err(text).to_string();
            assert!(error.contains("pytorch 2.4, cuda 12.4"), "{error}");
        }
        let long = "x".repeat(100_000).parse::<Stack>().expect_err("no version").to_string();
        assert!(long.len() < 200);
    }

    #[test]
    fn numbers_are_small_and_nothing_where_nothing_is_known() {
        assert_eq!(Stack::default().numbers(), [0.0; 9]);
        assert_eq!(stack("pytorch 2, cuda 12, cudnn 9").numbers(), [0.0; 9]);
        assert_eq!(stack("pytorch 1.13").numbers()[..3], [1.0, 0.0, 1.0]);
        assert_eq!(stack("pytorch 2.0, cuda 13.2").numbers()[..6], [0.0, 0.0, -1.0, 0.0, 1.0, -0.5]);
        assert_eq!(stack("rocm 6.1").numbers()[8], 1.0);
        let absurd = stack("pytorch 65535.65535, cuda 0.0, cudnn 65535, rocm 0, driver 0");
        assert!(absurd.numbers().iter().all(|number| (-1.0..=1.0).contains(number)));
    }

    #[test]
    fn stacks_agree_unless_a_major_version_differs() {
        let today = stack("pytorch 2.6, cuda 12.4");
        for (other, agrees) in [
            ("", true),
            ("pytorch 2.1", true),
            ("pytorch 1.13", false),
            ("pytorch 2.6, cuda 11.8", false),
            ("pytorch 2.6, rocm 6.2", false),
            ("driver 470", true),
        ] {
            assert_eq!(today.agrees_with(stack(other)), agrees, "{other}");
            assert_eq!(stack(other).agrees_with(today), agrees, "{other}");
        }
        // Of which nothing is known counts as today's, on whatever vendor's GPU.
        for (other, agrees) in
            [("", true), ("pytorch 1", false), ("cuda 11.8", false), ("rocm 6", true), ("pytorch 1, rocm 4", false)]
        {
            assert_eq!(Stack::default().agrees_with(stack(other)), agrees, "{other}");
            assert_eq!(stack(other).agrees_with(Stack::default()), agrees, "{other}");
        }
        for other in ["cuda 12.4", "driver 550", "cudnn 9"] {
            assert!(!stack(other).agrees_with(stack("pytorch 1")), "{other}");
        }
        // Of which something is known stays open in the rest.
        assert!(stack("pytorch 1").agrees_with(stack("pytorch 1.13, cuda 11.7")));
    }

    #[test]
    fn the_nearer_stack_names_more_alike() {
        let asked = stack("pytorch 2.6, cuda 12.4");
        let order = ["", "cuda 12.1", "pytorch 2.1, cuda 12.1", "pytorch 2.5, cuda 12.4", "pytorch 2.6, cuda 12.4"];
        for pair in order.windows(2) {
            assert_eq!(asked.compare_nearness(stack(pair[0]), stack(pair[1])), Ordering::Less, "{pair:?}");
        }
        assert_eq!(asked.compare_nearness(asked, asked), Ordering::Equal);
        assert_eq!(Stack::default().compare_nearness(asked, Stack::default()), Ordering::Less);
    }
}
