/** A user's repository for tests, with a home of its own, and ways to look at everything in a directory. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

type Name = string | Buffer

const CONFIGURATION = `[user]
	name = User
	email = user@example.com
[init]
	defaultBranch = main
[protocol "file"]
	allow = always
`

export class GitProject {
  readonly root: string
  /** The user's: configuration is here, and nothing else. */
  readonly home: string
  readonly env: Readonly<Record<string, string>>

  /** In a directory that is removed by whoever made it. */
  constructor(directory: string, path: string, name = 'project') {
    this.root = join(directory, name)
    this.home = join(directory, 'home')
    this.env = { PATH: path, HOME: this.home, LC_ALL: 'C' }
    mkdirSync(this.root, { recursive: true })
    if (existsSync(this.home)) return
    mkdirSync(this.home)
    writeFileSync(join(this.home, '.gitconfig'), CONFIGURATION)
  }

  git(...args: string[]): string {
    return this.gitWith({}, ...args)
  }

  gitWith(variables: Readonly<Record<string, string>>, ...args: string[]): string {
    const env = { ...this.env, ...variables }
    return execFileSync('git', args, { cwd: this.root, env, stdio: ['ignore', 'pipe', 'pipe'] })
      .toString()
      .replace(/\n$/, '')
  }

  /** The same, where it is meant to fail. */
  tryGit(...args: string[]): void {
    try {
      this.git(...args)
    } catch {
      // That is what was wanted.
    }
  }

  init(): this {
    this.git('init', '-q')
    return this
  }

  commitAll(message = 'all'): string {
    this.git('-c', 'advice.addEmbeddedRepo=false', 'add', '-A')
    this.git('commit', '-q', '--allow-empty', '-m', message)
    return this.git('rev-parse', 'HEAD')
  }

  write(name: Name, content: string | Buffer = 'x\n', mode = 0o644): void {
    this.#makeParent(name)
    rmSync(this.path(name), { recursive: true, force: true })
    writeFileSync(this.path(name), content, { mode })
  }

  link(name: Name, target: string): void {
    this.#makeParent(name)
    rmSync(this.path(name), { recursive: true, force: true })
    symlinkSync(target, this.path(name))
  }

  #makeParent(name: Name): void {
    const parent = dirname(Buffer.from(name).toString('latin1'))
    mkdirSync(this.path(Buffer.from(parent, 'latin1')), { recursive: true })
  }

  remove(name: Name): void {
    rmSync(this.path(name), { recursive: true })
  }

  has(name: Name): boolean {
    return existsSync(this.path(name))
  }

  path(name: Name): Buffer {
    return Buffer.concat([Buffer.from(`${this.root}/`), Buffer.from(name)])
  }

  /** The tree that git itself makes of the working copy, in an index and objects of its own. */
  addedTree(): string {
    const own = mkdtempSync(join(this.home, 'own-'))
    const [index, objects] = this.git(
      'rev-parse',
      '--path-format=absolute',
      '--git-path',
      'index',
      '--git-path',
      'objects',
    ).split('\n')
    // The original's time, without which git overlooks changes.
    if (existsSync(index ?? '')) execFileSync('cp', ['-p', index ?? '', join(own, 'index')])
    mkdirSync(join(own, 'objects'))
    const variables = {
      GIT_INDEX_FILE: join(own, 'index'),
      GIT_OBJECT_DIRECTORY: join(own, 'objects'),
      GIT_ALTERNATE_OBJECT_DIRECTORIES: objects ?? '',
    }
    this.gitWith(variables, 'add', '-A')
    return this.gitWith(variables, 'write-tree')
  }
}

/**
 * Every file and link below a directory by its name, with mode and content. `isOut` says what to leave out,
 * by name or path.
 */
export function manifest(
  directory: string,
  isOut: (path: string) => boolean = () => false,
): Map<string, string> {
  const found = new Map<string, string>()
  const walk = (prefix: Buffer): void => {
    const here = Buffer.concat([Buffer.from(`${directory}/`), prefix])
    for (const entry of readdirSync(here, { encoding: 'buffer' })) {
      const name = Buffer.concat([prefix, entry])
      const path = Buffer.concat([Buffer.from(`${directory}/`), name])
      const key = name.toString('latin1')
      if (isOut(key)) continue
      const info = lstatSync(path)
      if (info.isDirectory()) walk(Buffer.concat([name, Buffer.from('/')]))
      else found.set(key, described(path, info.isSymbolicLink(), info.isFile(), (info.mode & 0o100) !== 0))
    }
  }
  walk(Buffer.alloc(0))
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function described(path: Buffer, isLink: boolean, isFile: boolean, isExecutable: boolean): string {
  if (isLink) return `-> ${readlinkSync(path, { encoding: 'buffer' }).toString('latin1')}`
  if (!isFile) return 'special'
  return `${isExecutable ? 'executable' : 'file'} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`
}

export function isGitDirectory(path: string): boolean {
  return path === '.git'
}

/** A program that leaves a trace where it is run. */
export function canary(directory: string): {
  readonly command: string
  readonly ran: () => boolean
  readonly forget: () => void
} {
  const [command, trace] = [join(directory, 'canary'), join(directory, 'canary-ran')]
  writeFileSync(command, `#!/bin/sh\n: > '${trace}'\ncat\n`, { mode: 0o755 })
  return { command, ran: () => existsSync(trace), forget: () => rmSync(trace, { force: true }) }
}
