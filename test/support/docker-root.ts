/**
 * A small root file system of this machine's programs, as a tar file: an image for tests that needs no
 * registry.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const PROGRAMS = `
base64 basename bash cat chmod chown cmp cp cut date dd df diff dirname echo env expr false find git
grep gzip head hostname id kill ln ls mkdir mkfifo mktemp mount mv nohup od perl printenv ps
readlink realpath rm sed seq sh sha256sum sleep sort stat su sync tail tar tee test timeout touch tr
true umount uname uniq unshare wc whoami xargs`
  .trim()
  .split(/\s+/)
/** perl can make system calls that no program offers. */
const TREES = [
  '/usr/lib/git-core/git',
  '/usr/share/perl',
  '/usr/lib/x86_64-linux-gnu/perl-base',
  '/usr/lib/aarch64-linux-gnu/perl-base',
]

export function packRoot(file: string, o: { python?: boolean } = {}): void {
  const root = mkdtempSync(join(tmpdir(), 'agentpod-root-'))
  try {
    for (const directory of [
      'usr/bin',
      'usr/sbin',
      'usr/lib',
      'usr/lib64',
      'etc',
      'root',
      'tmp',
      'var/tmp',
      'home',
    ])
      mkdirSync(join(root, directory), { recursive: true })
    for (const directory of ['tmp', 'var/tmp']) chmodSync(join(root, directory), 0o1777)
    for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(root, name))
    const names = o.python ? [...PROGRAMS, 'python3'] : PROGRAMS
    const programs = names.map(find).filter((path) => path !== undefined)
    for (const path of [...programs, ...programs.flatMap(libraries)]) copy(root, path)
    for (const path of TREES.filter((tree) => existsSync(tree))) copy(root, path)
    if (o.python) copyPython(root)
    writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/bash\n')
    writeFileSync(join(root, 'etc/group'), 'root:x:0:\n')
    execFileSync('tar', [
      ...['--create', '--sort=name', '--mtime=@1700000000', '--owner=0', '--group=0', '--numeric-owner'],
      ...['--file', file, '--directory', root, '.'],
    ])
  } finally {
    rmSync(root, { recursive: true })
  }
}

function find(name: string): string | undefined {
  return ['/usr/bin', '/bin', '/usr/sbin', '/sbin']
    .map((directory) => join(directory, name))
    .find((path) => existsSync(path))
}

function libraries(program: string): string[] {
  try {
    const said = execFileSync('ldd', [program], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    return [...said.matchAll(/(\/\S+)/g)].map(([, path = '']) => path)
  } catch {
    // A script, or a program without libraries.
    return []
  }
}

/** The modules that come with Python, and the libraries of those that are in C. */
function copyPython(root: string): void {
  const modules = execFileSync('/usr/bin/python3', ['-c', 'import os; print(os.path.dirname(os.__file__))'], {
    encoding: 'utf8',
  }).trim()
  copy(root, modules)
  const compiled = join(modules, 'lib-dynload')
  for (const name of readdirSync(compiled))
    for (const path of libraries(join(compiled, name))) copy(root, path)
}

/** Every directory of the machine's root that is a link into /usr is one here too. */
function copy(root: string, path: string): void {
  const target = join(root, /^\/(?:s?bin|lib(?:64)?)\//.test(path) ? `/usr${path}` : path)
  if (existsSync(target)) return
  mkdirSync(dirname(target), { recursive: true })
  cpSync(realpathSync(path), target, { recursive: true, dereference: true })
}
