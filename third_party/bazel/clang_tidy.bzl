"""clang-tidy as an aspect, so that Bazel caches each file's verdict.

bazel build --aspects=//third_party/bazel:clang_tidy.bzl%clang_tidy --output_groups=tidy //src/...
"""

def _sources(rule):
    files = []
    for source in getattr(rule.attr, "srcs", []):
        for file in source.files.to_list():
            if file.is_source and file.extension == "cc":
                files.append(file)
    return files

def _clang_tidy_impl(target, ctx):
    # Product code; tests are held by the compiler's warnings and ci/tidy.
    if CcInfo not in target or ctx.rule.kind == "cc_test" or ctx.rule.attr.testonly:
        return [OutputGroupInfo(tidy = depset())]
    context = target[CcInfo].compilation_context
    flags = ["-std=c++20", "-Wno-unknown-warning-option", "-iquote", ".", "-iquote", ctx.bin_dir.path]
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    for folder in context.includes.to_list() + context.system_includes.to_list():
        flags += ["-isystem", folder]
    verdicts = []
    for source in _sources(ctx.rule):
        verdict = ctx.actions.declare_file("%s.%s.tidy" % (target.label.name, source.basename))
        ctx.actions.run_shell(
            inputs = depset([source, ctx.file._config], transitive = [context.headers]),
            outputs = [verdict],
            command = 'clang-tidy-16 --quiet --config-file="$1" "$2" -- "${@:4}" > "$3.log" 2>&1 ' +
                      '|| { cat "$3.log" >&2; exit 1; }; touch "$3"',
            arguments = [ctx.file._config.path, source.path, verdict.path] + flags,
            mnemonic = "ClangTidy",
            progress_message = "clang-tidy " + source.short_path,
            use_default_shell_env = True,
        )
        verdicts.append(verdict)
    return [OutputGroupInfo(tidy = depset(verdicts))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_config": attr.label(default = "//:.clang-tidy", allow_single_file = True),
    },
)
