/** The command line: finds the command, reads its words, prints its errors. */

import { homedir } from 'node:os'
import { resolve } from 'node:path'
import { invalid } from '../core/error.ts'
import { homeAt } from '../core/home.ts'
import { nearest } from '../util/nearest.ts'
import { BUILD, VERSION } from '../util/version.ts'
import { parseArgs } from './args/parse.ts'
import type { Command, CommandContext } from './command.ts'
import { COMMANDS, PASS_THROUGH } from './commands.ts'
import { keepCompiled } from './compile-cache.ts'
import { exitCode, OWN_FAILURE, printError } from './output/error.ts'
import { commandHelp, overview } from './output/help.ts'
import { terminal } from './output/terminal.ts'
import { otherServer } from './server/server-version.ts'

const root = process.env['AGENTPOD_HOME']
const home = homeAt(root ? resolve(root) : `${homedir()}/.agentpod`)
keepCompiled(home.root)

async function main(argv: readonly string[]): Promise<number> {
  const screen = terminal(process, process.env)
  const [name = 'help', ...rest] = argv
  const ownWords = rest.includes('--') ? rest.slice(0, rest.indexOf('--')) : rest
  try {
    if (name === '--version' || name === '-v') return print(screen.out, VERSION)
    if (name === 'help' || name === '--help' || name === '-h') {
      const about = rest[0]
      return print(
        screen.out,
        about && about in COMMANDS
          ? await commandHelp(about, COMMANDS, await load(about))
          : overview(COMMANDS),
      )
    }
    if (!Object.hasOwn(COMMANDS, name)) throw unknownCommand(name)
    const command = await load(name)
    if (ownWords.includes('--help') || ownWords[0] === '-h')
      return print(screen.out, await commandHelp(name, COMMANDS, command))
    const isJson = ownWords.includes('--json')
    const { terminalPerson } = await import('./output/person.ts')
    const ctx = context(screen, terminalPerson({ home, terminal: screen, isJson }), {
      makesSandboxes: MAKES_SANDBOXES.has(name) && !isJson,
      isJson,
    })
    return await command.run(ctx, parseArgs(rest, command))
  } catch (error) {
    screen.clearProgress()
    printError(screen, error, ownWords.includes('--json'))
    return PASS_THROUGH.has(name) ? passThroughCode(error) : exitCode(error)
  }
}

/**
 * `exec` and `run` return the command's exit code, so a failure of AgentPod has its own code; wrong usage is
 * 2.
 */
function passThroughCode(error: unknown): number {
  const code = exitCode(error)
  return code === 2 || code === 130 ? code : OWN_FAILURE
}

/** Commands that tell an ordinary user once which limits are not enforced. */
const MAKES_SANDBOXES: ReadonlySet<string> = new Set(['create', 'dev', 'restore', 'run', 'shell', 'test'])

function context(
  screen: CommandContext['terminal'],
  person: CommandContext['person'],
  { makesSandboxes, isJson }: { readonly makesSandboxes: boolean; readonly isJson: boolean },
): CommandContext {
  const script = process.argv[1] ?? ''
  let hasLooked = false
  const make = async (): Promise<void> => {
    const { startServerInBackground } = await import('./server/start-server.ts')
    await startServerInBackground(home, script)
  }
  return {
    home,
    env: process.env,
    cwd: process.cwd(),
    person,
    terminal: screen,
    commands: COMMANDS,
    async client(o = {}) {
      const [{ AgentPod }, { currentContext }] = await Promise.all([
        import('../client/client.ts'),
        import('./server/contexts.ts'),
      ])
      const remote = currentContext(home, process.env)
      if (remote) return new AgentPod(remote)
      const pod = new AgentPod({ socket: home.socket, revive: o.start === false ? undefined : make })
      const other =
        o.start === false || hasLooked ? undefined : otherServer(home, { version: VERSION, build: BUILD })
      hasLooked = true
      if (other) {
        const { settleOtherServer } = await import('./server/replace-server.ts')
        const asked = isJson ? { ...screen, isInteractive: false } : screen
        await settleOtherServer(home, asked, other, { pod, start: make })
      }
      if (makesSandboxes && process.getuid?.() !== 0)
        await (await import('./server/ordinary-user-check.ts')).noteMissingLimits(home, screen, pod)
      return pod
    },
  }
}

async function load(name: string): Promise<Command> {
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!entry) throw unknownCommand(name)
  return (await entry.load()).command
}

/** Names of other tools for our commands. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ['rm', 'destroy'],
  ['kill', 'destroy'],
  ['delete', 'destroy'],
  ['ps', 'ls'],
  ['list', 'ls'],
  ['copy', 'cp'],
  ['ssh', 'shell'],
])

function unknownCommand(name: string): Error {
  const near = OTHER_NAMES.get(name) ?? nearest(name, Object.keys(COMMANDS))
  return invalid(
    'command.unknown',
    `unknown command ${JSON.stringify(name)}`,
    near ? `did you mean \`agentpod ${near}\`?` : '`agentpod help` lists them',
  )
}

function print(out: (line: string) => void, text: string): number {
  out(text)
  return 0
}

/** Waits for a slow reader, whose data would be lost at exit. A closed reader needs no more. */
function drained(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed || stream.writableLength === 0) return resolve()
    stream.once('close', resolve).once('error', () => resolve())
    stream.write('', () => resolve())
  })
}

/** A server's log may fill a pipe without a reader; its last lines are not worth waiting for. */
const LOG_WAIT_MS = 1000

const code = await main(process.argv.slice(2))
const waited = new Promise<void>((resolve) => setTimeout(resolve, LOG_WAIT_MS).unref())
await Promise.all([drained(process.stdout), Promise.race([drained(process.stderr), waited])])
// Kept-alive connections would delay the exit by seconds.
process.exit(code)
