/** Working copies of every kind that must arrive inside as they are. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import type { GitProject } from './git-project.ts'

export interface Kind {
  readonly name: string
  readonly make: (project: GitProject) => void
  /** Files of the working copy that do not go in. */
  readonly ignored?: readonly string[]
  /** Files that go in though they are not in the working copy. */
  readonly more?: readonly string[]
  /**
   * Files that git turns on their way into the repository, and which arrive as they are in the repository.
   */
  readonly turned?: readonly string[]
}

function committed(project: GitProject): void {
  project.init()
  for (const name of ['a', 'b', 'dir/c', 'dir/d', 'run.sh']) project.write(name, `${name}\n`.repeat(3))
  project.link('link', 'a')
  chmodSync(project.path('run.sh'), 0o755)
  project.commitAll()
}

function conflict(project: GitProject): void {
  committed(project)
  project.git('checkout', '-q', '-b', 'other')
  project.write('a', 'theirs\n')
  project.remove('b')
  project.write('both', 'theirs\n')
  project.commitAll()
  project.git('checkout', '-q', 'main')
  project.write('a', 'ours\n')
  project.write('b', 'ours\n')
  project.write('both', 'ours\n')
  project.commitAll()
  project.tryGit('merge', 'other')
}

const HATED = [
  'new\nline',
  'tab\there',
  'quote"d',
  "it's",
  'back\\slash',
  ' leading',
  'trailing ',
  '-dash',
  '--help',
  ':(top)',
  ':/x',
  ':!x',
  '*',
  '[a]',
  '?',
  '#hash',
  '!bang',
  '$(id)',
  '`id`',
  'a\rb',
  '\x01\x02\x1b[31m',
  'HEAD',
  'x'.repeat(255),
  'ü',
  'u\u0308',
  '日本',
  '.gitx',
  '...',
  'dir with/sub dir/-x',
  `${'d'.repeat(200)}/${'e'.repeat(200)}/${'f'.repeat(200)}/${'g'.repeat(200)}`,
] as const
const NOT_TEXT = [
  Buffer.from([0x66, 0xff, 0xfe, 0x80]),
  Buffer.from([0xe9]),
  Buffer.from('caf\xe9/x\xff', 'latin1'),
]

export const KINDS: readonly Kind[] = [
  { name: 'nothing is changed', make: committed },
  {
    name: 'files are changed, staged, both, added and gone',
    make: (project) => {
      committed(project)
      project.write('a', 'changed\n')
      project.write('b', 'staged\n')
      project.git('add', 'b')
      project.write('b', 'staged, then changed\n')
      project.remove('dir/c')
      project.git('rm', '-q', 'dir/d')
      project.write('new', 'new\n')
      project.write('staged', 'new\n')
      project.git('add', 'staged')
      project.write('deep/er/new', 'new\n')
      project.write('empty', '')
      project.write('binary', Buffer.from([0, 1, 2, 255, 13, 10]))
    },
  },
  {
    name: 'some are ignored',
    make: (project) => {
      committed(project)
      project.write('.gitignore', '*.log\nbuild/\n')
      project.write('x.log')
      project.write('build/out')
      project.write('.git/info/exclude', 'private\n')
      project.write('private')
      project.write('dir/.gitignore', 'e\n')
      project.write('dir/e')
      project.git('config', '--global', 'core.excludesFile', '~/ignored here')
      project.write('../home/ignored here', '*.global\n')
      project.write('x.global')
      project.write('kept.log2')
      project.write('forced.log', 'tracked though ignored\n')
      project.git('add', '-f', 'forced.log')
    },
    ignored: ['x.log', 'build/out', 'private', 'dir/e', 'x.global'],
  },
  {
    name: 'modes and links are changed',
    make: (project) => {
      committed(project)
      chmodSync(project.path('a'), 0o755)
      chmodSync(project.path('run.sh'), 0o644)
      project.link('link', 'nowhere/at all')
      project.link('b', 'dir')
      project.link('outside', '/etc/passwd')
      project.write('new.sh', '#!/bin/sh\n', 0o755)
    },
  },
  {
    name: 'a directory is a file, a file a directory, a directory a link',
    make: (project) => {
      committed(project)
      for (const name of ['one/x', 'one/y', 'two/x', 'three']) project.write(name, name)
      project.commitAll()
      project.write('one', 'a file')
      project.link('two', '/etc')
      project.remove('three')
      project.write('three/x', 'below')
      project.remove('link')
      project.link('link/is/now/a/directory', 'target')
    },
  },
  {
    name: 'a directory is a link to one that is ignored',
    make: (project) => {
      committed(project)
      project.write('.gitignore', '/dir\n/real\n')
      project.write('real/c', 'behind')
      project.link('dir', 'real')
    },
    ignored: ['dir', 'real/c'],
  },
  { name: 'there is no commit and no file', make: (project) => void project.init() },
  {
    name: 'there is no commit',
    make: (project) => {
      project.init()
      project.write('a')
      project.git('add', 'a')
      project.write('b/c')
    },
  },
  {
    name: 'HEAD is detached',
    make: (project) => {
      committed(project)
      project.git('checkout', '-q', '--detach')
      project.write('a', 'changed')
    },
  },
  {
    name: 'a file is added in intent only',
    make: (project) => {
      committed(project)
      project.write('later', 'content')
      project.write('gone')
      project.git('add', '-N', 'later', 'gone')
      project.remove('gone')
    },
  },
  { name: 'a merge has conflicts', make: conflict },
  {
    name: 'a merge has conflicts in files that are gone',
    make: (project) => {
      conflict(project)
      project.remove('both')
      project.remove('b')
    },
  },
  {
    name: 'names are such as git hates',
    make: (project) => {
      committed(project)
      for (const name of [...HATED, ...NOT_TEXT]) project.write(name, name)
      project.git('add', '-A')
      project.git('commit', '-qm', 'hated')
      for (const name of HATED.slice(0, 12)) project.write(name, 'changed')
      project.remove('#hash')
      project.write(NOT_TEXT[0] ?? '', 'changed')
    },
  },
  {
    name: 'new files have names such as git hates',
    make: (project) => {
      committed(project)
      for (const name of [...HATED, ...NOT_TEXT]) project.write(name, name)
    },
  },
  {
    name: 'names differ by case alone',
    make: (project) => {
      committed(project)
      for (const name of ['File', 'file', 'Dir/x', 'DIR/x']) project.write(name, name)
    },
  },
  {
    name: 'line ends are turned',
    make: (project) => {
      committed(project)
      project.git('config', 'core.autocrlf', 'true')
      project.write('.gitattributes', '*.bat text eol=crlf\n*.bin -text\n')
      project.write('x.bat', 'one\r\ntwo\r\n')
      project.write('x.bin', 'one\r\ntwo\r\n')
      project.write('text', 'one\r\ntwo\r\n')
      project.commitAll()
      project.write('x.bat', 'one\r\ntwo\r\nthree\r\n')
      project.write('x.bin', 'one\r\ntwo\r\nthree\r\n')
      project.write('new text', 'one\r\n')
    },
    turned: ['x.bat', 'text', 'new text'],
  },
  {
    name: 'line ends were committed as they should not be',
    make: (project) => {
      committed(project)
      project.write('windows', 'one\r\ntwo\r\n')
      project.write('id', '$Id: what it was$\n')
      project.commitAll()
      project.write('.gitattributes', '* text=auto\nid ident\n')
      utimesSync(project.path('id'), 1, 1)
    },
    turned: ['id'],
  },
  {
    name: 'the index is split',
    make: (project) => {
      committed(project)
      project.git('update-index', '--split-index')
      project.write('a', 'staged')
      project.git('add', 'a')
      project.write('b', 'changed')
    },
  },
  {
    name: 'the index has its fourth version, and caches',
    make: (project) => {
      committed(project)
      project.git('update-index', '--index-version', '4', '--force-untracked-cache')
      project.git('status')
      project.write('b', 'changed')
      project.write('dir/new', 'new')
    },
  },
  {
    name: 'only a part is checked out',
    make: (project) => {
      committed(project)
      for (const name of ['in/x', 'out/x', 'out/deep/y']) project.write(name, name)
      project.commitAll()
      project.git('sparse-checkout', 'set', '--cone', 'in')
      project.write('in/x', 'changed')
      project.write('in/new', 'new')
    },
    more: ['dir/c', 'dir/d', 'out/x', 'out/deep/y'],
  },
  {
    name: 'only a part is checked out and the index knows no more',
    make: (project) => {
      committed(project)
      for (const name of ['in/x', 'out/x', 'out/deep/y']) project.write(name, name)
      project.commitAll()
      project.git('sparse-checkout', 'set', '--cone', '--sparse-index', 'in')
      project.write('in/x', 'changed')
    },
    more: ['dir/c', 'dir/d', 'out/x', 'out/deep/y'],
  },
  {
    name: 'modes do not count',
    make: (project) => {
      committed(project)
      project.git('config', 'core.fileMode', 'false')
      project.write('a', 'changed')
      project.write('new', 'new')
    },
  },
  {
    name: 'times say nothing',
    make: (project) => {
      committed(project)
      for (const name of ['a', 'b', 'run.sh']) utimesSync(project.path(name), 1, 1)
    },
  },
  {
    name: 'objects are borrowed',
    make: (project) => {
      const lender = `${project.root}-lender`
      mkdirSync(lender)
      execFileSync('git', ['init', '-q', '--bare', lender], { env: project.env })
      committed(project)
      project.git('push', '-q', lender, 'HEAD:refs/heads/main')
      project.remove('.git')
      project.init()
      project.write('.git/objects/info/alternates', `../../../${lender.split('/').at(-1)}/objects\n`)
      project.git(
        'reset',
        '-q',
        execFileSync('git', ['-C', lender, 'rev-parse', 'main'], { env: project.env }).toString().trim(),
      )
      project.write('a', 'changed')
    },
  },
  {
    name: 'the past is cut off',
    make: (project) => {
      const full = `${project.root}-full`
      committed(project)
      for (let i = 0; i < 5; i++) {
        project.write('a', `${i}`)
        project.commitAll()
      }
      execFileSync('mv', [project.root, full])
      execFileSync('git', ['clone', '-q', '--depth', '2', `file://${full}`, project.root], {
        env: project.env,
      })
      project.write('a', 'changed')
    },
  },
  {
    name: 'an object is replaced',
    make: (project) => {
      committed(project)
      const old = project.git('rev-parse', 'HEAD:a')
      project.write('a', 'replacement\n')
      const other = project.git('hash-object', '-w', 'a')
      project.write('a', 'a\n'.repeat(3))
      project.git('replace', old, other)
    },
  },
  {
    name: 'there is much history, with merges',
    make: (project) => {
      committed(project)
      for (let i = 0; i < 8; i++) {
        project.git('checkout', '-q', '-b', `side${i}`)
        project.write(`side${i}`, `${i}`)
        project.commitAll()
        project.git('checkout', '-q', 'main')
        project.write('a', `main ${i}`)
        project.commitAll()
        project.git('merge', '-q', '--no-edit', `side${i}`)
      }
      project.write('a', 'changed')
    },
  },
]

/** A working tree beside the first one. */
export function worktreeOf(project: GitProject): string {
  committed(project)
  const path = join(project.home, 'a worktree')
  project.git('worktree', 'add', '-q', '-b', 'feature', path)
  return path
}
