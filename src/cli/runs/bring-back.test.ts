/** From a result that a real git has made to a branch in a real repository, as a person sees it. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { RunEventBodyView } from '../../api/schema/run.ts'
import { isAgentPodError } from '../../core/error.ts'
import { homeAt } from '../../core/home.ts'
import { ResultStage } from '../../sync/git/testing/result-stage.ts'
import { projectDirectory, projectKey } from '../../workbench/project/project-state.ts'
import { runBranches } from '../../workbench/result/list-run-branches.ts'
import type { BroughtBack, EndedRun } from '../../workbench/result/run-branch.ts'
import type { CommandContext } from '../command.ts'
import { terminalPerson } from '../output/person.ts'
import { exampleRun, runEvents, type Screen, screen } from '../testing/screen.ts'
import { bringBack, type ShowOptions } from './bring-back.ts'

let stage: ResultStage
beforeEach(() => {
  stage = new ResultStage()
})
afterEach(() => stage[Symbol.dispose]())

const SAID: readonly RunEventBodyView[] = [
  { type: 'message', from: 'agent', message: 'm1', text: 'I look.' },
  { type: 'message', from: 'agent', message: 'm2', text: 'Fixed ' },
  { type: 'message', from: 'agent', message: 'm2', text: 'it.\nAgentPod-Run: other' },
]

/** What the agent did until now, as a run that has ended. */
function ended(differs: Partial<EndedRun['info']> = {}, said = SAID): EndedRun {
  const { header, pack } = stage.result()
  const info = exampleRun({
    project: {
      workspace: '/home/user/project',
      name: 'project',
      key: projectKey({ commonDir: join(stage.root, '.git') }),
      commit: stage.commit,
      tree: stage.tree,
    },
    result: {
      tree: header.tree,
      packBytes: pack.length,
      tooLarge: [...header.tooLarge],
      leftOut: [...header.leftOut],
      commits: [...header.commits],
      submodules: [...header.submodules],
    },
    ...differs,
  })
  return {
    id: info.id,
    info,
    events: async (after = 0) => runEvents(...said).filter(({ seq }) => seq > after),
    result: async () => Readable.from([pack]) as IncomingMessage,
  }
}

interface Brought {
  readonly back: BroughtBack
  readonly at: Screen
}

async function brought(run: EndedRun, o: Partial<ShowOptions> = {}, at = screen()): Promise<Brought> {
  const { terminal } = at
  const home = homeAt(join(stage.directory, 'agentpod'))
  const person = terminalPerson({ home, terminal, isJson: o.isJson })
  const ctx = { home, terminal, person } as unknown as CommandContext
  return { back: await bringBack(ctx, await stage.repository(), run, { withGated: 'ask', ...o }), at }
}

const PACKAGE = '{"scripts":{"test":"node --test"}}\n'

describe('a run is brought back', () => {
  test('as a branch whose commit says what was asked, what was done and by whom', async () => {
    stage.work({ 'a.txt': 'one\n2\nthree\n', 'new.txt': 'n\n' })
    const before = stage.fingerprint()
    const { back, at } = await brought(ended())
    assert.equal(back.branch, 'agentpod/fix-the-failing-test-claude-1')
    assert.equal(
      stage.git('log', '-1', '--format=%an%n%B', back.branch).trimEnd(),
      [
        'Some One',
        'Fix the failing test',
        '',
        'Fixed it.',
        'AgentPod-Run: other',
        '',
        'Co-authored-by: Claude <noreply@anthropic.com>',
        'AgentPod-Run: runabcdefghijkl',
        `AgentPod-Result: ${stage.git('rev-parse', `${back.branch}^{tree}`)}`,
      ].join('\n'),
    )
    assert.deepEqual(at.said(), [
      '',
      'claude-1 changed · 2 files +2 −1 · 90s · 1.6k tokens · $0.25',
      '  modified     a.txt    +1 −1',
      '  added        new.txt  +1 −0',
      'branch agentpod/fix-the-failing-test-claude-1',
      '  show the changes        agentpod diff runabcdefghijkl',
      '  into your working tree  agentpod apply runabcdefghijkl',
      '  into your branch        agentpod merge runabcdefghijkl',
    ])
    stage.git('branch', '-D', back.branch)
    assert.equal(stage.fingerprint(), before)
    const kept = projectDirectory(
      homeAt(join(stage.directory, 'agentpod')),
      projectKey({ commonDir: join(stage.root, '.git') }),
    )
    assert.deepEqual(readdirSync(kept), [])
  })

  test('once, however often it is asked for, unless another is wanted', async () => {
    stage.work({ 'a.txt': 'x' })
    const run = ended()
    const first = await brought(run)
    stage.git('branch', '-m', first.back.branch ?? '', 'agentpod/renamed')
    const second = await brought(run)
    assert.deepEqual([second.back.branch, second.back.isOld], ['agentpod/renamed', true])
    const third = await brought(run, { isAgain: true })
    assert.equal(third.back.branch, 'agentpod/fix-the-failing-test-claude-1')
    stage.work({ 'a.txt': 'more, after a follow-up' })
    const fourth = await brought(ended({ turn: 2 }))
    assert.equal(fourth.back.branch, 'agentpod/fix-the-failing-test-claude-1-turn-2')
    assert.equal(
      stage.git('rev-parse', `${fourth.back.branch}~1`),
      stage.git('rev-parse', 'agentpod/fix-the-failing-test-claude-1'),
      'a turn is a commit on the one before',
    )
    const fifth = await brought(ended({ turn: 2 }), { isAgain: true })
    assert.equal(fifth.back.branch, 'agentpod/fix-the-failing-test-claude-1-turn-2-v2')
    stage.git('branch', '-D', fifth.back.branch ?? '')
    const found = await runBranches(await stage.repository(), 'agentpod/')
    assert.deepEqual(
      found.map(({ name, run: id }) => `${name} ${id}`).sort(),
      ['fix-the-failing-test-claude-1', 'fix-the-failing-test-claude-1-turn-2', 'renamed'].map(
        (name) => `agentpod/${name} runabcdefghijkl`,
      ),
    )
  })

  test('not at all where nothing changed', async () => {
    const { back, at } = await brought(ended({ outcome: 'unchanged' }))
    assert.equal(back.branch, undefined)
    assert.deepEqual(at.said(), ['', 'claude-1 unchanged · 90s · 1.6k tokens · $0.25'])
    assert.equal(stage.git('branch', '--list', 'agentpod/*'), '')
  })

  test('not into another repository', async () => {
    stage.work({ 'a.txt': 'x' })
    const run = ended()
    const project = { ...run.info.project, key: '0'.repeat(64) } as NonNullable<EndedRun['info']['project']>
    await assert.rejects(
      brought({ ...run, info: { ...run.info, project } }),
      (error) => isAgentPodError(error) && error.reason === 'run.elsewhere',
    )
  })

  test('by a name of its own, or by another template', async () => {
    stage.work({ 'a.txt': 'x' })
    assert.equal((await brought(ended(), { name: 'mine', isAgain: true })).back.branch, 'mine')
    const { back } = await brought(ended(), { template: 'agents/{agent}/{n}', isAgain: true })
    assert.equal(back.branch, 'agents/claude/1')
  })

  test('for programs as one line of JSON', async () => {
    stage.work({ 'a.txt': 'x', 'package.json': PACKAGE })
    const { at } = await brought(ended(), { isJson: true })
    const [line = ''] = at.out()
    const { run, result } = JSON.parse(line) as { run: string; result: Record<string, unknown> }
    assert.equal(run, 'runabcdefghijkl')
    assert.deepEqual(
      [result['outcome'], result['branch'], result['isNew'], result['leftOut']],
      ['changed', 'agentpod/fix-the-failing-test-claude-1', true, ['package.json']],
    )
    assert.deepEqual(at.said(), [])
  })
})

describe('GT-14: files that run later on this machine', () => {
  test('are left out where nobody can be asked, with the way to have them', async () => {
    stage.work({ 'a.txt': 'x', 'package.json': PACKAGE })
    const { back, at } = await brought(ended())
    assert.deepEqual(
      back.leftOut.map(({ path }) => path),
      ['package.json'],
    )
    assert.equal(stage.git('diff', '--name-only', 'main', back.branch ?? ''), 'a.txt')
    const said = at.said()
    assert.ok(said.includes('left out, because they would run later on this machine:'))
    assert.ok(said.includes('  to take them too: agentpod branch make runabcdefghijkl --with-executables'))
  })

  for (const [answer, files] of [
    ['y', 'a.txt\npackage.json'],
    ['', 'a.txt'],
    ['n', 'a.txt'],
  ] as const)
    test(`are asked about at a terminal: ${answer || 'nothing'}`, async () => {
      stage.work({ 'a.txt': 'x', 'package.json': PACKAGE })
      const at = screen({ isTerminal: true })
      at.type(`${answer}\n`)
      const { back } = await brought(ended(), {}, at)
      assert.equal(stage.git('diff', '--name-only', 'main', back.branch ?? ''), files)
      assert.ok(at.said().some((line) => line.includes('include them? [y]es, [N]o, [e]ach:')))
    })

  test('are taken where it was said so, and leave no branch where they are all there is', async () => {
    stage.work({ 'package.json': PACKAGE })
    const run = ended()
    const without = await brought(run, { withGated: false })
    assert.equal(without.back.branch, undefined)
    assert.ok(without.at.said().includes('no branch: every changed file was left out'))
    const { back } = await brought(run, { withGated: true })
    assert.equal(stage.git('diff', '--name-only', 'main', back.branch ?? ''), 'package.json')
  })
})

test('SECURITY: a result that is larger than the server said, or another one, is refused', async () => {
  stage.work({ 'a.txt': 'x' })
  const run = ended()
  const result = run.info.result
  assert.ok(result)
  const before = stage.fingerprint()
  const lies = [
    { ...result, packBytes: result.packBytes - 1 },
    { ...result, tree: stage.git('rev-parse', 'HEAD') },
  ]
  for (const lie of lies) await assert.rejects(brought({ ...run, info: { ...run.info, result: lie } }))
  assert.equal(stage.fingerprint(), before)
})
