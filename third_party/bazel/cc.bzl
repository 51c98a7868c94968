"""Every C++ rule of the project goes through these macros: one place for warnings and sanitizers."""

WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
]

_SANITIZER_RUNTIME = ["//third_party/sanitizers:runtime"]

_SANITIZER_DATA = [
    "//third_party/sanitizers:lsan.supp",
    "//third_party/sanitizers:tsan.supp",
]

def baton_cc_library(name, srcs = [], hdrs = [], deps = [], copts = [], **kwargs):
    """A library of one to four files, private to its package unless `visibility` names rooms."""
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = WARNINGS + copts,
        linkstatic = True,
        deps = deps,
        **kwargs
    )

def baton_cc_binary(name, srcs = [], deps = [], copts = [], **kwargs):
    """A program."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = WARNINGS + copts,
        deps = deps + _SANITIZER_RUNTIME,
        **kwargs
    )

def baton_cc_test(
        name,
        srcs,
        deps = [],
        size = "small",
        cpu = 1,
        copts = [],
        data = [],
        env = {},
        tags = [],
        main = True,
        **kwargs):
    """A GoogleTest target.

    Args:
      name: ends in _test.
      srcs: test sources.
      deps: what is tested; GoogleTest is added here.
      size: small (a minute), medium (5 minutes), large (15 minutes).
      cpu: cores that it needs; brokers and MPI jobs say 2.
      copts: further compiler options.
      data: files read at run time.
      env: environment of the test.
      tags: `gpu` for tests that need a card; `asan` and `tsan` put it into those CI stages.
      main: False when the test brings its own main().
      **kwargs: passed on.
    """
    gtest = "//third_party/googletest:gtest_main" if main else "//third_party/googletest:gtest"
    native.cc_test(
        name = name,
        srcs = srcs,
        size = size,
        copts = WARNINGS + copts,
        data = data + _SANITIZER_DATA,
        env = env,
        linkstatic = True,
        tags = tags + (["cpu:%d" % cpu] if cpu > 1 else []),
        deps = deps + [gtest] + _SANITIZER_RUNTIME,
        **kwargs
    )

def baton_cc_bench(name, srcs, deps = [], copts = [], **kwargs):
    """A Google Benchmark program; built by //..., run by hand or by tests/perf."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = WARNINGS + copts,
        deps = deps + ["//third_party/benchmark"] + _SANITIZER_RUNTIME,
        **kwargs
    )

def baton_fuzz_test(name, srcs, corpus = [], deps = [], **kwargs):
    """A fuzz target with LLVMFuzzerTestOneInput.

    As a test it replays its corpus and mutations of it made from a fixed seed. Under
    --config=fuzz the same target links libFuzzer: `bazel run --config=fuzz :name -- -runs=1000000`.
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        size = "small",
        copts = WARNINGS,
        args = select({
            "//third_party/sanitizers:fuzz": [],
            "//conditions:default": ["$(locations %s)" % c for c in corpus],
        }),
        data = corpus + _SANITIZER_DATA,
        linkopts = select({
            "//third_party/sanitizers:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        linkstatic = True,
        deps = deps + select({
            "//third_party/sanitizers:fuzz": [],
            "//conditions:default": ["//tests/fuzz:replay_main"],
        }) + _SANITIZER_RUNTIME,
        **kwargs
    )
