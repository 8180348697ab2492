import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { listFiles, listProject } from './project-files.ts'

let top = ''
let project = ''
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'agentpod-project-'))
  project = join(top, 'project')
  mkdirSync(project)
})
afterEach(() => rmSync(top, { recursive: true }))

function write(path: string, text = 'x'): void {
  mkdirSync(dirname(join(project, path)), { recursive: true })
  writeFileSync(join(project, path), text)
}

function git(directory: string, ...args: readonly string[]): void {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'protocol.file.allow=always']
  execFileSync('git', [...identity, ...args], {
    cwd: directory,
    stdio: 'pipe',
    env: { PATH: process.env['PATH'], HOME: top, GIT_CONFIG_NOSYSTEM: '1' },
  })
}

function list(o: { exclude?: readonly string[]; env?: Record<string, string> } = {}): Promise<string[]> {
  const env = { PATH: process.env['PATH'], HOME: top, ...o.env }
  return listProject({ directory: project, exclude: o.exclude ?? [], env })
}

describe('a project without git', () => {
  test('without git the project is every file, with empty directories and links as links', async () => {
    write('a.txt')
    write('deep/er/b.txt')
    write('Grüße 😀.txt')
    mkdirSync(join(project, 'empty'))
    symlinkSync('/etc', join(project, 'link'))
    symlinkSync('nowhere', join(project, 'dangling'))
    assert.deepEqual(
      await list(),
      ['Grüße 😀.txt', 'a.txt', 'dangling', 'deep/er/b.txt', 'empty', 'link'].sort(),
    )
  })

  test('an empty directory is an empty project', async () => {
    assert.deepEqual(await list(), [])
  })

  test('a path that is neither file nor link is left out of the project', async () => {
    execFileSync('mkfifo', [join(project, 'pipe')])
    write('a')
    assert.deepEqual(await list(), ['a'])
  })

  test('without an installed git all files are listed', async () => {
    write('a')
    git(project, 'init', '-q')
    assert.deepEqual(await list({ env: { PATH: '/nonexistent' } }), ['a'])
  })

  test('a directory that does not exist is an error that names it', async () => {
    rmSync(project, { recursive: true })
    await assert.rejects(list(), { code: 'invalid_argument', reason: 'project.unreadable' })
    mkdirSync(project)
  })
})

describe('a project with git', () => {
  beforeEach(() => git(project, 'init', '-q', '-b', 'main'))

  test('the project has tracked and untracked files, but no ignored files and no .git', async () => {
    write('.gitignore', 'out/\n*.log\n')
    write('tracked.txt')
    write('sub/.gitignore', 'secret\n')
    write('sub/secret')
    git(project, 'add', '.')
    write('untracked.txt')
    write('out/a')
    write('x.log')
    assert.deepEqual(await list(), ['.gitignore', 'sub/.gitignore', 'tracked.txt', 'untracked.txt'])
  })

  test('an ignored file that is tracked belongs to the project', async () => {
    write('keep.log')
    git(project, 'add', '-f', 'keep.log')
    write('.gitignore', '*.log\n')
    assert.deepEqual(await list(), ['.gitignore', 'keep.log'])
  })

  test('a tracked file that was deleted does not belong to the project', async () => {
    write('gone')
    write('here')
    git(project, 'add', '.')
    rmSync(join(project, 'gone'))
    assert.deepEqual(await list(), ['here'])
  })

  test('names with spaces, line breaks, quotes and other alphabets are listed unchanged', async () => {
    const names = ['with space', 'new\nline', 'quo"te', '日本語', '-dash', 'tab\there']
    for (const name of names) write(name)
    git(project, 'add', '.')
    assert.deepEqual(await list(), [...names].sort())
  })

  test('a link is listed as a link, even to a directory outside', async () => {
    symlinkSync('/etc', join(project, 'link'))
    git(project, 'add', '.')
    assert.deepEqual(await list(), ['link'])
  })

  test('a project in a subdirectory of a repository is that subdirectory', async () => {
    write('one/a')
    write('two/b')
    git(project, 'add', '.')
    const part = await listProject({
      directory: join(project, 'one'),
      exclude: [],
      env: { PATH: process.env['PATH'], HOME: top },
    })
    assert.deepEqual(part, ['a'])
  })

  test('a submodule brings its own files, by its own rules', async () => {
    const library = join(top, 'library')
    mkdirSync(library)
    git(library, 'init', '-q', '-b', 'main')
    writeFileSync(join(library, 'lib.txt'), 'x')
    writeFileSync(join(library, '.gitignore'), 'built\n')
    git(library, 'add', '.')
    git(library, 'commit', '-q', '-m', 'one')
    write('a')
    git(project, 'submodule', '--quiet', 'add', library, 'dep')
    write('dep/built')
    write('dep/new')
    assert.deepEqual(await list(), ['.gitmodules', 'a', 'dep/.gitignore', 'dep/lib.txt', 'dep/new'])
  })

  test('a submodule that was not fetched is an empty directory', async () => {
    const library = join(top, 'library')
    mkdirSync(library)
    git(library, 'init', '-q', '-b', 'main')
    git(library, 'commit', '-q', '--allow-empty', '-m', 'one')
    git(project, 'submodule', '--quiet', 'add', library, 'dep')
    git(project, 'commit', '-q', '-m', 'with')
    const clone = join(top, 'clone')
    git(top, 'clone', '-q', project, clone)
    const found = await listProject({
      directory: clone,
      exclude: [],
      env: { PATH: process.env['PATH'], HOME: top },
    })
    assert.deepEqual(found, ['.gitmodules', 'dep'])
  })

  test('a repository inside the repository lists its own files', async () => {
    write('a')
    write('inner/b')
    write('inner/skip.log')
    write('inner/.gitignore', '*.log\n')
    git(join(project, 'inner'), 'init', '-q', '-b', 'main')
    assert.deepEqual(await list(), ['a', 'inner/.gitignore', 'inner/b'])
  })

  test('files behind a directory that became a link are not the project’s', async () => {
    write('dir/secret')
    write('dir/deep/secret')
    write('other/kept')
    git(project, 'add', '.')
    rmSync(join(project, 'dir'), { recursive: true })
    const outside = join(top, 'outside')
    mkdirSync(join(outside, 'deep'), { recursive: true })
    writeFileSync(join(outside, 'secret'), 'of the host')
    writeFileSync(join(outside, 'deep/secret'), 'of the host')
    symlinkSync(outside, join(project, 'dir'))
    assert.deepEqual(await list(), ['dir', 'other/kept'])
  })

  test('a program that the project names for git to run is not run', async () => {
    write('a')
    const mark = join(top, 'ran')
    const hook = join(top, 'hook.sh')
    writeFileSync(hook, `#!/bin/sh\ntouch ${mark}\n`)
    chmodSync(hook, 0o755)
    git(project, 'config', 'core.fsmonitor', hook)
    await list()
    assert.throws(() => execFileSync('ls', [mark], { stdio: 'pipe' }))
    // The control: git itself would have run it.
    git(project, 'status')
    execFileSync('ls', [mark], { stdio: 'pipe' })
  })
})

test('excluded paths are skipped, and paths with similar names are not', async () => {
  write('state/db')
  write('state/deep/db')
  write('state2')
  write('a')
  assert.deepEqual(await list({ exclude: [join(project, 'state')] }), ['a', 'state2'])
  assert.deepEqual(await list({ exclude: [join(top, 'elsewhere'), project] }), [
    'a',
    'state/db',
    'state/deep/db',
    'state2',
  ])
})

test('listing all files includes .git and ignored files', async () => {
  git(project, 'init', '-q')
  write('.gitignore', 'x.log\n')
  write('x.log')
  const found = await listFiles(project)
  assert.ok(found.includes('.git/HEAD') && found.includes('x.log') && found.includes('.gitignore'))
})
