"""Writes golden/model.json: what transformers in f32 says about the model file.

    python make_golden.py MODEL.gguf golden/model.json

needs torch, transformers, gguf, numpy (the versions used stand in the file). transformers takes the
weights dequantised from the file itself, so nothing of Baton's is involved.

Per prompt of prompts.py: its tokens; the greedy continuation; for the two together the top token at
each position (teacher forced, one pass) and the gap to the second; at SAMPLED positions the logits
of the 64 best ids and of 16 seeded ids, in full precision.
"""

import hashlib
import json
import os
import platform
import random
import sys

import numpy
import torch
import transformers

import prompts

GREEDY = 32
SAMPLED = [31, 63, 95]
BEST, OTHERS = 64, 16


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def greedy(model, rows):
    """GREEDY tokens for each row by arg max; past the end token too, so that all are as long."""
    out, cache, step = [[] for _ in rows], None, torch.tensor(rows)
    for _ in range(GREEDY):
        result = model(step, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = result.past_key_values
        step = result.logits[:, -1:].argmax(-1)
        for tokens, token in zip(out, step[:, 0].tolist()):
            tokens.append(token)
    return out


def samples(logits, rng):
    out = []
    for position in SAMPLED:
        row = logits[position]
        ids = row.topk(BEST).indices.tolist() + rng.sample(range(row.shape[0]), OTHERS)
        # Nine digits tell any two float32 apart.
        values = [float("%.9g" % row[i]) for i in ids]
        out.append({"position": position, "ids": ids, "logits": values})
    return out


def golden_row(model, tokens, continuation, rng):
    logits = model(torch.tensor([tokens + continuation])).logits[0]
    best = logits.topk(2)
    top = best.indices[:, 0].tolist()
    gaps = (best.values[:, 0] - best.values[:, 1]).tolist()
    assert top[len(tokens) - 1:-1] == continuation, "one pass and step by step differ"
    return {
        "prompt": tokens,
        "greedy": continuation,
        "top": top,
        "smallest_gap": min(gaps),
        "near_ties": [p for p, gap in enumerate(gaps) if gap < 1e-4],
        "samples": samples(logits, rng),
    }


def main():
    path, target = sys.argv[1], sys.argv[2]
    folder, name = os.path.split(os.path.abspath(path))
    torch.set_grad_enabled(False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, attn_implementation="eager").eval()
    rng = random.Random(prompts.SEED)
    encoded = [tokenizer.encode(text, add_special_tokens=False)[:prompts.TOKENS]
               for text in prompts.texts()]
    assert all(len(tokens) == prompts.TOKENS for tokens in encoded)
    rows = []
    for tokens, continuation in zip(encoded, greedy(model, encoded)):
        rows.append(golden_row(model, tokens, continuation, rng))
        print(len(rows), repr(tokenizer.decode(continuation)), flush=True)
    here = os.path.dirname(os.path.abspath(__file__))
    golden = {
        "model_sha256": sha256(path),
        "script_sha256": sha256(os.path.join(here, "make_golden.py")),
        "prompts_sha256": sha256(os.path.join(here, "prompts.py")),
        "seed": prompts.SEED,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "numpy": numpy.__version__,
        },
        "prompts": rows,
    }
    with open(target, "w") as file:
        # One prompt a line, for readable diffs.
        head = {k: v for k, v in golden.items() if k != "prompts"}
        file.write(json.dumps(head)[:-1] + ',\n"prompts": [\n')
        file.write(",\n".join(json.dumps(row, separators=(",", ":")) for row in rows))
        file.write("\n]}\n")


if __name__ == "__main__":
    main()
