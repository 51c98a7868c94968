"""Odd texts and conversations for the tokenizer's golden file, from a seed."""

import random

SEED = 4177
COUNT = 500

_WORDS = ("the of and Baton token's don't I'LL we've naive na\u00efve r\u00e9sum\u00e9 Stra\u00dfe "
          "\u0130stanbul \u03b1\u03b2\u03b3 \u041f\u0440\u0438\u0432\u0435\u0442 "
          "\u4f60\u597d\u4e16\u754c \u65e5\u672c\u8a9e\u306e\u6587 \ud55c\uad6d\uc5b4 "
          "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 "
          "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 "
          "antidisestablishmentarianism xX_x_Xx CamelCaseName snake_case_name 0xDEADBEEF").split(" ")
_EMOJI = ["\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466",
          "\U0001F3F3\uFE0F\u200D\U0001F308", "\U0001F44D\U0001F3FD", "\u2764\uFE0F",
          "\U0001F1E9\U0001F1EA", "1\uFE0F\u20E3", "\u200D", "\uFE0F", "\U0001F9D1\u200D\U0001F4BB"]
_COMBINING = ["e\u0301", "a\u0308\u0323", "Z\u0351\u036B\u0343", "\u0301", "n\u0303o\u0302",
              "\u1E9B\u0323", "\u0061\u20DD", "\uAC00", "\u1100\u1161"]
_SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", "\u00a0", "\u3000", "\u2003",
           "\u2028", "\u0085", "\x0b", "\x0c", " \n ", "\n\t\n"]
_DIGITS = ["0", "7", "42", "1234567890", "3.14159", "1,000,000", "-1e-9", "\u0663\u0661\u0664",
           "\u00bd", "\u00b2\u00b3", "\u2163", "\uff11\uff12", "\U0001D7D8", "\u0967\u0968", "2024-02-29"]
_CODE = ["if (a->b[i] != NULL) { return *p++; }", "def f(x):\n    return x ** 2\n", "<div class=\"x\">",
         "SELECT * FROM t WHERE a='b';", "#!/bin/sh\nset -eu\n", "a&&b||!c", "::std::move(x)", "/* ... */",
         "{{ x }}{% if y %}", "\\d+\\.\\s*", "${HOME}/bin", "f\"{x!r:>10}\"", "=>|<=", "...---***"]
_SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<reponame>", "<file_sep>",
            "<jupyter_code>", "<empty_output>", "<|im_start", "im_end|>", "<|", "<<|im_end|>>",
            "<|IM_START|>", "<| im_end |>"]
# The last line: characters for whose bytes SmolLM2's vocabulary has no token.
_CONTROL = ["\x00", "\x01", "\x07", "\x08", "\x1b[31m", "\x7f", "\u0080", "\u009f", "\u200b",
            "\u200e", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\ufdd0", "\ue000", "\U0010FFFF",
            "\x04", "\x06", "\x13", "\x14", "\x16", "\x1d", "\U00040000", "\U000BFFFF"]
_KINDS = [_WORDS, _EMOJI, _COMBINING, _SPACES, _DIGITS, _CODE, _SPECIAL, _CONTROL]


def _any_character(rng):
    while True:
        code = rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x250, 0x3000),
                           rng.randrange(0x3000, 0xFFFE), rng.randrange(0x1F000, 0x20000),
                           rng.randrange(0x20000, 0x40000)])
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def texts():
    rng = random.Random(SEED)
    out = ["", " ", "\n", " " * 200, "\n" * 50, "\t" * 33, " \n" * 40, "a" * 300, "\u00e9" * 60,
           "." * 100, "=" * 80, "ab " * 50 + " ", "   leading", "trailing   ", "1" * 64]
    while len(out) < COUNT:
        kind = rng.randrange(4)
        if kind == 0:    # one kind of piece
            pieces = [rng.choice(rng.choice(_KINDS)) for _ in range(rng.randrange(1, 4))]
        elif kind == 1:  # words and spaces
            pieces = [p for _ in range(rng.randrange(1, 9))
                      for p in (rng.choice(_WORDS), rng.choice(_SPACES))]
        elif kind == 2:  # anything
            pieces = [rng.choice(rng.choice(_KINDS)) for _ in range(rng.randrange(2, 12))]
        else:            # single characters from all planes that are in use
            pieces = [_any_character(rng) for _ in range(rng.randrange(1, 24))]
        out.append("".join(pieces))
    return out


def conversations():
    """Name of a template of TEMPLATES ("": the model's own) and messages."""
    rng = random.Random(SEED)
    plain = [t for t in texts() if t.strip() and "<|" not in t and "|>" not in t and "<" not in t]
    out = []
    for index in range(12):
        messages = []
        if index % 3 == 0:
            messages.append({"role": "system", "content": rng.choice(plain)})
        for turn in range(1 + index % 4):
            messages.append({"role": "user", "content": rng.choice(plain)})
            if turn < index % 4:
                messages.append({"role": "assistant", "content": rng.choice(plain)})
        out.append(("", messages))
    for name in sorted(TEMPLATES):
        for turns in (1, 3):
            messages = [{"role": ["user", "assistant"][i % 2], "content": rng.choice(plain)}
                        for i in range(turns)]
            out.append((name, messages))
    return out


# The dialect that published templates are written in, one group of features each.
TEMPLATES = {
    "blocks": """{%- if messages[0].role == 'system' -%}
  {%- set system = messages[0].content -%}
{%- else -%}
  {%- set system = 'none' -%}
{%- endif -%}
{{ bos_token }}[{{ system | trim }}]
{% for m in messages %}
  {% if loop.last %}
last {{ loop.index }}/{{ loop.length }}:
  {% endif %}
{{ m['content'] }}{{ eos_token if not loop.last else '' }}
{% endfor %}
""",
    "strings": """{% for m in messages -%}
{{ m.role.upper() + ': ' + m.content.strip().replace('a', 'A') }}|{{ m.content.split(' ') | length }}|\
{{ m.content[:3] }}|{{ 'the' in m.content }}|{{ m.role | capitalize }}
{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT' ~ ':' }}{% endif %}""",
    "json": """{% for m in messages %}{{ m | tojson }}
{% endfor %}{{ {'k': [1, 2.5, true, none, 'x<y']} | tojson(indent=2) }}{{ none }}{{ tools is none }}""",
    "macros": """{% macro turn(m, n=1) %}<{{ m.role }}#{{ n }}>{{ m.content | trim }}{% endmacro %}
{% set ns = namespace(count=0, seen=[]) %}
{% for m in messages %}
{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('unknown role') }}{% endif %}
{% set ns.count = ns.count + 1 %}
{{ turn(m, n=ns.count) }}
{% if ns.count >= 2 %}{% break %}{% endif %}
{% endfor %}
{{ messages | map(attribute='role') | join(',') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}""",
}
