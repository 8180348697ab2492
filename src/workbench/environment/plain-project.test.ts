/** That nothing asks for an environment is remembered as long as nothing that was looked at has changed. */
import assert from 'node:assert/strict'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { homeAt } from '../../core/home.ts'
import { openRepository, type Repository } from '../../sync/git/plumbing/repository.ts'
import { GitProject } from '../../sync/testing/git-project.ts'
import { projectDirectory, projectKey } from '../project/project-state.ts'
import { LookedAt, plainProject, rememberPlain } from './plain-project.ts'

const BUILD = 'one'
const LIST = { index: 'index', key: 'list', read: () => Promise.resolve(undefined) }
/** Longer than what a file needs to be settled. */
const LATER_MS = 2100

let directory: string
let project: GitProject
let repo: Repository
beforeEach(async () => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-plain-')))
  project = new GitProject(directory, process.env['PATH'] ?? '').init()
  project.write('a', 'a\n')
  project.commitAll()
  repo = await openRepository(project.root, project.env)
  mkdirSync(projectDirectory(home(), projectKey(repo)), { recursive: true })
})
afterEach(() => rmSync(directory, { recursive: true }))

function home(): ReturnType<typeof homeAt> {
  return homeAt(join(directory, 'home'))
}

function remember(...paths: string[]): void {
  const looked = new LookedAt(repo.root)
  for (const path of paths) looked.add(path)
  rememberPlain(home(), repo, LIST, looked, BUILD)
}

function isStill(key = LIST.key): boolean | undefined {
  return plainProject(home(), repo, BUILD)?.isStill({ ...LIST, key })
}

test('what is remembered holds for the same build, index and list', () => {
  assert.equal(plainProject(home(), repo, BUILD), undefined)
  remember()
  const plain = plainProject(home(), repo, BUILD)
  assert.equal(plain?.isIndex('index'), true)
  assert.equal(plain?.isIndex('other'), false)
  assert.equal(isStill(), true)
  assert.equal(isStill('another'), false)
  assert.equal(plainProject(home(), repo, 'two'), undefined)
  assert.equal(plainProject(home(), repo, undefined), undefined)
})

test('a change of a file that was looked at is seen, also of one that was not there', async () => {
  await new Promise((resolve) => setTimeout(resolve, LATER_MS))
  remember('a', 'none', 'a/below')
  assert.equal(isStill(), undefined, 'what is below a file cannot be looked at')
  remember('a', 'none')
  assert.equal(isStill(), true)
  project.write('none', '')
  assert.equal(isStill(), false)
  rmSync(project.path('none'))
  assert.equal(isStill(), true)
  project.write('a', 'b\n')
  assert.equal(isStill(), false)
})

test('a file that has just changed, or is a link, is not remembered', () => {
  project.write('new', '')
  remember('new')
  assert.equal(isStill(), undefined)
  symlinkSync('a', project.path('link'))
  remember('link')
  assert.equal(isStill(), undefined)
})

test('a damaged record counts as none', () => {
  remember()
  const place = projectDirectory(home(), projectKey(repo))
  const [name = ''] = readdirSync(place)
  for (const text of ['', '{', 'null', '1', '{}']) {
    writeFileSync(join(place, name), text)
    assert.equal(isStill(), undefined)
  }
})
