/**
 * A user with a repository and the agent of `test/fixtures/acp-agent.mjs`, which executes its prompt line by
 * line.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RunEventInfo, RunOptions } from '../../src/client/runs.ts'
import { GitProject } from '../../src/sync/testing/git-project.ts'
import { jsonLines, User } from './agent-runs.ts'
import type { CliOptions, CliResult, World } from './world.ts'

const SCRIPT = readFileSync(join(import.meta.dirname, '..', 'fixtures', 'acp-agent.mjs'), 'utf8')
export const AGENT = ['--agent', 'acp', '--agent-command', 'exec node tools/agent.mjs'] as const

/** What `agentpod run --json` says of the result. */
export interface ResultLine {
  readonly outcome: string
  readonly reason: string | null
  readonly branch: string | null
  readonly changes: readonly { readonly path: string }[]
  readonly gated: readonly { readonly path: string; readonly kind: string }[]
  readonly leftOut: readonly string[]
  readonly tooLarge: readonly { readonly path: string; readonly sizeBytes: number }[]
  readonly notes: readonly string[]
  readonly denials: number
}

export interface Worked extends CliResult {
  readonly events: readonly (RunEventInfo & { readonly run: string })[]
  readonly result: ResultLine
  readonly id: string
}

export class AcpUser extends User {
  /** A repository with the agent and a file in it. */
  static with(world: World, name?: string, env: Readonly<Record<string, string>> = {}): AcpUser {
    const project = new GitProject(world.directory(), process.env['PATH'] ?? '', name).init()
    project.write('tools/agent.mjs', SCRIPT)
    project.write('a.txt', 'one\n')
    project.commitAll('begin')
    return new AcpUser(world, project, env)
  }

  /** To its end, with everything that was told on the way. */
  async work(prompt: string, options: readonly string[] = AGENT, o: CliOptions = {}): Promise<Worked> {
    const answer = await this.cli(['run', ...options, '--json', '--', prompt], o)
    return worked(answer)
  }
}

export function worked(answer: CliResult): Worked {
  const lines = jsonLines<{ run: string; result?: ResultLine }>(answer.stdout)
  const last = lines.findLast(({ result }) => result !== undefined)
  assert.ok(last?.result, `it gave ${answer.code} and no result: ${answer.stderr}`)
  const events = lines.filter(({ result }) => result === undefined)
  return { ...answer, events: events as unknown as Worked['events'], result: last.result, id: last.run }
}

/** A run without a project: nothing is copied and nothing comes back. For what the API says. */
export function bareRun(prompt: string, more: Partial<RunOptions> = {}): RunOptions {
  return {
    agent: 'acp',
    prompt,
    files: [{ path: 'agent.mjs', content: SCRIPT }],
    command: ['/bin/sh', '-c', 'exec node ~/agent.mjs'],
    ...more,
  }
}

type Told = { readonly body: RunEventInfo['body'] }

/** What the agent said, all of it. */
export function saidIn(events: readonly Told[]): string {
  return events
    .map(({ body }) => (body.type === 'message' && body.from === 'agent' ? body.text : ''))
    .join('')
}

export function statesIn(events: readonly Told[]): string[] {
  return events.flatMap(({ body }) => (body.type === 'state' ? [body.state] : []))
}

export function bodiesOf<T extends RunEventInfo['body']['type']>(
  events: readonly Told[],
  type: T,
): Extract<RunEventInfo['body'], { type: T }>[] {
  return events.flatMap(({ body }) =>
    body.type === type ? [body as Extract<RunEventInfo['body'], { type: T }>] : [],
  )
}

/** Numbers only go up: no event comes twice, and none out of its order. */
export function assertInOrder(events: readonly { readonly seq: number }[]): void {
  const numbers = events.map(({ seq }) => seq)
  assert.deepEqual(
    numbers,
    [...new Set(numbers)].sort((a, b) => a - b),
  )
}
