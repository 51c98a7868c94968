"""FlatBuffers code generation."""

def fbs_library(name, srcs, includes = [], visibility = None):
    """Generates <x>_generated.h for every <x>.fbs, with the object API.

    Args:
      name: cc_library with the generated headers.
      srcs: the .fbs files; all of them lie in one folder.
      includes: .fbs files of the same folder that `srcs` include.
      visibility: who may include the generated headers; only src/wire should.
    """
    outs = [s.replace(".fbs", "_generated.h") for s in srcs]
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [i for i in includes if i not in srcs],
        outs = outs,
        cmd = " && ".join([
            "flatc --cpp --cpp-std c++17 --scoped-enums --gen-object-api --reflect-names -o $(RULEDIR) $(location %s)" % s
            for s in srcs
        ]),
    )
    native.cc_library(
        name = name,
        hdrs = outs,
        includes = ["."],
        visibility = visibility,
        deps = ["//third_party/flatbuffers"],
    )
