"""Makes the seed files of gguf_fuzz_test: small whole GGUF files. Run by hand in testdata/."""

import struct


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, raw):
    return text(key) + struct.pack("<I", kind) + raw


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def gguf(version, metadata, tensors, data):
    out = struct.pack("<IIQQ", 0x46554747, version, len(tensors), len(metadata)) + b"".join(metadata)
    for name, shape, kind, offset in tensors:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack("<%dQ" % len(shape), *shape)
        out += struct.pack("<IQ", kind, offset)
    return out + b"\0" * (-len(out) % 32) + data


SCALARS = [
    entry("u8", 0, b"\7"), entry("i8", 1, b"\xf9"), entry("u16", 2, struct.pack("<H", 700)),
    entry("i16", 3, struct.pack("<h", -700)), entry("u32", 4, struct.pack("<I", 70000)),
    entry("i32", 5, struct.pack("<i", -70000)), entry("f32", 6, struct.pack("<f", 1.5)),
    entry("bool", 7, b"\1"), entry("text", 8, text("abc")), entry("u64", 10, struct.pack("<Q", 7 << 40)),
    entry("i64", 11, struct.pack("<q", -(7 << 40))), entry("f64", 12, struct.pack("<d", -2.5)),
    entry("general.alignment", 4, struct.pack("<I", 32)),
]
ARRAYS = [
    entry("texts", 9, array(8, [text("a"), text("bc")])),
    entry("numbers", 9, array(5, [struct.pack("<i", n) for n in (-1, 0, 1)])),
    entry("floats", 9, array(6, [struct.pack("<f", n) for n in (0.5, 2)])),
]
TENSORS = [("a", (4, 2), 0, 0), ("b", (32,), 8, 32)]

for name, blob in {
    "scalars": gguf(3, SCALARS, [], b""),
    "arrays": gguf(2, ARRAYS, [], b""),
    "tensors": gguf(3, ARRAYS[:1], TENSORS, b"\1" * 66),
}.items():
    with open("fuzz/" + name + ".gguf", "wb") as file:
        file.write(blob)
