/** The tree that an index says it has is the one that git writes for it. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { GitProject } from '../../testing/git-project.ts'
import { cachedTree } from './cached-tree.ts'

let directory: string
let project: GitProject
beforeEach(() => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-cached-')))
  project = new GitProject(directory, process.env['PATH'] ?? '').init()
  for (const name of ['a', 'dir/TREE', 'dir/TREE.txt', 'TREE/x']) project.write(name, `${name}\n`)
  project.commitAll()
})
afterEach(() => rmSync(directory, { recursive: true }))

function found(): string | undefined {
  return cachedTree(readFileSync(project.path('.git/index')))
}

for (const version of ['2', '3', '4'])
  test(`an index of version ${version} says its tree after a commit, and with the untracked cache`, () => {
    project.git('update-index', '--index-version', version)
    const tree = project.git('rev-parse', 'HEAD^{tree}').trim()
    assert.equal(found(), tree)
    project.git('update-index', '--untracked-cache')
    project.write('TREE/new', '')
    project.git('status')
    assert.equal(found(), tree)
  })

test('an index with a change says no tree', () => {
  project.write('dir/TREE', 'changed\n')
  project.git('add', '-A')
  assert.equal(found(), undefined)
  project.git('write-tree')
  assert.equal(found(), project.git('write-tree').trim())
})

test('an index with a file that is only intended says no tree', () => {
  project.write('later', '')
  project.git('add', '--intent-to-add', 'later')
  assert.equal(found(), undefined)
})

test('an index that is split says the tree of both parts', () => {
  project.git('update-index', '--split-index')
  assert.equal(found(), project.git('rev-parse', 'HEAD^{tree}').trim())
  project.write('a', 'changed\n')
  project.git('add', '-A')
  assert.equal(found(), undefined)
})

test('a damaged index is read without harm', () => {
  const whole = readFileSync(project.path('.git/index'))
  for (let length = 0; length < whole.length; length++)
    assert.equal(cachedTree(whole.subarray(0, length)), undefined)
  for (let at = 0; at < whole.length; at++) {
    const changed = Buffer.from(whole)
    changed[at] = (changed[at] ?? 0) ^ 0xff
    cachedTree(changed)
  }
})
