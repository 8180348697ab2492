"""Prints the files and the configuration of an image as JSON: an OCI layout, or what `docker save` wrote."""
import hashlib, json, os, sys, tarfile

def read(path):
    with open(path, 'rb') as file:
        return json.load(file)

def image(root):
    """The configuration, and the files of the layers, lowest first."""
    if os.path.exists(os.path.join(root, 'manifest.json')):
        manifest = read(os.path.join(root, 'manifest.json'))[0]
        return read(os.path.join(root, manifest['Config'])), [os.path.join(root, one) for one in manifest['Layers']]
    blob = lambda digest: os.path.join(root, 'blobs', *digest.split(':'))
    manifest = read(blob(read(os.path.join(root, 'index.json'))['manifests'][0]['digest']))
    return read(blob(manifest['config']['digest'])), [blob(one['digest']) for one in manifest['layers']]

def remove(files, name, keep=False):
    for one in [one for one in files if one.startswith(name + '/') or (one == name and not keep)]:
        del files[one]

def apply(files, layer):
    with tarfile.open(layer) as archive:
        made = {}
        for entry in archive:
            name = entry.name.strip('/').removeprefix('./').strip('/')
            if name in ('', '.'):
                continue
            above, base = os.path.split(name)
            if base == '.wh..wh..opq':
                remove(files, above, keep=True)
            elif base.startswith('.wh.'):
                remove(files, os.path.join(above, base[4:]))
            else:
                made[name] = describe(archive, entry, {**files, **made})
        for name, what in made.items():
            if what[0] != 'd':
                remove(files, name)
            files[name] = what

def describe(archive, entry, known):
    kind = 'd' if entry.isdir() else 'l' if entry.issym() else 'p' if entry.isfifo() else 'f'
    if entry.islnk():
        return known[entry.linkname.strip('/').removeprefix('./')]
    content = entry.linkname if kind == 'l' else ''
    if kind == 'f':
        data = archive.extractfile(entry).read()
        content = data.decode() if len(data) < 200 and b'\0' not in data else hashlib.sha256(data).hexdigest()
    mode = '' if kind == 'l' else '%o' % (entry.mode & 0o7777)
    return [kind, mode, entry.uid, entry.gid, content]

config, layers = image(sys.argv[1])
files = {}
for layer in layers:
    apply(files, layer)
json.dump({'config': config.get('config', {}), 'files': files}, sys.stdout, sort_keys=True)
