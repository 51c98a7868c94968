//! Byte-level BPE over `tokenizers`, and the tokens that are matched as whole strings before it.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::models::bpe::{Merges, Vocab, BPE};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

// GGUF's tokenizer.ggml.token_type.
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

pub struct Spec<'a> {
    pub tokens: Vec<&'a str>,
    pub token_types: &'a [i32],
    pub merges: Vec<&'a str>,
    pub pre: &'a str,
}

/// Strings that are found as they are, the leftmost first and of those the longest.
struct Literals {
    ids: Vec<i32>,
    finder: Option<AhoCorasick>,
}

impl Literals {
    fn new(found: &[(&str, i32)]) -> Result<Self, String> {
        let ids = found.iter().map(|(_, id)| *id).collect();
        let finder = match found {
            [] => None,
            _ => Some(
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(found.iter().map(|(token, _)| token))
                    .map_err(|e| format!("special tokens: {e}"))?,
            ),
        };
        Ok(Self { ids, finder })
    }

    /// (start, end, id) in order.
    fn matches<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, usize, i32)> + 'a {
        self.finder
            .iter()
            .flat_map(move |f| f.find_iter(text))
            .map(|m| (m.start(), m.end(), self.ids[m.pattern().as_usize()]))
    }
}

pub struct Vocabulary {
    bpe: Tokenizer,
    control: Vec<String>,
    control_literals: Literals,
    user_literals: Literals,
    all_literals: Literals,
}

/// Splitting as the models' own tokenizer.json files have it; names are GGUF's.
fn pre_tokenizer(name: &str) -> Result<(Vec<PreTokenizerWrapper>, bool), String> {
    const GPT2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = concat!(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    );
    let split = |pattern: &str| -> Result<PreTokenizerWrapper, String> {
        let pattern = SplitPattern::Regex(pattern.to_string());
        Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map(PreTokenizerWrapper::from)
            .map_err(|e| format!("pre-tokenizer {name}: {e}"))
    };
    let bytes = |regex: bool| PreTokenizerWrapper::from(ByteLevel::new(false, true, regex));
    // `true`: a word that is in the vocabulary as a whole is taken without looking at the merges.
    Ok(match name {
        "smollm" | "starcoder" => (vec![Digits::new(true).into(), bytes(true)], false),
        "gpt-2" => (vec![bytes(true)], false),
        "llama-bpe" | "llama3" | "llama-v3" => (vec![split(LLAMA3)?, bytes(false)], true),
        "default" | "" => (
            vec![
                split(r"[\p{P}\$\+<=>\^~\|]+")?,
                split(GPT2)?,
                split(r"\p{N}+")?,
                split("[0-9][0-9][0-9]")?,
                bytes(false),
            ],
            false,
        ),
        other => {
            return Err(format!(
                "pre-tokenizer '{other}' is not supported; supported are smollm, starcoder, \
                 gpt-2, llama-bpe (llama3, llama-v3) and default"
            ))
        }
    })
}

fn read_merges(spec: &Spec, vocab: &Vocab) -> Result<Merges, String> {
    let mut merges = Vec::with_capacity(spec.merges.len());
    for (i, line) in spec.merges.iter().enumerate() {
        let (left, right) = line
            .split_once(' ')
            .filter(|(l, r)| !l.is_empty() && !r.is_empty() && !r.contains(' '))
            .ok_or_else(|| format!("merge {i} '{line}' is not two tokens with a space between"))?;
        for part in [left.to_string(), right.to_string(), format!("{left}{right}")] {
            if !vocab.contains_key(&part) {
                return Err(format!(
                    "merge {i} '{line}' needs '{part}', which is not an ordinary token"
                ));
            }
        }
        merges.push((left.to_string(), right.to_string()));
    }
    Ok(merges)
}

impl Vocabulary {
    pub fn new(spec: &Spec) -> Result<Self, String> {
        if spec.tokens.is_empty() {
            return Err("the vocabulary is empty".to_string());
        }
        if spec.merges.is_empty() {
            return Err("there are no merges, which byte-level BPE needs".to_string());
        }
        let mut seen = HashMap::new();
        let (mut vocab, mut control, mut user) = (Vocab::default(), Vec::new(), Vec::new());
        for (id, (&token, &kind)) in spec.tokens.iter().zip(spec.token_types).enumerate() {
            if token.is_empty() {
                return Err(format!("token {id} is empty"));
            }
            if let Some(first) = seen.insert(token, id) {
                return Err(format!("tokens {first} and {id} are both '{token}'"));
            }
            match kind {
                // Kept out of the model, so that no sequence of merges can end in one of them.
                UNKNOWN | CONTROL => control.push((token, id as i32)),
                USER_DEFINED => user.push((token, id as i32)),
                _ => {
                    vocab.insert(token.to_string(), id as u32);
                }
            }
        }
        let merges = read_merges(spec, &vocab)?;
        let (steps, whole_words_first) = pre_tokenizer(spec.pre)?;
        let model = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .ignore_merges(whole_words_first)
            .build()
            .map_err(|e| format!("BPE: {e}"))?;
        let mut bpe = Tokenizer::new(model);
        bpe.with_pre_tokenizer(Some(Sequence::new(steps)));
        bpe.with_decoder(Some(ByteLevel::default()));
        let all: Vec<_> = control.iter().chain(&user).copied().collect();
        Ok(Self {
            bpe,
            control: control.iter().map(|(token, _)| token.to_string()).collect(),
            control_literals: Literals::new(&control)?,
            user_literals: Literals::new(&user)?,
            all_literals: Literals::new(&all)?,
        })
    }

    /// The spellings of the control tokens.
    pub fn control(&self) -> &[String] {
        &self.control
    }

    /// Where control tokens are spelled out: (start, end, id) in order.
    pub fn control_matches<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (usize, usize, i32)> + 'a {
        self.control_literals.matches(text)
    }

    /// Appends the tokens of `text`. User-defined tokens are found in any case.
    pub fn encode(&self, text: &str, special: bool, out: &mut Vec<i32>) -> Result<(), String> {
        let literals = if special { &self.all_literals } else { &self.user_literals };
        let mut done = 0;
        for (start, end, id) in literals.matches(text) {
            self.encode_ordinary(&text[done..start], out)?;
            out.push(id);
            done = end;
        }
        self.encode_ordinary(&text[done..], out)
    }

    fn encode_ordinary(&self, text: &str, out: &mut Vec<i32>) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        let encoding = self.bpe.encode_fast(text, false).map_err(|e| e.to_string())?;
        out.extend(encoding.get_ids().iter().map(|&id| id as i32));
        Ok(())
    }

    pub fn decode(&self, ids: &[i32]) -> Result<String, String> {
        let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
        self.bpe.decode(&ids, true).map_err(|e| e.to_string())
    }
}
