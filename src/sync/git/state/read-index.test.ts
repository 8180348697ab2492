/** The names in an index, as git writes it in each of its forms. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { GitProject } from '../../testing/git-project.ts'
import { readIndex } from './read-index.ts'

const PATH = process.env['PATH'] ?? ''
const NAMES = ['a', 'ab', 'dir/one', 'dir/other', 'dir/sub/x', 'ü', 'with space', `${'long/'.repeat(900)}x`]

let directory: string
let project: GitProject
beforeEach(() => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-index-')))
  project = new GitProject(directory, PATH).init()
  for (const name of NAMES.slice(0, -1)) project.write(name, `${name}\n`)
  project.commitAll()
  // Longer than the length that an entry can say.
  const blob = project.git('rev-parse', 'HEAD:a').trim()
  project.git('update-index', '--add', '--cacheinfo', `100644,${blob},${NAMES.at(-1)}`)
})
afterEach(() => rmSync(directory, { recursive: true }))

function index(): Buffer {
  return readFileSync(project.path('.git/index'))
}

function listed(): string[] {
  return project.git('ls-files', '-z').split('\0').filter(Boolean).sort()
}

for (const version of ['2', '3', '4'])
  test(`the names in an index of version ${version} are those that git lists`, () => {
    project.git('update-index', '--index-version', version)
    if (version === '3') project.git('update-index', '--skip-worktree', 'ab')
    project.git('update-index', '--assume-unchanged', 'dir/one')
    assert.equal(index().readUInt32BE(4), Number(version))
    const read = readIndex(index())
    assert.deepEqual(read?.paths.toSorted(), listed())
    assert.deepEqual([...(read?.uncompared ?? [])], version === '3' ? ['ab', 'dir/one'] : ['dir/one'])
    assert.deepEqual(read?.links, [])
  })

test('a link to a commit in an index is a submodule and not a file', () => {
  const commit = project.git('rev-parse', 'HEAD').trim()
  project.git('update-index', '--add', '--cacheinfo', `160000,${commit},lib/sub`)
  const read = readIndex(index())
  assert.deepEqual(read?.links, [{ path: Buffer.from('lib/sub'), commit }])
  assert.equal(read?.paths.includes('lib/sub'), false)
})

test('a name with a conflict is in an index once', () => {
  const blob = project.git('rev-parse', 'HEAD:a').trim()
  const lines = [1, 2, 3].map((stage) => `100644 ${blob} ${stage}\tconflict\n`)
  execFileSync('git', ['update-index', '--index-info'], {
    cwd: project.root,
    env: project.env,
    input: lines.join(''),
  })
  assert.equal(readIndex(index())?.paths.filter((path) => path === 'conflict').length, 1)
})

test('an index whose names are elsewhere is left to git', () => {
  project.git('update-index', '--split-index')
  project.write('new', 'new\n')
  project.git('add', 'new')
  assert.equal(readIndex(index()), undefined, 'split')
  project.git('update-index', '--no-split-index')
  assert.notEqual(readIndex(index()), undefined)
  project.git('sparse-checkout', 'set', '--cone', '--sparse-index', 'dir')
  assert.equal(readIndex(index()), undefined, 'sparse')
})

test('an index that is cut short, damaged or of a later version is left to git', () => {
  const whole = index()
  for (let length = 0; length < whole.length; length++) readIndex(whole.subarray(0, length))
  assert.equal(readIndex(whole.subarray(0, whole.length - 21)), undefined)
  assert.equal(readIndex(Buffer.concat([whole, Buffer.alloc(9)])), undefined)
  const later = Buffer.from(whole)
  later.writeUInt32BE(5, 4)
  assert.equal(readIndex(later), undefined)
  const many = Buffer.from(whole)
  many.writeUInt32BE(0xffffffff, 8)
  assert.equal(readIndex(many), undefined)
  // Whatever a byte says, reading ends.
  for (let at = 0; at < whole.length; at += 7) {
    const changed = Buffer.from(whole)
    changed[at] = (changed[at] ?? 0) ^ 0xff
    readIndex(changed)
  }
})
