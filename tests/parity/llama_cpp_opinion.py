"""A second opinion on golden/model.json: llama.cpp on the same prompts.

    python llama_cpp_opinion.py MODEL.gguf golden/model.json

needs llama-cpp-python, gguf, numpy. Runs the file as it is (llama.cpp then quantises activations
too) and a copy dequantised to f32 with an f32 KV cache, teacher forced. Prints how many prompts
have the same greedy text, how many positions the same top token, and the largest difference of the
sampled logits.
"""

import json
import os
import sys
import tempfile

import gguf
import llama_cpp
import numpy


def write_f32_copy(path, target):
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture",
                                                            "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        writer.add_tensor(tensor.name, values.reshape(tuple(reversed(tensor.shape.tolist()))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare(path, golden, what):
    f32 = llama_cpp.GGML_TYPE_F32
    model = llama_cpp.Llama(path, n_ctx=128, n_batch=128, n_ubatch=128, logits_all=True,
                            type_k=f32, type_v=f32, n_threads=2, n_threads_batch=2, verbose=False)
    texts = tops = positions = 0
    largest = 0.0
    for row in golden["prompts"]:
        tokens = row["prompt"] + row["greedy"]
        model.reset()
        model.eval(tokens)
        logits = model.scores[:len(tokens)]
        top = logits.argmax(-1).tolist()
        texts += top[len(row["prompt"]) - 1:-1] == row["greedy"]
        tops += sum(a == b for a, b in zip(top, row["top"]))
        positions += len(tokens)
        for sample in row["samples"]:
            got = logits[sample["position"]][sample["ids"]]
            largest = max(largest, float(numpy.abs(got - numpy.array(sample["logits"])).max()))
    print("%s: same text %d/%d, same top token %d/%d, largest logit difference %.6f" % (
        what, texts, len(golden["prompts"]), tops, positions, largest), flush=True)


def main():
    with open(sys.argv[2]) as file:
        golden = json.load(file)
    print("llama-cpp-python", llama_cpp.__version__)
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "f32.gguf")
        write_f32_copy(sys.argv[1], copy)
        compare(copy, golden, "dequantised to f32")
    compare(sys.argv[1], golden, "as it is")


if __name__ == "__main__":
    main()
