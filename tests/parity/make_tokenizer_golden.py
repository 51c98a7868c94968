"""Writes golden/tokenizer.json: ids, texts and chat renderings of other tokenizers.

    python make_tokenizer_golden.py MODEL.gguf golden/tokenizer.json

needs transformers, tokenizers, jinja2 and llama-cpp-python. The ids are Hugging Face's, from the
conversion of the file by transformers with the splitting of digits put back (the model's own
tokenizer.json has it, GGUF says it by the name "smollm", transformers' conversion loses it).
llama.cpp, a separate implementation, must agree; where it does not, "llama_cpp" holds its ids.
"""

import ctypes
import hashlib
import json
import os
import sys

import jinja2
import llama_cpp
import tokenizers
import transformers
from tokenizers import pre_tokenizers

import odd_texts


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hugging_face(path):
    folder, name = os.path.split(os.path.abspath(path))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    return tokenizer


class LlamaCpp:
    def __init__(self, path):
        self.model = llama_cpp.Llama(path, vocab_only=True, verbose=False)

    def encode(self, text, special):
        data = text.encode()
        vocab = llama_cpp.llama_model_get_vocab(self.model.model)
        ids = (llama_cpp.llama_token * (len(data) + 16))()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), ids, len(ids), False, special)
        assert count >= 0
        return list(ids[:count])

    def decode(self, ids):
        vocab = llama_cpp.llama_model_get_vocab(self.model.model)
        piece = ctypes.create_string_buffer(256)
        out = b""
        for token in ids:
            count = llama_cpp.llama_token_to_piece(vocab, token, piece, 256, 0, True)
            assert count >= 0
            out += piece.raw[:count]
        return out.decode(errors="replace")


def text_row(text, hf, llama):
    row = {"text": text}
    for field, special in (("plain", False), ("special", True)):
        backend = hf.backend_tokenizer
        backend.encode_special_tokens = not special
        ids = backend.encode(text, add_special_tokens=False).ids
        other = llama.encode(text, special)
        if field == "plain" or ids != row["plain"]:
            row[field] = ids
        if other != ids:
            row["llama_cpp_" + field] = other
    hf.backend_tokenizer.encode_special_tokens = False
    ids = row.get("special", row["plain"])
    decoded = hf.backend_tokenizer.decode(ids, skip_special_tokens=False)
    if decoded != text:
        row["decoded"] = decoded
    if llama.decode(ids) != decoded:
        row["llama_cpp_decoded"] = llama.decode(ids)
    return row


def chat_row(name, messages, hf):
    options = {"chat_template": odd_texts.TEMPLATES[name]} if name else {}
    row = {"template": odd_texts.TEMPLATES.get(name, ""), "messages": messages}
    for field, prompt in (("text", False), ("text_with_prompt", True)):
        row[field] = hf.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=prompt, **options)
    row["ids"] = hf.encode(row["text_with_prompt"], add_special_tokens=False)
    return row


def lines(rows):
    return ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)


def main():
    path, target = sys.argv[1], sys.argv[2]
    here = os.path.dirname(os.path.abspath(__file__))
    hf, llama = hugging_face(path), LlamaCpp(path)
    texts = [text_row(text, hf, llama) for text in odd_texts.texts()]
    chats = [chat_row(name, messages, hf) for name, messages in odd_texts.conversations()]
    head = {
        "model_sha256": sha256(path),
        "script_sha256": sha256(os.path.join(here, "make_tokenizer_golden.py")),
        "texts_sha256": sha256(os.path.join(here, "odd_texts.py")),
        "seed": odd_texts.SEED,
        "versions": {
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
            "jinja2": jinja2.__version__,
            "llama_cpp_python": llama_cpp.__version__,
        },
    }
    with open(target, "w") as file:
        file.write(json.dumps(head)[:-1] + ',\n"texts": [\n' + lines(texts) +
                   '\n],\n"chats": [\n' + lines(chats) + "\n]}\n")
    differing = [row for row in texts if any(key.startswith("llama_cpp") for key in row)]
    print("%d texts, llama.cpp differs on %d; %d chats" % (len(texts), len(differing), len(chats)))
    for row in differing[:20]:
        print(row)


if __name__ == "__main__":
    main()
