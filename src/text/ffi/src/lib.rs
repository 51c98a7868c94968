//! The C boundary; baton_text.h is its contract. Everything unsafe of this crate is in this file.

mod chat;
mod shield;
mod vocabulary;

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use chat::ChatTemplate;
use vocabulary::{Spec, Vocabulary};

const OK: i32 = 0;
const INVALID: i32 = 1;
const PANIC: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut i32,
    size: usize,
}

#[repr(C)]
pub struct RawSpec {
    tokens: *const Slice,
    token_types: *const i32,
    token_count: usize,
    merges: *const Slice,
    merge_count: usize,
    pre: Slice,
    chat_template: Slice,
    bos_id: i32,
    eos_id: i32,
}

pub struct TextTokenizer {
    vocabulary: Vocabulary,
    chat: ChatTemplate,
}

/// An empty C array may come as a null pointer, which `from_raw_parts` must not see.
unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

unsafe fn text<'a>(slice: Slice) -> Result<&'a str, String> {
    std::str::from_utf8(array(slice.data, slice.size))
        .map_err(|e| format!("text is not UTF-8 at byte {}", e.valid_up_to()))
}

fn release_bytes(bytes: Vec<u8>) -> Bytes {
    let boxed = bytes.into_boxed_slice();
    let size = boxed.len();
    Bytes { data: Box::into_raw(boxed) as *mut u8, size }
}

fn release_ids(ids: Vec<i32>) -> Ids {
    let boxed = ids.into_boxed_slice();
    let size = boxed.len();
    Ids { data: Box::into_raw(boxed) as *mut i32, size }
}

fn panic_message(payload: Box<dyn Any + Send>) -> String {
    if let Some(s) = payload.downcast_ref::<&str>() {
        s.to_string()
    } else if let Some(s) = payload.downcast_ref::<String>() {
        s.clone()
    } else {
        "panic without a message".to_string()
    }
}

/// Runs `body`; its value goes to `output`, its error or panic message to `error`.
unsafe fn guarded<T>(
    output: *mut T,
    error: *mut Bytes,
    body: impl FnOnce() -> Result<T, String>,
) -> i32 {
    let (code, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            output.write(value);
            return OK;
        }
        Ok(Err(message)) => (INVALID, message),
        Err(payload) => (PANIC, panic_message(payload)),
    };
    error.write(release_bytes(message.into_bytes()));
    code
}

unsafe fn read_spec<'a>(raw: &RawSpec) -> Result<Spec<'a>, String> {
    let strings = |slices: &[Slice], what: &str| -> Result<Vec<&'a str>, String> {
        slices
            .iter()
            .enumerate()
            .map(|(i, s)| text(*s).map_err(|e| format!("{what} {i}: {e}")))
            .collect()
    };
    Ok(Spec {
        tokens: strings(array(raw.tokens, raw.token_count), "token")?,
        token_types: array(raw.token_types, raw.token_count),
        merges: strings(array(raw.merges, raw.merge_count), "merge")?,
        pre: text(raw.pre).map_err(|e| format!("pre-tokenizer name: {e}"))?,
    })
}

/// # Safety
/// As baton_text.h says: `raw` and what it points to are valid for the call.
#[no_mangle]
pub unsafe extern "C" fn baton_text_create(
    raw: *const RawSpec,
    tokenizer: *mut *mut TextTokenizer,
    error: *mut Bytes,
) -> i32 {
    guarded(tokenizer, error, || {
        let raw = &*raw;
        let spec = read_spec(raw)?;
        let template = text(raw.chat_template).map_err(|e| format!("chat template: {e}"))?;
        let spelling = |id: i32| -> Result<String, String> {
            match usize::try_from(id) {
                Err(_) => Ok(String::new()),
                Ok(i) => match spec.tokens.get(i) {
                    Some(token) => Ok(token.to_string()),
                    None => Err(format!("special token id {id} is not in the vocabulary")),
                },
            }
        };
        let chat = ChatTemplate::new(template, spelling(raw.bos_id)?, spelling(raw.eos_id)?);
        let vocabulary = Vocabulary::new(&spec)?;
        Ok(Box::into_raw(Box::new(TextTokenizer { vocabulary, chat })))
    })
}

/// # Safety
/// `tokenizer` comes from `baton_text_create` or is null, and is used by nobody any more.
#[no_mangle]
pub unsafe extern "C" fn baton_text_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// As baton_text.h says.
#[no_mangle]
pub unsafe extern "C" fn baton_text_encode(
    tokenizer: *const TextTokenizer,
    input: Slice,
    parse_special: i32,
    ids: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(ids, error, || {
        let mut out = Vec::new();
        (*tokenizer).vocabulary.encode(text(input)?, parse_special != 0, &mut out)?;
        Ok(release_ids(out))
    })
}

/// # Safety
/// As baton_text.h says.
#[no_mangle]
pub unsafe extern "C" fn baton_text_decode(
    tokenizer: *const TextTokenizer,
    ids: *const i32,
    count: usize,
    output: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(output, error, || {
        let decoded = (*tokenizer).vocabulary.decode(array(ids, count))?;
        Ok(release_bytes(decoded.into_bytes()))
    })
}

/// # Safety
/// As baton_text.h says.
#[no_mangle]
pub unsafe extern "C" fn baton_text_render(
    tokenizer: *const TextTokenizer,
    messages_json: Slice,
    add_generation_prompt: i32,
    output: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(output, error, || {
        let messages = chat::parse_messages(text(messages_json)?)?;
        let rendered = (*tokenizer).chat.render(&messages, add_generation_prompt != 0)?;
        Ok(release_bytes(rendered.into_bytes()))
    })
}

/// # Safety
/// As baton_text.h says.
#[no_mangle]
pub unsafe extern "C" fn baton_text_encode_chat(
    tokenizer: *const TextTokenizer,
    messages_json: Slice,
    ids: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(ids, error, || {
        let messages = chat::parse_messages(text(messages_json)?)?;
        let tokenizer = &*tokenizer;
        Ok(release_ids(shield::encode_chat(&tokenizer.vocabulary, &tokenizer.chat, messages)?))
    })
}

/// # Safety
/// `bytes` was filled by this library and is freed once.
#[no_mangle]
pub unsafe extern "C" fn baton_text_free_bytes(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.size)));
    }
}

/// # Safety
/// `ids` was filled by this library and is freed once.
#[no_mangle]
pub unsafe extern "C" fn baton_text_free_ids(ids: Ids) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}
