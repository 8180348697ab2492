/** aider, which prints text for people. It edits the files it is given and runs no commands. */
import type { Agent } from '../agent.ts'
import type { Assignment, Launch } from '../assignment.ts'
import { ANTHROPIC, OPENAI } from '../credentials.ts'
import { endByExit, lineDriver, type Reading } from '../drivers/json-lines.ts'
import { clip, LONGEST_ERROR, LONGEST_TEXT } from '../drivers/output/clip.ts'

/** aider resumes its last conversation; its sandbox has only one. */
const LAST = 'last'
const HISTORY = '.aider-history.md'
/**
 * aider downloads this file again if it is a day old, as files written into a sandbox are, and prints an
 * error if it cannot.
 */
const PRICES = '.aider/caches/model_prices_and_context_window.json'

/** Plain JSON, because it is the driver's state. */
interface AiderState {
  readonly lines: number
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly costUsd: number | undefined
  /** The last error, until the model answers. */
  readonly failure: string | undefined
}

export const aider: Agent = {
  name: 'aider',
  title: 'aider',
  coAuthor: { name: 'aider', email: 'noreply@aider.chat' },
  chatter: ['raw.githubusercontent.com', 'openrouter.ai', 'pypi.org'],
  install: { kind: 'pip', packages: ['aider-chat==0.86.2'] },
  credentials: [ANTHROPIC, OPENAI],
  driver: lineDriver<AiderState>({
    start: { lines: 0, input: 0, cached: 0, output: 0, costUsd: undefined, failure: undefined },
    read: (own, _, line) => read(own, line),
    end: ({ failure }, exitCode) =>
      failure === undefined ? endByExit(exitCode) : { how: 'failed', message: failure },
  }),
  canAsk: false,
  canResume: true,
  takesMcp: false,
  launch(assignment) {
    const words = ['--yes-always', '--no-pretty', '--no-stream', '--message', assignment.prompt]
    const own = launch(assignment, words)
    // Lines are not wrapped at the terminal's width.
    return { ...own, variables: { ...own.variables, COLUMNS: '2000' } }
  },
  interactive: (assignment) => launch(assignment, []),
}

function read(own: AiderState, line: string): Reading<AiderState> {
  const text = line.trimEnd()
  const counted = countsIn(text)
  if (counted) {
    const used = {
      input: own.input + counted.input,
      cached: own.cached + counted.cached,
      output: own.output + counted.output,
      costUsd: counted.costUsd ?? own.costUsd,
    }
    return {
      own: { ...own, ...used, failure: undefined },
      session: LAST,
      tokens: { ...used, model: undefined },
    }
  }
  const lines = own.lines + 1
  const failure = /^litellm\.\w{1,60}(?:Error|Timeout)\b/.test(text) ? clip(text, LONGEST_ERROR) : own.failure
  const [, path] = /^Applied edit to (.{1,400})$/.exec(text) ?? []
  return {
    own: { ...own, lines, failure },
    events: [
      { type: 'message', from: 'agent', message: 'm1', text: `${clip(text, LONGEST_TEXT)}\n` },
      // aider does not report how many lines changed.
      ...(path === undefined
        ? []
        : [
            {
              type: 'tool' as const,
              tool: `t${lines}`,
              kind: 'edit' as const,
              title: `edit ${path}`,
              status: 'done' as const,
            },
          ]),
    ],
  }
}

interface Counts {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly costUsd: number | undefined
}

/**
 * `Tokens: 2.1k sent, 800 cache hit, 40 received. Cost: $0.01 message, $0.02 session.` Cache hits are part of
 * what was sent.
 */
function countsIn(text: string): Counts | undefined {
  const [, sent, between = '', received] =
    /^Tokens: ([\d.,]{1,12}k?) sent, (.{0,60}?)([\d.,]{1,12}k?) received\./.exec(text) ?? []
  if (sent === undefined || received === undefined) return undefined
  const cached = countOf(/([\d.,]{1,12}k?) cache hit/.exec(between)?.[1] ?? '0')
  const cost = Number(/\$([\d.]{1,12}) session\.$/.exec(text.slice(-60))?.[1])
  return {
    input: Math.max(0, countOf(sent) - cached),
    cached,
    output: countOf(received),
    costUsd: Number.isNaN(cost) ? undefined : cost,
  }
}

function countOf(text: string): number {
  const number = Number(text.replace(/[,k]/g, ''))
  return Number.isNaN(number) ? 0 : Math.round(text.endsWith('k') ? number * 1000 : number)
}

/** Its own interpreter and libraries. Programs that the agent runs do not inherit the variables for it. */
const RUN = `for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ ! -e "$loader" ] || break; done
directory=$1; shift
touch "$HOME/${PRICES}"
"$loader" --library-path "$directory/python/lib" "$directory/python/bin/python3" -I -c "import sys
sys.path.insert(0, '$directory/packages')
from aider.main import main
sys.exit(main())" "$@"
code=$?
rm -rf .aider.tags.cache.v*
exit $code`

function launch(assignment: Assignment, words: readonly string[]): Launch {
  const { directory, home, model, credential, baseUrl, session } = assignment
  const isAnthropic = credential.variable === ANTHROPIC.variable
  const name = model ?? (isAnthropic ? 'claude-sonnet-4-5' : 'gpt-5.5')
  const provider = isAnthropic ? 'anthropic/' : 'openai/'
  const full = name.startsWith(provider) ? name : `${provider}${name}`
  const options = [
    '--model',
    full,
    '--weak-model',
    full,
    '--no-auto-commits',
    '--no-dirty-commits',
    '--no-gitignore',
    '--no-check-update',
    '--no-show-release-notes',
    '--no-show-model-warnings',
    '--no-detect-urls',
    '--no-suggest-shell-commands',
    '--analytics-disable',
    '--chat-history-file',
    `${home}/${HISTORY}`,
    '--input-history-file',
    `${home}/.aider-input`,
    ...(session === undefined ? [] : ['--restore-chat-history']),
  ]
  return {
    command: ['/bin/sh', '-c', RUN, 'aider', directory, ...options, ...words],
    variables: {
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      ...(isAnthropic ? { ANTHROPIC_API_BASE: baseUrl } : { OPENAI_API_BASE: baseUrl }),
    },
    // Otherwise aider downloads it at each start. It must not be empty.
    files: [{ path: PRICES, content: '{"none": {}}\n' }],
  }
}
