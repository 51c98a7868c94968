"""The jars of a Kafka broker, for tests that start a real one. Fetched when first needed."""

def _kafka_broker_impl(ctx):
    lock = ctx.path(ctx.attr.lock)
    hashed = ctx.execute(["sha256sum", str(lock)])
    if hashed.return_code != 0:
        fail("kafka broker for tests: sha256sum: " + hashed.stderr)
    home = ctx.os.environ.get("HOME", "")
    caches = ctx.os.environ.get("XDG_CACHE_HOME", home + "/.cache" if home else "")

    # Without a home folder the jars are fetched anew for each output base.
    cache = (caches + "/baton" if caches else str(ctx.path("cache"))) + "/kafka-" + hashed.stdout[:12]
    fetched = ctx.execute(
        [
            "bash",
            str(ctx.path(ctx.attr._fetch)),
            str(ctx.path(ctx.attr.pom)),
            str(lock),
            cache,
            str(ctx.path("jars")),
        ],
        timeout = 600,
    )
    if fetched.return_code != 0:
        fail(fetched.stderr)
    ctx.file("BUILD.bazel", """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "jars",
    srcs = glob(["jars/*.jar"]),
)
""")

kafka_broker = repository_rule(
    implementation = _kafka_broker_impl,
    attrs = {
        "pom": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "_fetch": attr.label(
            default = "//third_party/kafka:fetch_jars.sh",
            allow_single_file = True,
        ),
    },
    environ = ["HOME", "XDG_CACHE_HOME"],
)
