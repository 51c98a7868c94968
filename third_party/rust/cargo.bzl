"""Rust static libraries for C++ targets, offline after the first build.

`cargo_crates` is a repository: it finds the toolchain and keeps the locked crates in one archive
under ~/.cache/baton/cargo-<hash of the lock file>, which it fills through `cargo vendor` once.
`cargo_static_library` builds against that archive in a sandboxed action, without the network.

There are no Rust rules for Bazel 4.2.3; these two replace them for the one crate that is needed.
"""

_CURE = "install Rust {minimum} or newer: `apt-get install cargo-web` on Debian, or rustup"

def _find_cargo(ctx):
    """Debian puts it into PATH, rustup into ~/.cargo/bin, which a CI's PATH often lacks."""
    home = ctx.os.environ.get("HOME", "")
    candidates = [ctx.which("cargo"), ctx.path(home + "/.cargo/bin/cargo") if home else None]
    for candidate in candidates:
        if candidate and candidate.exists:
            return candidate
    fail("cargo is neither in PATH nor in ~/.cargo/bin; " + _CURE.format(minimum = ctx.attr.minimum))

def _run(ctx, arguments, what, timeout = 60):
    result = ctx.execute(arguments, timeout = timeout)
    if result.return_code != 0:
        fail("%s failed (%d):\n%s%s" % (what, result.return_code, result.stdout, result.stderr))
    return result.stdout.strip()

def _number(version):
    return [int(part) for part in version.split("-")[0].split(".")[:2]]

def _toolchain(ctx):
    """Real binaries instead of rustup's proxies, which need a HOME that actions do not have."""
    cargo = _find_cargo(ctx)
    rustc = cargo.dirname.get_child("rustc")
    if not rustc.exists:
        fail("%s has no rustc beside it; %s" % (cargo, _CURE.format(minimum = ctx.attr.minimum)))
    sysroot = _run(ctx, [rustc, "--print", "sysroot"], "rustc --print sysroot")
    real_cargo = ctx.path(sysroot + "/bin/cargo")
    real_rustc = ctx.path(sysroot + "/bin/rustc")
    if real_cargo.exists and real_rustc.exists:
        cargo, rustc = real_cargo, real_rustc
    version = _run(ctx, [rustc, "--version"], "rustc --version").split(" ")[1]
    if _number(version) < _number(ctx.attr.minimum):
        fail("%s is version %s; %s" % (rustc, version, _CURE.format(minimum = ctx.attr.minimum)))
    return cargo, rustc

_FETCH = """
set -eu
final=$1 cargo=$2 manifest=$3
[ -f "$final/vendor.tar" ] && exit 0
mkdir -p "$(dirname "$final")"
work=$(mktemp -d "$final.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$cargo" vendor --locked --quiet --manifest-path "$manifest" "$work/vendor" >/dev/null
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=a+rX \\
    -C "$work" -cf "$work/vendor.tar" vendor
mkdir -p "$final"
mv "$work/vendor.tar" "$final/vendor.tar"
"""

def _cargo_crates_impl(ctx):
    cargo, rustc = _toolchain(ctx)
    lock = ctx.path(ctx.attr.lock)
    manifest = ctx.path(ctx.attr.manifest)

    # `cargo vendor` wants a whole package; the sources do not matter to it.
    ctx.file("package/src/lib.rs", "")
    ctx.symlink(manifest, "package/Cargo.toml")
    ctx.file("package/Cargo.lock", ctx.read(lock))

    digest = _run(ctx, ["sha256sum", lock], "sha256sum").split(" ")[0][:16]
    cache = ctx.os.environ["HOME"] + "/.cache/baton/cargo-" + digest
    archive = ctx.path(cache + "/vendor.tar")
    if not archive.exists:
        ctx.report_progress("fetching the locked crates into " + cache)
        result = ctx.execute(
            ["bash", "-c", _FETCH, "fetch", cache, cargo, ctx.path("package/Cargo.toml")],
            timeout = 600,
            environment = {"PATH": "%s:/usr/local/bin:/usr/bin:/bin" % rustc.dirname},
        )
        if result.return_code != 0:
            fail("cargo could not fetch the crates of %s (needed once per lock file, then kept " %
                 ctx.attr.lock + "in %s); is the crate registry reachable?\n%s" %
                                 (cache, result.stderr))
    ctx.symlink(archive, "vendor.tar")
    ctx.file("toolchain.txt", _run(ctx, [rustc, "-vV"], "rustc -vV") + "\n")
    ctx.file("toolchain.bzl", "CARGO = \"%s\"\nRUSTC = \"%s\"\n" % (cargo, rustc))
    ctx.file("BUILD.bazel", "exports_files([\"vendor.tar\", \"toolchain.txt\"])\n")

cargo_crates = repository_rule(
    implementation = _cargo_crates_impl,
    attrs = {
        "manifest": attr.label(mandatory = True, doc = "Cargo.toml of the one package"),
        "lock": attr.label(mandatory = True, doc = "its Cargo.lock"),
        "minimum": attr.string(mandatory = True, doc = "oldest rustc that the crates accept"),
    },
    environ = ["HOME", "PATH"],
    doc = "The crates of a lock file as :vendor.tar, and where the toolchain is.",
)

_BUILD = """
set -eu
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/package/.cargo"
cp -rL {package}/. "$work/package"
tar -C "$work" -xf {archive}
printf '[source.crates-io]\\nreplace-with = "vendored"\\n[source.vendored]\\ndirectory = "../vendor"\\n' \\
    > "$work/package/.cargo/config.toml"
cd "$work/package"
export PATH=$(dirname {rustc}):/usr/local/bin:/usr/bin:/bin
export HOME=$work CARGO_HOME=$work/cargo-home RUSTC={rustc} CARGO_INCREMENTAL=0
export RUSTFLAGS="--remap-path-prefix=$work=."
{cargo} build --release --offline --locked --quiet --jobs 2 --target-dir "$work/target" >&2
cp "$work/target/release/{archive_name}" "$root/{out}"
"""

def cargo_static_library(name, package, srcs, crates, cargo, rustc, hdrs, linkopts = [], **kwargs):
    """A cc_library over the static library of one Rust package.

    Args:
      name: of the cc_library; the crate's library must be called the same.
      package: folder of Cargo.toml, relative to this package.
      srcs: Cargo.toml, Cargo.lock and the sources.
      crates: name of the cargo_crates repository.
      cargo: path of cargo, from the repository's toolchain.bzl.
      rustc: path of rustc, likewise.
      hdrs: C headers of the library.
      linkopts: system libraries that Rust's standard library needs.
      **kwargs: passed on.
    """
    archive = "lib%s.a" % name
    native.genrule(
        name = name + "_build",
        srcs = srcs + ["@%s//:vendor.tar" % crates, "@%s//:toolchain.txt" % crates],
        outs = [archive],
        # Each `$` of the script is the shell's, so it is doubled for Bazel.
        cmd = _BUILD.replace("$", "$$").format(
            package = native.package_name() + "/" + package,
            archive = "$(location @%s//:vendor.tar)" % crates,
            rustc = rustc,
            cargo = cargo,
            archive_name = archive,
            out = "$(location %s)" % archive,
        ),
        message = "Building Rust package " + package,
    )
    native.cc_library(
        name = name,
        srcs = [archive],
        hdrs = hdrs,
        linkopts = linkopts,
        linkstatic = True,
        **kwargs
    )
