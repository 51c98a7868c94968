"""Makes the golden files of src/model with the PyPI package `gguf` (0.19.0), an implementation
independent of ours. Run by hand; the results are committed.

  python3 make_golden.py blocks > blocks.txt          # made blocks of every type
  python3 make_golden.py sums MODEL.gguf > NAME.sums  # of every tensor of a model

blocks.txt: type number, bytes in hex, values as f32 hex (big endian), one block per line.
*.sums: tensor name, type number, sum of |x|, sum of x * w(i), where w(i) is the fraction of
i * 2654435761 / 2^32, so that values in the wrong place change it.
"""

import sys

import numpy as np
from gguf import GGUFReader, GGMLQuantizationType as T
from gguf.quants import dequantize
from gguf.constants import GGML_QUANT_SIZES

# Where each type keeps f16 scales; random bytes there could be NaN or huge.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}


def blocks():
    rng = np.random.default_rng(20260131)
    for kind in [T.F32, T.F16, T.BF16] + list(SCALES):
        size = GGML_QUANT_SIZES[kind][1]
        for scale in (0.01, -1.5, 3e-6):  # the last one is subnormal as f16
            if kind in SCALES:
                raw = rng.integers(0, 256, size, dtype=np.uint8)
                for at in SCALES[kind]:
                    raw[at:at + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
            else:
                number = np.float32(scale * 1.2345)
                whole = number.tobytes()
                raw = {T.F32: whole, T.F16: np.float16(number).tobytes(), T.BF16: whole[2:]}[kind]
                raw = np.frombuffer(raw, np.uint8)
            if kind == T.F32:
                values = raw.view(np.float32)
            elif kind == T.F16:
                values = raw.view(np.float16).astype(np.float32)
            else:
                values = dequantize(raw.reshape(1, -1), kind).reshape(-1)
            print(kind.value, raw.tobytes().hex(), values.astype(">f4").tobytes().hex())


def sums(path):
    for tensor in GGUFReader(path).tensors:
        kind = tensor.tensor_type
        values = tensor.data if kind == T.F32 else dequantize(tensor.data, kind)
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        index = np.arange(values.size, dtype=np.uint64)
        weight = ((index * np.uint64(2654435761)) % np.uint64(2**32)) / 2.0**32
        print(tensor.name, kind.value, repr(float(np.abs(values).sum())),
              repr(float((values * weight).sum())))


if __name__ == "__main__":
    if sys.argv[1] == "blocks":
        blocks()
    else:
        sums(sys.argv[2])
