/** Commands about runs, in a real repository, with a server that only says what a test tells it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { RunEventBodyView, RunView } from '../../api/schema/run.ts'
import type { Run } from '../../client/runs.ts'
import { isAgentPodError } from '../../core/error.ts'
import { homeAt } from '../../core/home.ts'
import { type Files, ResultStage } from '../../sync/git/testing/result-stage.ts'
import { projectKey } from '../../workbench/project/project-state.ts'
import { parseArgs } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { COMMANDS } from '../commands.ts'
import { terminalPerson } from '../output/person.ts'
import { exampleRun, runEvents, screen } from '../testing/screen.ts'

let stage: ResultStage
let runs: FakeRun[] = []
beforeEach(() => {
  stage = new ResultStage()
  runs = []
})
afterEach(() => stage[Symbol.dispose]())

/** A run that has ended; what it is asked for is written down. */
class FakeRun {
  info: RunView
  readonly calls: string[] = []
  readonly #pack: Buffer
  readonly #said: RunEventBodyView[]

  constructor(info: RunView, pack: Buffer, said: RunEventBodyView[] = []) {
    this.info = info
    this.#pack = pack
    this.#said = said
  }

  get id(): string {
    return this.info.id
  }

  async refresh(): Promise<FakeRun> {
    return this
  }

  async events(after = 0): Promise<ReturnType<typeof runEvents>> {
    return runEvents(...this.#said).filter(({ seq }) => seq > after)
  }

  async *follow(o: { readonly after?: number } = {}): AsyncGenerator<unknown> {
    yield* await this.events(o.after)
  }

  async result(): Promise<IncomingMessage> {
    return Readable.from([this.#pack]) as IncomingMessage
  }

  async send(text: string): Promise<FakeRun> {
    this.calls.push(`send ${text}`)
    this.#said.push({ type: 'note', text: 'again' })
    return this
  }

  async cancel(): Promise<FakeRun> {
    this.calls.push('cancel')
    return this
  }

  async answer(permission: string, answer: string): Promise<FakeRun> {
    this.calls.push(`${permission} ${answer}`)
    return this
  }

  async remove(): Promise<void> {
    runs = runs.filter((one) => one !== this)
  }
}

/** Newest first, as a server lists them. */
function began(differs: Partial<RunView>, files: Files, said: RunEventBodyView[] = []): FakeRun {
  stage.begin()
  stage.work(files)
  const { header, pack } = stage.result()
  const run = new FakeRun(
    exampleRun({
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
        tooLarge: [],
        leftOut: [],
        commits: [],
        submodules: [],
      },
      ...differs,
    }),
    pack,
    said,
  )
  runs.unshift(run)
  return run
}

interface Answer {
  readonly code: number
  readonly out: readonly string[]
  readonly said: readonly string[]
}

async function agentpod(...words: readonly string[]): Promise<Answer> {
  const [name = '', ...rest] = words
  const at = screen()
  const pod = {
    runs: {
      list: async (o: { readonly project?: string } = {}) =>
        runs.filter(({ info }) => o.project === undefined || info.project?.key === o.project),
      get: async (id: string) => runs.find((run) => run.id === id) as unknown as Run,
    },
  }
  const home = homeAt(join(stage.directory, 'agentpod'))
  const ctx = {
    home,
    person: terminalPerson({ home, terminal: at.terminal, isJson: rest.includes('--json') }),
    env: stage.env,
    cwd: stage.root,
    terminal: at.terminal,
    client: async () => pod,
  } as unknown as CommandContext
  const entry = COMMANDS[name]
  assert.ok(entry)
  const { command } = await entry.load()
  const code = await command.run(ctx, parseArgs(rest, command))
  return { code, out: at.out(), said: at.said() }
}

const file = (path: string): string => readFileSync(join(stage.root, path), 'utf8')

describe('agentpod runs', () => {
  test('lists them, shows one and forgets some', async () => {
    began({ id: 'runone', prompt: 'first\nline' }, { 'a.txt': '1\n' })
    began({ id: 'runtwo', agent: 'codex', outcome: 'failed' }, {}, [{ type: 'note', text: 'a note' }])
    await agentpod('branch', 'make', 'runone')
    const { out } = await agentpod('runs')
    assert.match(out[1] ?? '', /^runtwo +codex-1 +failed +\S+ +90s +\$0\.25 +- +Fix the failing test$/)
    assert.match(out[2] ?? '', /^runone +claude-1 +changed .* agentpod\/first-line-claude-1 +first line$/)
    const shown = await agentpod('runs', 'show', 'codex')
    assert.match(shown.out.join('\n'), /^state +failed$/m)
    assert.ok(shown.out.includes('note: a note'))
    await agentpod('runs', 'rm', 'runone')
    assert.deepEqual(
      runs.map(({ id }) => id),
      ['runtwo'],
    )
  })

  test('of nobody is an invitation', async () => {
    const { out, said } = await agentpod('runs')
    assert.deepEqual(out, [])
    assert.match(said[0] ?? '', /agentpod run claude/)
    await assert.rejects(agentpod('diff'), (error) => isAgentPodError(error, 'not_found'))
  })
})

describe('a run is spoken to', () => {
  test('with more to do, and what it does then is shown, and no more', async () => {
    const run = began({ id: 'runone' }, { 'a.txt': '1\n' }, [{ type: 'note', text: 'before' }])
    const { code, out, said } = await agentpod('send', 'claude', 'and', 'now', 'this')
    assert.deepEqual([code, out, run.calls], [0, ['note: again'], ['send and now this']])
    assert.ok(said.includes('branch agentpod/fix-the-failing-test-claude-1'))
  })

  test('with a stop or an answer', async () => {
    const run = began({ id: 'runone' }, {})
    await agentpod('cancel', 'runone')
    await agentpod('answer', 'runone', 'net-1', 'allow')
    assert.deepEqual(run.calls, ['cancel', 'net-1 allow'])
    await assert.rejects(agentpod('answer', 'runone', 'net-1', 'yes'), /allow or deny/)
  })

  test('not at all without a terminal to sit at', async () => {
    began({ id: 'runone' }, {})
    await assert.rejects(agentpod('attach', 'runone'), /needs a terminal/)
  })

  test('and followed to an exit code of its own', async () => {
    began({ id: 'runone', outcome: 'timed_out' }, {})
    assert.equal((await agentpod('follow')).code, 23)
  })
})

const PACKAGE = '{"scripts":{"test":"node --test"}}\n'

describe('what a run changed', () => {
  test('is shown, all of it or of some paths', async () => {
    began({ id: 'runone' }, { 'a.txt': 'one\n2\nthree\n', 'src/b.js': null, 'package.json': PACKAGE })
    const { out, said } = await agentpod('diff', 'runone')
    assert.ok(out.includes('-two') && out.includes('+2') && out.includes('deleted file mode 100644'))
    assert.ok(said.some((line) => line.includes('package.json')))
    const some = await agentpod('diff', 'src')
    assert.ok(!some.out.includes('+2') && some.out.includes('deleted file mode 100644'))
    assert.match((await agentpod('diff', '--stat')).out.join('\n'), /3 files changed/)
  })

  test('is applied to the working tree, but for what runs later', async () => {
    began({ id: 'runone' }, { 'a.txt': 'one\n2\nthree\n', 'package.json': PACKAGE })
    const check = await agentpod('apply', '--check')
    assert.deepEqual(check.out, ['would be written  a.txt'])
    assert.equal(file('a.txt'), 'one\ntwo\nthree\n')
    const { out, said } = await agentpod('apply')
    assert.deepEqual(out, ['written  a.txt'])
    assert.equal(file('a.txt'), 'one\n2\nthree\n')
    assert.ok(said.includes('  to take them too: agentpod apply runone --with-executables'))
    assert.throws(() => file('package.json'))
    await agentpod('apply', '--with-executables')
    assert.equal(file('package.json'), PACKAGE)
    assert.equal(stage.git('log', '--format=%s'), 'begin')
  })

  test('is merged, by a branch that is made where there is none', async () => {
    began({ id: 'runone' }, { 'a.txt': 'one\n2\nthree\n', 'package.json': PACKAGE })
    await agentpod('merge')
    assert.equal(file('a.txt'), 'one\n2\nthree\n')
    assert.throws(() => file('package.json'))
    assert.equal(
      stage.git('log', '-1', '--format=%s'),
      "Merge branch 'agentpod/fix-the-failing-test-claude-1'",
    )
    assert.equal(stage.git('status', '--porcelain'), '')
    await agentpod('merge', '--with-executables')
    assert.equal(file('package.json'), PACKAGE)
  })

  test('is one commit of the user’s with --squash', async () => {
    began({ id: 'runone' }, { 'a.txt': 'one\n2\nthree\n' })
    await agentpod('merge', '--squash')
    assert.equal(stage.git('log', '--format=%s'), 'Fix the failing test\nbegin')
    assert.match(stage.git('log', '-1', '--format=%B'), /AgentPod-Run: runone/)
  })

  test('is nothing to merge where there is nothing', async () => {
    began({ id: 'runone', outcome: 'unchanged' }, {})
    await assert.rejects(agentpod('merge'), /nothing to merge/)
    assert.match((await agentpod('diff')).said[0] ?? '', /changed nothing/)
  })
})

describe('branches', () => {
  test('are listed, and cleaned up when they are merged', async () => {
    began({ id: 'runone' }, { 'a.txt': 'one\n2\nthree\n' })
    began({ id: 'runtwo', agent: 'codex' }, { 'c.txt': 'c\n' })
    await agentpod('branch', 'make', 'runone')
    await agentpod('branch', 'make', 'runtwo')
    await agentpod('merge', 'runone')
    const { out } = await agentpod('branch', 'list')
    assert.match(out.join('\n'), /claude-1 .* yes /)
    assert.match(out.join('\n'), /codex-1 .* no /)
    await agentpod('branch', 'clean')
    assert.equal(stage.git('branch', '--list', 'agentpod/*').trim(), 'agentpod/fix-the-failing-test-codex-1')
    await agentpod('branch', 'clean', '--all')
    assert.equal(stage.git('branch', '--list', 'agentpod/*'), '')
  })

  test('with a bad name are refused', async () => {
    began({ id: 'runone' }, { 'a.txt': '1\n' })
    await assert.rejects(agentpod('branch', 'make', '--name', '-x'), /not a valid branch name/)
  })
})

describe('runs that were started together', () => {
  beforeEach(() => {
    const group = 'group-1'
    began({ id: 'runone', group, denials: 2 }, { 'a.txt': 'one\n2\nthree\n' })
    began({ id: 'runtwo', group, agent: 'codex' }, { 'a.txt': 'one\nzwei\nthree\n', 'c.txt': 'c\n' })
  })

  test('are compared', async () => {
    const { out } = await agentpod('compare', '--no-tests')
    assert.deepEqual(
      out.map((line) => line.replaceAll(/ {2,}/g, '|')),
      [
        'RUN|AGENT|OUTCOME|TESTS|FILES|LINES|TIME|TOKENS|COST|DENIALS',
        'runone|claude-1|changed|none|1|+1 −1|90s|1,580|$0.25|2',
        'runtwo|codex-1|changed|none|2|+2 −1|90s|1,580|$0.25|0',
      ],
    )
  })

  test('and one is picked: it is merged, and the branches of the others go', async () => {
    await agentpod('branch', 'make', 'runone')
    await agentpod('branch', 'make', 'runtwo')
    await agentpod('compare', '--pick', 'codex')
    assert.equal(file('c.txt'), 'c\n')
    assert.equal(stage.git('branch', '--list', 'agentpod/*').trim(), 'agentpod/fix-the-failing-test-codex-1')
  })
})
