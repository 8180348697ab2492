/**
 * All the way: a user's working copy goes in, an agent works on it, and a branch comes out, by real git on
 * both sides.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { Inside, openProjectState } from '../testing/git-inside.ts'
import { GitProject } from '../testing/git-project.ts'
import { KINDS } from '../testing/git-projects.ts'
import { makeBranch } from './branch/make-branch.ts'
import type { Repository } from './plumbing/repository.ts'
import { type Received, receiveResult } from './result/receive.ts'
import { parseResultHeader, type ResultHeader } from './result/result-header.ts'
import { LARGEST_RESULT_FILE, resultScript } from './result/result-script.ts'
import type { ProjectState } from './state/project-state.ts'

const PATH = process.env['PATH'] ?? ''

let directory: string
let project: GitProject
let inside: Inside
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-round-'))
  project = new GitProject(directory, PATH)
  inside = new Inside(directory, PATH)
})
afterEach(() => rmSync(directory, { recursive: true }))

function result(state: ProjectState): { readonly header: ResultHeader; readonly pack: Buffer } {
  const { workspace, stash } = inside
  const { tree, commit } = state
  const { command, args } = resultScript({
    workspace,
    stash,
    tree,
    commit,
    aside: [],
    largestBytes: LARGEST_RESULT_FILE,
  })
  const env = { PATH, HOME: join(directory, 'inside') }
  const { status, stdout, stderr } = spawnSync(command, args, { env, maxBuffer: 2 ** 28 })
  const parsed = parseResultHeader(stdout)
  assert.ok(status === 0 && parsed, stderr.toString('utf8'))
  return { header: parsed.header, pack: stdout.subarray(parsed.packAt) }
}

function received(
  repo: Repository,
  state: ProjectState,
  { header, pack }: ReturnType<typeof result>,
): Promise<Received> {
  return receiveResult(repo, {
    tree: state.tree,
    commit: state.commit,
    expected: header.tree,
    pack: Readable.from([pack]),
    scratch: mkdtempSync(join(directory, 'scratch-')),
    alsoObjects: [join(state.scratch, 'objects')],
  })
}

describe('a working copy comes back unchanged, with a new file', () => {
  for (const kind of KINDS)
    test(`a working copy comes back unchanged, with a new file: ${kind.name}`, async () => {
      kind.make(project)
      const { repository, state } = await openProjectState(project.root, project.env)
      await inside.prepare(repository, state)
      const same = result(state)
      assert.deepEqual(
        { ...same.header, tree: same.header.tree === state.tree },
        { tree: true, commits: [], tooLarge: [], leftOut: [], submodules: [] },
      )
      assert.deepEqual((await received(repository, state, same)).changes, [])

      writeFileSync(join(inside.workspace, 'by-the-agent.txt'), 'a\nb\n')
      const back = await received(repository, state, result(state))
      assert.deepEqual(back.changes, [
        { path: 'by-the-agent.txt', kind: 'added', mode: '100644', added: 2, removed: 0 },
      ])
      const o = { name: 'agentpod/x-1', message: 'm', coAuthor: undefined, withGated: false, now: 0 }
      const branch = await makeBranch(repository, back, o)
      assert.equal(project.git('show', 'agentpod/x-1:by-the-agent.txt'), 'a\nb')
      assert.equal(project.git('rev-parse', 'agentpod/x-1^{tree}'), back.tree)
      assert.equal(project.git('diff', '--name-only', state.tree, branch?.tree ?? ''), 'by-the-agent.txt')
    })
})

test('submodules, nested ones too, are kept as they are and listed if they changed', async () => {
  const inner = new GitProject(directory, PATH, 'inner').init()
  inner.write('i')
  inner.commitAll()
  const outer = new GitProject(directory, PATH, 'outer').init()
  outer.write('o')
  outer.commitAll()
  const add = ['-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add']
  outer.git(...add, inner.root, 'inner')
  outer.commitAll()
  project.init()
  project.write('a')
  project.commitAll()
  project.git(...add, outer.root, 'lib/outer')
  project.git(...add, inner.root, 'other')
  project.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'update', '--init', '--recursive')
  project.commitAll()
  const { repository, state } = await openProjectState(project.root, project.env)
  assert.equal(state.submodules.length, 3)
  await inside.prepare(repository, state)
  assert.deepEqual(result(state).header, {
    tree: state.tree,
    commits: [],
    tooLarge: [],
    leftOut: [],
    submodules: [],
  })

  mkdirSync(join(inside.workspace, 'lib/outer/inner/new'))
  writeFileSync(join(inside.workspace, 'lib/outer/inner/new/file'), 'x')
  writeFileSync(join(inside.workspace, 'other/i'), 'changed')
  writeFileSync(join(inside.workspace, 'a'), 'changed')
  const { header, pack } = result(state)
  assert.deepEqual(header.submodules, ['lib/outer/inner', 'other'])
  assert.deepEqual(
    (await received(repository, state, { header, pack })).changes.map(({ path }) => path),
    ['a'],
  )
})
