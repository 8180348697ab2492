/**
 * The state of a working copy: what is in it, what is refused, and that nothing of the repository is run or
 * changed.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../../../core/error.ts'
import { openProjectState } from '../../testing/git-inside.ts'
import { canary, GitProject, manifest } from '../../testing/git-project.ts'
import { packOf } from './pack.ts'
import type { ProjectState } from './project-state.ts'
import { LARGE_FILE_BYTES } from './working-copy.ts'

const PATH = process.env['PATH'] ?? ''

let directory: string
let project: GitProject
beforeEach(() => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-state-')))
  project = new GitProject(directory, PATH).init()
  project.write('a', 'one\n')
  project.write('b', 'two\n')
  project.commitAll()
})
afterEach(() => rmSync(directory, { recursive: true }))

async function stateNow(o: Parameters<typeof openProjectState>[2] = {}): Promise<ProjectState> {
  return (await openProjectState(project.root, project.env, o)).state
}

/** Names in a tree, as its own scratch has it. */
function filesOf({ scratch, tree }: ProjectState): string[] {
  const listed = execFileSync('git', ['--git-dir', scratch, 'ls-tree', '-r', '--name-only', '-z', tree], {
    env: project.env,
  })
  return listed.toString().split('\0').slice(0, -1)
}

function contentOf({ scratch, tree }: ProjectState, name: string): string {
  return execFileSync('git', ['--git-dir', scratch, 'cat-file', 'blob', `${tree}:${name}`], {
    env: project.env,
  }).toString()
}

const NEEDS_ROOT = { skip: !canBeNobody() && 'needs root, and Node and sources that everyone may read' }

function canBeNobody(): boolean {
  if (process.getuid?.() !== 0) return false
  const options = { uid: 65534, gid: 65534, cwd: '/', stdio: 'ignore' } as const
  try {
    execFileSync(process.execPath, ['-e', 'fs.readFileSync(process.argv[1])', import.meta.filename], options)
    return true
  } catch {
    return false
  }
}

/** What another user, who owns it all but may not read all, is told of the project: an error or notes. */
function seenByNobody(): string {
  execFileSync('chown', ['-R', '65534:65534', directory])
  chmodSync(directory, 0o755)
  const program = `
    import { openProjectState } from '${import.meta.dirname}/../../testing/git-inside.ts'
    const [root, env] = ${JSON.stringify([project.root, project.env])}
    try { console.log((await openProjectState(root, env)).state.notes.join('\\n')) }
    catch (error) { console.log(error.reason, error.message) }`
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    uid: 65534,
    gid: 65534,
    cwd: '/',
    env: project.env,
    stdio: ['ignore', 'pipe', 'ignore'],
  }).toString()
}

function isReason(reason: string, words: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(isAgentPodError(error), String(error))
    assert.equal(error.reason, reason)
    assert.match(`${error.message} ${error.hint ?? ''}`, words)
    return true
  }
}

describe('a state', () => {
  test('RUN-12 a state lists uncommitted files', async () => {
    project.write('a', 'changed')
    project.git('rm', '-q', 'b')
    project.write('new', 'new')
    project.link('link', 'a')
    const state = await stateNow()
    assert.deepEqual(
      state.changed.map(({ path, kind }) => [path, kind]),
      [
        ['a', 'modified'],
        ['b', 'deleted'],
        ['link', 'added'],
        ['new', 'added'],
      ],
    )
    assert.equal(state.branch, 'main')
    assert.equal(state.commit, project.git('rev-parse', 'HEAD'))
  })

  test('RUN-12 a clean state is the commit alone', async () => {
    project.write('a', 'changed')
    project.write('new', 'new')
    const state = await stateNow({ isClean: true })
    assert.equal(state.tree, project.git('rev-parse', 'HEAD^{tree}'))
    assert.deepEqual(state.changed, [])
  })

  test('a clean state needs a commit', async () => {
    const empty = new GitProject(directory, PATH, 'empty').init()
    await assert.rejects(
      openProjectState(empty.root, empty.env, { isClean: true }),
      isReason('repository.empty', /has no commit/),
    )
  })

  test('a state is the same each time', async () => {
    project.write('new', 'new')
    const [first, second] = [await stateNow(), await stateNow({ history: 1 })]
    assert.equal(first.tree, second.tree)
  })

  test('a state sees a change that keeps size and second', async () => {
    for (let i = 0; i < 10; i++) {
      project.write('a', `${i}a\n`)
      project.git('add', 'a')
      writeFileSync(project.path('a'), `${i}b\n`)
      const state = await stateNow()
      assert.equal(contentOf(state, 'a'), `${i}b\n`)
    }
  })

  test('a state read in a subdirectory covers the whole project', async () => {
    project.write('deep/er/x')
    const { state } = await openProjectState(join(project.root, 'deep/er'), project.env)
    assert.deepEqual(filesOf(state), ['a', 'b', 'deep/er/x'])
  })

  test('a state skips excluded paths without reading them', async () => {
    project.write('ho[m]e/state/large', 'ours')
    project.write('home/kept', 'theirs')
    project.write('ho[m]e2', 'theirs')
    const seen = await stateNow({ exclude: [join(project.root, 'ho[m]e'), '/somewhere/else', project.root] })
    assert.deepEqual(filesOf(seen), ['a', 'b', 'ho[m]e2', 'home/kept'])
  })

  test('a state skips its own scratch directory inside the project', async () => {
    const scratch = join(project.root, 'scratch')
    mkdirSync(scratch)
    assert.deepEqual(filesOf(await stateNow({ scratch })), ['a', 'b'])
  })

  test('a state has an assume-unchanged file as the index has it', async () => {
    project.git('update-index', '--assume-unchanged', 'a')
    project.write('a', 'only here')
    assert.equal(contentOf(await stateNow(), 'a'), 'one\n')
  })

  test('a state leaves out paths that are neither file nor link, with a note for tracked ones', async () => {
    project.remove('a')
    execFileSync('mkfifo', [join(project.root, 'a'), join(project.root, 'pipe')])
    const state = await stateNow()
    assert.deepEqual(filesOf(state), ['b'])
    assert.match(state.notes.join('\n'), /^a is neither a file nor a link/)
  })

  test('a state has notes for names that git does not allow', async () => {
    project.write('git~1', 'x')
    project.write('good', 'x')
    const state = await stateNow()
    assert.deepEqual(filesOf(state), ['a', 'b', 'good'])
    assert.match(state.notes.join('\n'), /git~1 was left out/)
  })

  test('reading a state survives files that come and go', async () => {
    const script = 'i=0; while :; do i=$((i+1)); echo $i > t$i; rm -f t$((i-3)); done'
    const writer = spawn('/bin/sh', ['-c', script], { cwd: project.root, stdio: 'ignore' })
    try {
      for (let i = 0; i < 5; i++) assert.ok(filesOf(await stateNow()).includes('a'))
    } finally {
      writer.kill('SIGKILL')
      await once(writer, 'close')
    }
  })
})

describe('nested repositories that are not submodules', () => {
  test('a nested repository is copied as plain files, by its own and the project’s ignore rules', async () => {
    project.write('.gitignore', '.env\n')
    const nested = new GitProject(directory, PATH, 'project/nested').init()
    nested.write('.gitignore', '*.o\n')
    nested.write('x')
    nested.write('x.o')
    nested.write('.env', 'secret')
    nested.commitAll()
    nested.write('uncommitted')
    const inner = new GitProject(directory, PATH, 'project/nested/in\nner').init()
    inner.write('y')
    const before = manifest(project.root)
    const state = await stateNow()
    assert.deepEqual(filesOf(state), [
      '.gitignore',
      'a',
      'b',
      'nested/.gitignore',
      'nested/in\nner/y',
      'nested/uncommitted',
      'nested/x',
    ])
    assert.match(state.notes.join('\n'), /nested\/ is a nested repository/)
    assert.deepEqual(manifest(project.root), before)
  })

  test('a nested repository cannot lead outside through a link', async () => {
    const nested = new GitProject(directory, PATH, 'project/nested').init()
    nested.write('x')
    nested.link('out', directory)
    assert.deepEqual(filesOf(await stateNow()), ['a', 'b', 'nested/out', 'nested/x'])
  })
})

describe('refused states', () => {
  test('a state is refused if an uncommitted file is too large', async () => {
    const file = openSync(project.path('large.bin'), 'w')
    ftruncateSync(file, 2 * 1024 ** 3)
    closeSync(file)
    await assert.rejects(
      stateNow(),
      isReason('project.large_file', /large\.bin .*2\.0 GiB.*100 MiB.*\.gitignore.*commit.*--clean/),
    )
    assert.deepEqual(filesOf(await stateNow({ isClean: true })), ['a', 'b'])
    project.write('.gitignore', '*.bin\n')
    assert.deepEqual(filesOf(await stateNow()), ['.gitignore', 'a', 'b'])
  })

  test('a state with an uncommitted file just below the limit is accepted', async () => {
    const file = openSync(project.path('large.bin'), 'w')
    ftruncateSync(file, LARGE_FILE_BYTES)
    closeSync(file)
    assert.ok(filesOf(await stateNow()).includes('large.bin'))
  })

  test('a state is refused if a file cannot be read', NEEDS_ROOT, () => {
    project.write('closed', 'x')
    chmodSync(project.path('closed'), 0)
    assert.match(seenByNobody(), /^project\.unreadable cannot read closed: EACCES/)
  })

  test('a state leaves out an unreadable directory with a note', NEEDS_ROOT, () => {
    project.write('closed/x', 'x')
    chmodSync(project.path('closed'), 0)
    assert.match(seenByNobody(), /^closed\/ cannot be read, and was left out/)
  })

  test('a state is refused if a partial clone lacks objects', async () => {
    project.git('config', 'uploadpack.allowFilter', 'true')
    const clone = join(directory, 'clone')
    execFileSync(
      'git',
      ['clone', '-q', '--filter=blob:none', '--no-checkout', `file://${project.root}`, clone],
      {
        env: project.env,
      },
    )
    const spy = canary(directory)
    execFileSync('git', ['config', 'remote.origin.uploadpack', spy.command], { cwd: clone, env: project.env })
    await assert.rejects(
      openProjectState(clone, project.env, { isClean: true }),
      isReason('repository.incomplete', /partial clone and lacks 2 .*git fetch/),
    )
    assert.ok(!spy.ran(), 'nothing was fetched')
  })

  test('a state of a partial clone with all needed objects is accepted', async () => {
    project.git('config', 'uploadpack.allowFilter', 'true')
    const clone = join(directory, 'clone')
    execFileSync('git', ['clone', '-q', '--filter=blob:none', `file://${project.root}`, clone], {
      env: project.env,
    })
    const { state } = await openProjectState(clone, project.env)
    assert.deepEqual(state.changed, [])
  })

  test('a state is refused if an object is lost', async () => {
    const id = project.git('rev-parse', 'HEAD:a')
    rmSync(join(project.root, '.git/objects', id.slice(0, 2), id.slice(2)))
    const { repository, state } = await openProjectState(project.root, project.env)
    await assert.rejects(
      (await packOf(repository, state, undefined)).toArray(),
      isReason('git.failed', /pack-objects failed/),
    )
  })

  test('a state is refused if the configuration names another working tree', async () => {
    project.write('.git/config', `[core]\n\trepositoryformatversion = 0\n\tworktree = ${directory}\n`)
    await assert.rejects(stateNow(), isReason('repository.elsewhere', /core\.worktree/))
  })

  test('a state is refused outside a repository', async () => {
    await assert.rejects(openProjectState(directory, project.env), isReason('repository.none', /git init/))
  })
})

describe('filters', () => {
  const content = 'the real content of a large file\n'
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${createHash('sha256').update(content).digest('hex')}\nsize ${content.length}\n`

  /**
   * As Git LFS leaves it: a pointer in the index, the content in the file, and the index knowing the file's
   * times.
   */
  function smudged(): void {
    project.write('.gitattributes', '*.big filter=lfs diff=lfs merge=lfs -text\n')
    project.write('x.big', pointer)
    project.commitAll()
    project.git('config', 'filter.lfs.clean', `printf '%s' '${pointer}' #`)
    project.git('config', 'filter.lfs.smudge', `printf '%s' '${content}' #`)
    project.git('config', 'filter.lfs.required', 'true')
    project.remove('x.big')
    project.git('checkout', '--', 'x.big')
    assert.equal(project.git('status', '--porcelain'), '')
  }

  test('RUN-12 an unchanged file in LFS goes in as its pointer', async () => {
    smudged()
    const state = await stateNow()
    assert.equal(contentOf(state, 'x.big'), pointer)
    assert.deepEqual(state.changed, [])
    assert.match(state.notes.join('\n'), /pointers/)
  })

  test('an unchanged LFS file is copied as its pointer even if its times changed', async () => {
    smudged()
    utimesSync(project.path('x.big'), 1, 1)
    assert.deepEqual((await stateNow()).changed, [])
  })

  test('a changed or new LFS file is copied with its content', async () => {
    smudged()
    project.write('x.big', 'changed')
    project.write('y.big', 'new')
    const state = await stateNow()
    assert.equal(contentOf(state, 'x.big'), 'changed')
    assert.equal(contentOf(state, 'y.big'), 'new')
    assert.match(state.notes.join('\n'), /x\.big is a Git LFS file with uncommitted changes/)
  })

  test('the plain text of an encrypted file is not copied', async () => {
    project.write('.gitattributes', 'secret* filter=crypt\n')
    project.git('config', 'filter.crypt.clean', 'rev')
    project.git('config', 'filter.crypt.smudge', 'rev')
    project.write('secret', 'plain\n')
    project.commitAll()
    assert.equal(project.git('cat-file', 'blob', 'HEAD:secret'), 'nialp')
    project.write('secret', 'changed\n')
    project.write('secret2', 'new\n')
    const state = await stateNow()
    assert.equal(contentOf(state, 'secret'), 'nialp\n')
    assert.deepEqual(filesOf(state), ['.gitattributes', 'a', 'b', 'secret'])
    assert.match(state.notes.join('\n'), /secret was copied as it was last added: .*filter crypt/)
    assert.match(state.notes.join('\n'), /secret2 was left out/)
  })

  test('an undefined filter is ignored', async () => {
    project.write('.gitattributes', '* filter=unknown\n')
    project.write('a', 'changed')
    assert.equal(contentOf(await stateNow(), 'a'), 'changed')
  })
})

describe('what a hostile repository names is not run', () => {
  const HOOKS = [
    'applypatch-msg',
    'commit-msg',
    'fsmonitor-watchman',
    'post-applypatch',
    'post-checkout',
    'post-commit',
    'post-index-change',
    'post-merge',
    'post-receive',
    'post-rewrite',
    'post-update',
    'pre-applypatch',
    'pre-auto-gc',
    'pre-commit',
    'pre-merge-commit',
    'pre-push',
    'pre-rebase',
    'pre-receive',
    'prepare-commit-msg',
    'proc-receive',
    'push-to-checkout',
    'reference-transaction',
    'sendemail-validate',
    'update',
    'p4-changelist',
    'p4-prepare-changelist',
    'p4-post-changelist',
    'p4-pre-submit',
  ]

  interface Trap {
    readonly name: string
    /** Puts the program where git finds it. */
    readonly set: (command: string) => void
    /** The control: plain git runs it by this. */
    readonly springs: () => void
  }

  const filter = (name: string, command: string): void => {
    project.write('.gitattributes', `* filter=${name}\n`)
    project.write(
      '.git/config',
      `[core]\n\trepositoryformatversion = 0\n[filter "${name}"]\n\tclean = ${command}\n\tsmudge = ${command}\n\trequired = true\n`,
    )
    utimesSync(project.path('a'), 1, 1)
  }
  const status = (): void => project.tryGit('status')
  const traps: readonly Trap[] = [
    {
      name: 'core.fsmonitor',
      set: (command) => void project.git('config', 'core.fsmonitor', command),
      springs: status,
    },
    {
      name: 'hooks',
      set: (command) => {
        for (const hook of HOOKS) {
          project.write(`.git/hooks/${hook}`, `#!/bin/sh\nexec ${command}\n`, 0o755)
        }
      },
      springs: () => {
        project.git('add', '-A')
        project.tryGit('commit', '-qm', 'x')
      },
    },
    {
      name: 'core.hooksPath',
      set: (command) => {
        project.write('own/post-index-change', `#!/bin/sh\nexec ${command}\n`, 0o755)
        project.git('config', 'core.hooksPath', 'own')
      },
      springs: () => void project.git('add', '-A'),
    },
    { name: 'a filter', set: (command) => filter('x', command), springs: status },
    {
      name: 'a filter whose name has an equals sign',
      set: (command) => filter('a=b.c', command),
      springs: status,
    },
    {
      name: 'a filter process',
      set: (command) => {
        project.write('.gitattributes', '* filter=x\n')
        project.git('config', 'filter.x.process', command)
        utimesSync(project.path('a'), 1, 1)
      },
      springs: status,
    },
    {
      name: 'a filter of an included file',
      set: (command) => {
        project.write('.gitattributes', '* filter=x\n')
        project.write('more', `[filter "x"]\n\tclean = ${command}\n`)
        project.git('config', 'include.path', '../more')
        utimesSync(project.path('a'), 1, 1)
      },
      springs: status,
    },
    {
      name: 'a filter in attributes of the git directory',
      set: (command) => {
        project.write('.git/info/attributes', '* filter=x\n')
        project.git('config', 'filter.x.clean', command)
        utimesSync(project.path('a'), 1, 1)
      },
      springs: status,
    },
    {
      name: 'textconv',
      set: (command) => {
        project.write('.gitattributes', '* diff=x\n')
        project.git('config', 'diff.x.textconv', command)
        project.write('a', 'changed')
      },
      springs: () => project.tryGit('diff'),
    },
    {
      name: 'an external diff',
      set: (command) => {
        project.git('config', 'diff.external', command)
        project.write('a', 'changed')
      },
      springs: () => project.tryGit('diff'),
    },
    {
      name: 'a file system monitor of a submodule',
      set: (command) => {
        const library = new GitProject(directory, PATH, 'library').init()
        library.write('x')
        library.commitAll()
        project.git('submodule', '--quiet', 'add', library.root, 'sub')
        project.git('-C', 'sub', 'config', 'core.fsmonitor', command)
      },
      springs: status,
    },
    {
      name: 'a file system monitor of a repository inside',
      set: (command) => {
        const nested = new GitProject(directory, PATH, 'project/nested').init()
        nested.write('x')
        nested.git('config', 'core.fsmonitor', command)
      },
      springs: () => project.tryGit('-C', 'nested', 'status'),
    },
    {
      name: 'a custom transfer of LFS',
      set: (command) => {
        project.write(
          '.lfsconfig',
          `[lfs]\n\turl = ssh://example.com/x\n[lfs "customtransfer.x"]\n\tpath = ${command}\n`,
        )
        project.write('.gitattributes', '* filter=lfs\n')
        project.git('config', 'filter.lfs.clean', command)
        project.git('config', 'filter.lfs.process', command)
        project.git('config', 'lfs.customtransfer.x.path', command)
        utimesSync(project.path('a'), 1, 1)
      },
      springs: status,
    },
  ]

  for (const { name, set, springs } of traps)
    test(`RUN-12 a program that a hostile repository names is not run: ${name}`, async () => {
      const spy = canary(directory)
      set(spy.command)
      project.write('untracked', 'x')
      spy.forget()
      const { repository, state } = await openProjectState(project.root, project.env)
      await (await packOf(repository, state, undefined)).toArray()
      for (const one of state.submodules) await (await packOf(one.repository, one.state, undefined)).toArray()
      await openProjectState(project.root, project.env, { isClean: true })
      assert.ok(!spy.ran(), 'it was not run')
      springs()
      assert.ok(spy.ran(), 'plain git runs it')
    })
})

test('a pipe or a device in the git directory is not waited for', async () => {
  project.remove('.git/info')
  mkdirSync(join(project.root, '.git/info'))
  execFileSync('mkfifo', [join(project.root, '.git/info/exclude')])
  project.link('.git/info/attributes', '/dev/zero')
  assert.deepEqual((await stateNow()).changed, [])
})

test('RUN-12 reading a state writes nothing but its scratch directory', async () => {
  const scratch = join(directory, 'scratch')
  mkdirSync(scratch)
  project.write('a', 'changed')
  const times = (): unknown =>
    readdirSync(join(project.root, '.git')).map((name) => [
      name,
      statSync(join(project.root, '.git', name)).mtimeMs,
    ])
  const before = [manifest(project.root), times()]
  const state = await stateNow({ scratch })
  assert.deepEqual([manifest(project.root), times()], before)
  assert.ok(state.scratch.startsWith(`${scratch}/`))
  assert.ok(existsSync(join(state.scratch, 'objects')))
})
