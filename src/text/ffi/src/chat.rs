//! The model's own chat template, rendered the way its authors' tooling (Jinja 2) renders it.
//!
//! `strftime_now` is left undefined on purpose: a prompt that changes at midnight can be neither
//! repeated nor cached, and templates that use it test for it and carry a fixed date instead.

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

const NAME: &str = "chat_template";
/// Instructions that one rendering may take; a thousand messages take about a hundred thousand.
const FUEL: u64 = 5_000_000;
const ROLE_BYTES_MAX: usize = 64;

pub struct ChatTemplate {
    /// Or why there is none.
    environment: Result<Environment<'static>, String>,
    bos: String,
    eos: String,
}

/// "a, b" and "k: v" with spaces, as Python's json.dumps writes them.
struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        w.write_all(if first { b"" } else { b", " })
    }
    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        w.write_all(if first { b"" } else { b", " })
    }
    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
        w.write_all(b": ")
    }
}

/// Unlike minijinja's own filter it escapes nothing for HTML; templates count on that.
fn tojson(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    if options.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: ensure_ascii has to be false"));
    }
    options.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        Some(n) => {
            let spaces = " ".repeat(n.min(64));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, PythonFormatter)),
    };
    written.map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    String::from_utf8(out).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
}

/// Jinja 2 prints Python's words.
fn format_value(out: &mut Output, state: &State, value: &Value) -> Result<(), Error> {
    if value.is_none() {
        return out.write_str("None").map_err(Error::from);
    }
    match bool::try_from(value.clone()) {
        Ok(flag) if value.kind() == minijinja::value::ValueKind::Bool => {
            out.write_str(if flag { "True" } else { "False" }).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

fn environment(source: &str) -> Result<Environment<'static>, String> {
    if source.is_empty() {
        return Err("the model has no chat template".to_string());
    }
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_fuel(Some(FUEL));
    env.set_formatter(format_value);
    env.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    env.add_filter("tojson", tojson);
    env.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    env.add_template_owned(NAME, source.to_string())
        .map_err(|e| format!("the chat template cannot be read: {}", describe(&e)))?;
    Ok(env)
}

/// The reason first, then where: raise_exception's text is for the client.
fn describe(error: &Error) -> String {
    let reason = match error.detail() {
        Some(detail) => detail.to_string(),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("{reason} (line {line} of the template)"),
        None => reason,
    }
}

impl ChatTemplate {
    pub fn new(source: &str, bos: String, eos: String) -> Self {
        Self { environment: environment(source), bos, eos }
    }

    pub fn render(
        &self,
        messages: &serde_json::Value,
        add_generation_prompt: bool,
    ) -> Result<String, String> {
        let env = self.environment.as_ref().map_err(String::clone)?;
        let template = env.get_template(NAME).map_err(|e| describe(&e))?;
        let context = minijinja::context! {
            messages => Value::from_serialize(messages),
            add_generation_prompt => add_generation_prompt,
            bos_token => self.bos,
            eos_token => self.eos,
            tools => Value::from(()),
            documents => Value::from(()),
        };
        template
            .render(context)
            .map_err(|e| format!("the chat template refuses the messages: {}", describe(&e)))
    }
}

/// A JSON array of objects, each with a plain word as "role": some templates build control tokens
/// from the role, so a role must not carry one.
pub fn parse_messages(json: &str) -> Result<serde_json::Value, String> {
    let messages: serde_json::Value =
        serde_json::from_str(json).map_err(|e| format!("messages are not JSON: {e}"))?;
    let list = messages.as_array().ok_or("messages are not a JSON array")?;
    for (i, message) in list.iter().enumerate() {
        let role = message
            .get("role")
            .and_then(serde_json::Value::as_str)
            .ok_or_else(|| format!("message {i} has no role"))?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if role.is_empty() || role.len() > ROLE_BYTES_MAX || !role.bytes().all(plain) {
            return Err(format!(
                "message {i}: a role is 1 to {ROLE_BYTES_MAX} letters, digits, '_' or '-'"
            ));
        }
    }
    Ok(messages)
}
