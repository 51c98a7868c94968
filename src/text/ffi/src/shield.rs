//! Chat rendering that lets no control token come out of a message.
//!
//! Encoding the rendered text with control tokens parsed would let a message forge a turn; encoding
//! the messages apart from the template would break templates that trim, split or test them. So the
//! messages go through the template with a mark, a character that occurs nowhere in them, put
//! wherever a control token could come to life:
//!  - after the first character of each control token that is spelled out in a string,
//!  - after the first character of each tail of a string that begins a control token,
//!  - before a string whose head ends a control token.
//!
//! Any spelling of a control token in the rendered text that has a character from a message at
//! either end thus holds a mark and is not found. The text between the control tokens that are
//! found, all of them the template's own, loses its marks and is encoded as ordinary text. A string
//! without such pieces, nearly every one, passes the template unchanged.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::chat::ChatTemplate;
use crate::vocabulary::Vocabulary;

/// Unicode's noncharacters for private use inside a program.
const MARKS: std::ops::RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

fn visit(value: &mut Value, edit: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(s) => edit(s),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, edit)),
        Value::Object(map) => {
            let entries = std::mem::take(map);
            for (mut key, mut item) in entries {
                edit(&mut key);
                visit(&mut item, edit);
                map.insert(key, item);
            }
        }
        _ => {}
    }
}

/// Every string of the messages but the fixed words of their outermost level: the keys that the
/// template asks for, and the roles, which parse_messages keeps to plain words.
fn visit_messages(messages: &mut Value, edit: &mut impl FnMut(&mut String)) {
    let fields = messages.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for (key, value) in fields.flat_map(|message| message.iter_mut()) {
        if key != "role" {
            visit(value, edit);
        }
    }
}

fn choose_mark(messages: &mut Value) -> Result<char, String> {
    let mut used = BTreeSet::new();
    visit_messages(messages, &mut |s| used.extend(s.chars().filter(|c| MARKS.contains(c))));
    MARKS
        .into_iter()
        .find(|mark| !used.contains(mark))
        .ok_or_else(|| "messages use every Unicode noncharacter from U+FDD0 to U+FDEF".to_string())
}

/// Byte positions in `s` where a mark is due.
fn mark_positions(s: &str, control: &[String]) -> BTreeSet<usize> {
    let mut due = BTreeSet::new();
    for token in control {
        let first = token.chars().next().map_or(0, char::len_utf8);
        let mut from = 0;
        while let Some(at) = s[from..].find(token.as_str()) {
            due.insert(from + at + first);
            from += at + first;
        }
        for (cut, _) in token.char_indices().skip(1) {
            if s.ends_with(&token[..cut]) {
                due.insert(s.len() - cut + first);
            }
            if s.starts_with(&token[cut..]) {
                due.insert(0);
            }
        }
    }
    due
}

fn shield(s: &mut String, control: &[String], mark: char) {
    for at in mark_positions(s, control).into_iter().rev() {
        s.insert(at, mark);
    }
}

pub fn encode_chat(
    vocabulary: &Vocabulary,
    chat: &ChatTemplate,
    mut messages: Value,
) -> Result<Vec<i32>, String> {
    let control = vocabulary.control();
    if let Some(token) = control.iter().find(|t| t.chars().count() < 2) {
        return Err(format!("control token '{token}' is one character, which cannot be shielded"));
    }
    let mark = choose_mark(&mut messages)?;
    visit_messages(&mut messages, &mut |s| shield(s, control, mark));
    let rendered = chat.render(&messages, true)?;
    let mut ids = Vec::new();
    let mut done = 0;
    let encode = |text: &str, ids: &mut Vec<i32>| {
        let plain: String = text.chars().filter(|&c| c != mark).collect();
        vocabulary.encode(&plain, false, ids)
    };
    for (start, end, id) in vocabulary.control_matches(&rendered) {
        encode(&rendered[done..start], &mut ids)?;
        ids.push(id);
        done = end;
    }
    encode(&rendered[done..], &mut ids)?;
    Ok(ids)
}
