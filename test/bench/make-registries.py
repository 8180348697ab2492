"""Makes static registries of npm, pip, Go and cargo: packages of made-up files, as each client asks for them.

Usage: make-registries.py DIRECTORY ADDRESS COUNT. The directory is then served at the address, with one
subdirectory for each client. A name without an ending is a file `NAME.json` or a directory with `index.html`.
"""

import base64
import hashlib
import io
import json
import os
import random
import sys
import tarfile
import zipfile

root, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
words = random.Random(7)
FILES, LINES = 12, 60


def text():
    return "\n".join("%032x" % words.getrandbits(128) for _ in range(LINES)).encode()


def save(path, data):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def packed(files):
    """A compressed tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def npm(name):
    about = {"name": name, "version": "1.0.0"}
    files = {"package/f%d.js" % n: b"// " + text().replace(b"\n", b"\n// ") for n in range(FILES)}
    archive = packed({"package/package.json": json.dumps(about).encode(), **files})
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    tarball = "%s/npm/-/%s-1.0.0.tgz" % (address, name)
    version = {**about, "dist": {"tarball": tarball, "integrity": integrity}}
    save("npm/-/%s-1.0.0.tgz" % name, archive)
    save("npm/%s.json" % name, json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))


def pip(name):
    plain = name.replace("-", "_")
    info = "%s-1.0.0.dist-info/" % plain
    files = {"%s/f%d.py" % (plain, n): b"# " + text().replace(b"\n", b"\n# ") for n in range(FILES)}
    files[info + "METADATA"] = ("Metadata-Version: 2.1\nName: %s\nVersion: 1.0.0\n" % name).encode()
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[info + "RECORD"] = "".join("%s,,\n" % one for one in [*files, info + "RECORD"]).encode()
    wheel, file = zipped(files), "%s-1.0.0-py3-none-any.whl" % plain
    save("pip/files/" + file, wheel)
    link = "../../files/%s#sha256=%s" % (file, hashlib.sha256(wheel).hexdigest())
    save("pip/simple/%s/index.html" % name, '<!DOCTYPE html><a href="%s">%s</a>' % (link, file))


def go(name):
    module, place = "example.com/" + name, "go/example.com/%s/@v/" % name
    prefix, mod = module + "@v1.0.0/", "module %s\n\ngo 1.19\n" % module
    files = {prefix + "f%d.go" % n: b"package p\n// " + text().replace(b"\n", b"\n// ") for n in range(FILES)}
    save(place + "v1.0.0.zip", zipped({prefix + "go.mod": mod.encode(), **files}))
    save(place + "v1.0.0.mod", mod)
    save(place + "v1.0.0.info", json.dumps({"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}))
    save(place + "list", "v1.0.0\n")


def cargo(name):
    prefix = name + "-1.0.0/"
    manifest = '[package]\nname = "%s"\nversion = "1.0.0"\nedition = "2021"\n' % name
    files = {prefix + "src/f%d.rs" % n: b"// " + text().replace(b"\n", b"\n// ") for n in range(FILES)}
    crate = packed({prefix + "Cargo.toml": manifest.encode(), prefix + "src/lib.rs": b"", **files})
    save("cargo/crates/%s-1.0.0.crate" % name, crate)
    line = {"name": name, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
    save("cargo/%s/%s/%s" % (name[:2], name[2:4], name), json.dumps(line) + "\n")


for n in range(count):
    for make in (npm, pip, go, cargo):
        make("made-%d" % n)
save("cargo/config.json", json.dumps({"dl": address + "/cargo/crates/{crate}-{version}.crate"}))
