"""FlatBuffers code generation."""

def fbs_library(name, srcs, includes = [], visibility = None):
    """Generates <x>_generated.h for every <x>.fbs; include it as "<package>/<x>_generated.h".

    Explicit ids are compulsory, so that every change of a table shows in its diff.

    Args:
      name: cc_library with the generated headers.
      srcs: the .fbs files; all of them lie in one folder.
      includes: .fbs files of the same folder that `srcs` include and for which another target
        generates headers.
      visibility: who may include the generated headers; only src/wire should.
    """
    outs = [s.replace(".fbs", "_generated.h") for s in srcs]
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [i for i in includes if i not in srcs],
        outs = outs,
        cmd = "flatc --cpp --cpp-std c++17 --scoped-enums --require-explicit-ids -o $(RULEDIR) " +
              " ".join(["$(location %s)" % s for s in srcs]),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        hdrs = outs,
        # A generated header includes its neighbours without a folder.
        includes = ["."],
        visibility = visibility,
        deps = ["//third_party/flatbuffers"],
    )
