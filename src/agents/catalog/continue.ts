/** Continue's `cn`, which prints its answer at the end and nothing before. */
import { stringAt } from '../../util/untrusted-json.ts'
import type { Agent } from '../agent.ts'
import type { Assignment, Launch } from '../assignment.ts'
import { ANTHROPIC, OPENAI } from '../credentials.ts'
import { endByExit, lineDriver } from '../drivers/json-lines.ts'
import { clip, LONGEST_ERROR, LONGEST_TEXT } from '../drivers/output/clip.ts'
import { BUILD_NODE } from '../install.ts'

const PROGRAM = 'node_modules/@continuedev/cli/dist/cn.js'
const CONFIG = '.continue/agentpod.yaml'
/** It can resume only the last conversation; its sandbox has only one. */
const LAST = 'last'

interface ContinueState {
  readonly answers: number
  readonly failure: string | undefined
}

export const continueCli: Agent = {
  name: 'continue',
  aliases: ['cn'],
  title: 'Continue',
  coAuthor: { name: 'Continue', email: 'noreply@continue.dev' },
  chatter: ['api.continue.dev'],
  install: { kind: 'npm', node: BUILD_NODE, packages: ['@continuedev/cli@1.5.47'] },
  credentials: [ANTHROPIC, OPENAI],
  driver: lineDriver<ContinueState>({
    start: { answers: 0, failure: undefined },
    read(own, message) {
      const status = stringAt(message, 'status')
      const text = stringAt(message, 'response')
      if (status === undefined && text === undefined) return { own }
      const answers = own.answers + 1
      const isFailed = status !== undefined && status !== 'success'
      const failure = isFailed
        ? clip(stringAt(message, 'message') ?? text ?? status, LONGEST_ERROR)
        : undefined
      return {
        own: { answers, failure },
        events: text
          ? [{ type: 'message', from: 'agent', message: `m${answers}`, text: clip(text, LONGEST_TEXT) }]
          : [],
        session: LAST,
      }
    },
    end: ({ failure }, exitCode) =>
      failure === undefined ? endByExit(exitCode) : { how: 'failed', message: failure },
  }),
  canAsk: false,
  canResume: true,
  takesMcp: true,
  launch: (assignment) => launch(assignment, ['-p', '--format', 'json'], [assignment.prompt]),
  interactive: (assignment) => launch(assignment, [], []),
}

function launch(assignment: Assignment, first: readonly string[], last: readonly string[]): Launch {
  const { directory, home, session } = assignment
  return {
    command: [
      `${directory}/node/bin/node`,
      `${directory}/${PROGRAM}`,
      ...first,
      '--auto',
      '--config',
      `${home}/${CONFIG}`,
      ...(session === undefined ? [] : ['--resume']),
      ...last,
    ],
    variables: { CONTINUE_TELEMETRY_ENABLED: '0', CONTINUE_METRICS_ENABLED: '0' },
    // JSON is valid YAML.
    files: [{ path: CONFIG, content: `${JSON.stringify(configOf(assignment), null, 2)}\n` }],
  }
}

function configOf({ credential, model, baseUrl, mcpServers }: Assignment): unknown {
  const isAnthropic = credential.variable === ANTHROPIC.variable
  const name = model ?? (isAnthropic ? 'claude-sonnet-4-5' : 'gpt-5.5')
  const place = baseUrl.replace(/\/+$/, '')
  return {
    name: 'agentpod',
    version: '1.0.0',
    schema: 'v1',
    models: [
      {
        name,
        provider: isAnthropic ? 'anthropic' : 'openai',
        model: name,
        apiBase: isAnthropic && !place.endsWith('/v1') ? `${place}/v1` : place,
        apiKey: `\${{ secrets.${credential.variable} }}`,
        roles: ['chat', 'edit', 'apply'],
        capabilities: ['tool_use'],
      },
    ],
    ...(mcpServers.length > 0 && {
      mcpServers: mcpServers.map(({ name: server, command, args, env }) => ({
        name: server,
        command,
        args,
        env,
      })),
    }),
  }
}
