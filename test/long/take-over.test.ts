/**
 * `agentpod attach RUN` with the real programs: a person continues a conversation on the agent's own terminal
 * in the sandbox, has it do something more, and leaves.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { agentNamed } from '../../src/agents/agents.ts'
import { EDIT_CONTENT } from '../model/scenarios/edit.ts'
import { saidIn, worked } from '../support/acp-user.ts'
import { brokenProject, buildAgents, payingWith, User, withoutPackages } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { assertNoToken, newToken } from '../support/canary.ts'
import { noInternet } from '../support/internet.ts'
import { ROOT, until } from '../support/world.ts'

type Step =
  | { readonly see: string; readonly within?: number }
  | { readonly type: string }
  | { readonly quiet: number }
  | { readonly close: true }

/** What `drive-terminal.py` says. */
interface Driven {
  readonly code: number
  readonly stuck: string | null
  readonly screen: string
  readonly shown: string
  readonly isOrdinary: boolean
}

/** How a person gets along with a program. */
interface Manners {
  /** Its question before it writes a file, and the answer. Left out where it does not ask. */
  readonly asks?: readonly [question: string, answer: string]
  /**
   * For agents that the scripted model cannot make write a file: the screen when the conversation is known,
   * the action instead, and its output when it continues.
   */
  readonly own?: { readonly recalls: string; readonly work: readonly Step[]; readonly goesOn: RegExp }
  readonly leave: readonly Step[]
}

const WORD = 'pomegranate'
const FILE = 'taken-over.txt'
const KEY = newToken()
const RUN_MS = 240_000
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
const CTRL_C = '\u0003'

/** A moment passes before the return key, which would be a part of a paste otherwise. */
const entered = (line: string): Step[] => [{ type: line }, { quiet: 0.5 }, { type: '\r' }]
const interrupted = (hint: string): Step[] => [{ type: CTRL_C }, { see: hint }, { type: CTRL_C }]
/** Where there is no hint between the two: as fast as a person does it. */
const interruptedTwice: Step[] = [{ type: CTRL_C }, { quiet: 0.3 }, { type: CTRL_C }]

const MANNERS: Readonly<Record<string, Manners>> = {
  claude: { asks: ['Do you want to create', '\r'], leave: interrupted('again to exit') },
  // On a terminal it has no way to ask about everything, as `src/agents/catalog/codex.ts` says.
  codex: { leave: entered('/quit') },
  opencode: { asks: ['Permission required', '\r'], leave: entered('/exit') },
  gemini: { asks: ['Apply this change', '\r'], leave: entered('/quit') },
  qwen: { asks: ['Apply this change', '\r'], leave: interrupted('again to exit') },
  copilot: { asks: ['Do you want to create', '\r'], leave: entered('/exit') },
  pi: { leave: interruptedTwice },
  cline: { asks: ['Approve tool call', 'y'], leave: interruptedTwice },
  continue: { leave: entered('/exit') },
  // Its models write changes as text, which the scripted model does not; it does not show earlier messages,
  // but sends them to the model.
  aider: {
    own: {
      recalls: 'Restored previous conversation history',
      work: [
        ...entered('[[followup]] what did I ask?'),
        { see: 'Before this you asked', within: 60 },
        { quiet: 1 },
        ...entered(`/run echo ${EDIT_CONTENT.trimEnd()} > ${FILE}`),
        { see: 'command output to the chat' },
        ...entered('n'),
        { quiet: 1 },
      ],
      goesOn: /Restored previous conversation history/,
    },
    leave: entered('/exit'),
  },
}

/** For working on one of them: `AGENTS=claude,codex`. */
const only = process.env['AGENTS']?.split(',')
const NAMES = Object.keys(MANNERS).filter((name) => !only || only.includes(name))

const skip = noInternet()
const missing = await withoutPackages(skip ? [] : NAMES)

let stage: AgentStage
let user: User
let notBuilt: ReadonlyMap<string, string>

before(async () => {
  if (skip) return
  stage = await AgentStage.open({ keys: [KEY] })
  const project = brokenProject(stage.directory())
  notBuilt = await buildAgents(
    stage.outside,
    project,
    NAMES.filter((name) => !missing.has(name)),
  )
  user = new User(await stage.close(), project, payingWith(KEY))
})
after(async () => {
  if (!skip) await stage[Symbol.asyncDispose]()
})

/** `agentpod attach`, on a terminal, with the person's keys in the environment as they always are. */
async function attach(run: string, steps: readonly Step[]): Promise<Driven> {
  const { project } = user
  const script = join(ROOT, 'test/support/drive-terminal.py')
  const [program = '', ...words] = [...stage.internet.onMachine, '/usr/bin/python3', script]
  const child = spawn(program, [...words, join(ROOT, 'agentpod'), 'attach', run], {
    cwd: project.root,
    env: {
      ...process.env,
      ...payingWith(KEY),
      SSL_CERT_FILE: BUNDLE,
      AGENTPOD_HOME: stage.home,
      HOME: project.home,
      TERM: 'xterm-256color',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(steps))
  const driven = JSON.parse(await text(child.stdout)) as Driven
  assert.equal(driven.stuck, null, driven.shown)
  return driven
}

/** Has the model write a file. */
function written(asks: Manners['asks']): Step[] {
  const [question, answer = ''] = asks ?? []
  return [
    ...entered(`[[edit ${FILE}]] write it down`),
    ...(question === undefined ? [] : [{ see: question, within: 60 }, { quiet: 1 }, { type: answer }]),
    { see: `I wrote ${FILE}`, within: 60 },
    { quiet: 1 },
  ]
}

for (const name of NAMES) {
  const { asks, own, leave } = MANNERS[name] ?? assert.fail()
  describe(agentNamed(name).title, { skip: skip || (missing.get(name) ?? false) }, () => {
    test(`RUN-22 ${agentNamed(name).title} is taken over on its own terminal, and continues with what was said there`, async () => {
      assert.equal(notBuilt.get(name), undefined)
      const prompt = `[[nothing]] remember the ${WORD}`
      const asked = ['run', '--agent', name, '--time', '3m', '--json', '--', prompt]
      const first = worked(await user.cli(asked, { timeoutMs: RUN_MS }))
      assert.equal(first.result.outcome, 'unchanged', first.result.reason ?? '')
      const [before] = (await user.runs()).filter(({ id }) => id === first.id)
      stage.model.forget()

      // What was said before is there with no question in the way of the next prompt.
      const driven = await attach(first.id, [
        { see: own?.recalls ?? WORD, within: 60 },
        { quiet: 1 },
        ...(own?.work ?? written(asks)),
        ...leave,
      ])
      assert.equal(driven.code, 0, driven.shown)
      assert.ok(driven.isOrdinary, 'the terminal is as it was')
      assert.match(driven.shown, /✓ changed/)
      assert.doesNotMatch(driven.shown, /refused:/, 'nobody is told of what it asks for by itself')

      const [run] = (await user.runs()).filter(({ id }) => id === first.id)
      const branch = run?.branch ?? ''
      assert.deepEqual(user.changed(branch), [FILE])
      assert.equal(user.project.git('show', `${branch}:${FILE}`), EDIT_CONTENT.trimEnd())

      const { conversations, requests } = stage.model
      const counted = (run?.usage.requests ?? 0) - (before?.usage.requests ?? 0)
      assert.ok(counted > 0 && counted <= conversations.length, 'what the person used is counted')
      const scenario = own ? 'followup' : 'edit'
      assert.ok(conversations.some((one) => one.scenario === scenario && one.body.includes(WORD)))
      assert.deepEqual([...new Set(conversations.map(({ key }) => key))], ['right'])
      assert.ok(!requests.some(({ keyInBody }) => keyInBody))
      assertNoToken(driven.screen, KEY, 'what was on the terminal')

      // Once more, since some of them leave their records in another state than they found them in.
      const recalled = { see: own?.recalls ?? `I wrote ${FILE}`, within: 60 }
      const again = await attach(first.id, [recalled, { quiet: 1 }, ...leave])
      assert.equal(again.code, 0, again.shown)
      assert.ok(again.isOrdinary, 'the terminal is as it was')

      const words = ['send', '--json', first.id, '[[followup]] what did I ask?']
      const next = worked(await user.cli(words, { timeoutMs: RUN_MS }))
      assert.match(
        saidIn(next.events),
        own?.goesOn ?? /Before this you asked: .*\[\[edit taken-over\.txt\]\]/,
      )
      assert.deepEqual(user.changed(next.result.branch ?? ''), [FILE])
    })
  })
}

describe('taking over', { skip }, () => {
  /** Without a terminal of its own, so that it is a shell, and without a model. */
  async function ended(): Promise<string> {
    const words = ['run', '--agent', 'custom', '--agent-command', 'true', '--json', '--', 'nothing']
    const { id, result } = worked(await user.cli(words, { timeoutMs: RUN_MS }))
    assert.equal(result.outcome, 'unchanged', result.reason ?? '')
    return id
  }

  test('RUN-22 a closed terminal ends a takeover, and the changes are taken', async () => {
    const id = await ended()
    const { code } = await attach(id, [
      { see: 'project\\$' },
      ...entered('echo x > closed.txt; echo do""ne'),
      { see: 'done' },
      { close: true },
    ])
    assert.equal(code, 129)
    const outcome = async () => (await user.world.client().runs.get(id)).info.outcome
    await until('it is taken', async () => (await outcome()) === 'changed', 30_000)
  })

  test('a takeover whose program is killed leaves the terminal as it was', async () => {
    const { code, isOrdinary } = await attach(await ended(), [
      { see: 'project\\$' },
      ...entered(
        "printf '\\033[?1049h\\033[?1003h\\033[?1006h\\033[?2004h\\033[?25l\\033[>1u'; touch killed.txt; kill -9 $$",
      ),
    ])
    assert.equal(code, 0)
    assert.ok(isOrdinary)
  })
})
