/** The files of a working copy, found with its state, are those that listing it finds. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { listProject } from '../../project-files.ts'
import { openProjectState } from '../../testing/git-inside.ts'
import { GitProject } from '../../testing/git-project.ts'
import { KINDS, worktreeOf } from '../../testing/git-projects.ts'
import type { WorkingList } from './working-files.ts'

const PATH = process.env['PATH'] ?? ''

let directory: string
let project: GitProject
beforeEach(() => {
  directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-files-')))
  project = new GitProject(directory, PATH)
})
afterEach(() => rmSync(directory, { recursive: true }))

/** Undefined if the state leaves the listing to others. */
async function found(
  root = project.root,
  exclude: readonly string[] = [],
): Promise<readonly string[] | undefined> {
  const calls: (WorkingList | undefined)[] = []
  await openProjectState(root, project.env, { exclude, onListed: (list) => calls.push(list) })
  assert.equal(calls.length, 1)
  return (await calls[0]?.read())?.files
}

async function listed(root = project.root, exclude: readonly string[] = []): Promise<string[]> {
  return listProject({ directory: root, exclude, env: project.env })
}

function begun(): void {
  project.init()
  for (const name of ['a', 'b', 'dir/one', 'dir/two', 'other/three']) project.write(name, `${name}\n`)
  project.commitAll()
}

describe('the files that are found with the state', () => {
  for (const kind of KINDS)
    test(`the files that are found with the state are those that are listed where ${kind.name}`, async () => {
      kind.make(project)
      const files = await found()
      if (files !== undefined) assert.deepEqual(files, await listed())
    })

  const changes: readonly (readonly [string, () => void])[] = [
    ['nothing changed', () => undefined],
    ['a directory is renamed', () => renameSync(join(project.root, 'dir'), join(project.root, 'new'))],
    [
      'a directory is a link elsewhere now',
      () => {
        renameSync(join(project.root, 'dir'), join(directory, 'away'))
        symlinkSync(join(directory, 'away'), join(project.root, 'dir'))
      },
    ],
    [
      'a file is a directory now',
      () => {
        rmSync(join(project.root, 'a'))
        project.write('a/inner', 'x')
      },
    ],
    [
      'a file that git does not compare is gone, and another is behind a link',
      () => {
        project.git('update-index', '--assume-unchanged', 'a', 'b', 'dir/one')
        rmSync(join(project.root, 'a'))
        renameSync(join(project.root, 'dir'), join(directory, 'away'))
        symlinkSync(join(directory, 'away'), join(project.root, 'dir'))
      },
    ],
    ['part of it is checked out', () => project.git('sparse-checkout', 'set', 'dir')],
    [
      'a file is new, one is ignored, and one is intended to be added',
      () => {
        for (const name of ['.gitignore', 'x.log', 'new', 'later']) project.write(name, '*.log\n')
        project.git('add', '-N', 'later')
      },
    ],
    [
      'names are not ASCII',
      () => {
        for (const name of ['ü', 'z\u{1f600}', 'é/ß']) project.write(name, 'x')
      },
    ],
    ['there is no index', () => rmSync(join(project.root, '.git/index'))],
  ]
  for (const [name, change] of changes)
    test(`the files that are found with the state are those that are listed if ${name}`, async () => {
      begun()
      change()
      const files = await found()
      if (name === 'there is no index') assert.equal(files, undefined)
      else assert.deepEqual(files, await listed())
    })

  test('the files that are found with the state are those that are listed in a worktree', async () => {
    begun()
    const root = worktreeOf(project)
    assert.deepEqual(await found(root), await listed(root))
  })

  test('the files that are found with the state leave out what is excluded', async () => {
    begun()
    mkdirSync(join(project.root, 'state'))
    project.write('state/secret', 'x')
    const out = [join(project.root, 'state'), join(project.root, 'other')]
    assert.deepEqual(await found(project.root, out), await listed(project.root, out))
    assert.deepEqual(await found(project.root, out), ['a', 'b', 'dir/one', 'dir/two'])
  })
})
