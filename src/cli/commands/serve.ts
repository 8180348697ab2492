import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import { startServer } from '../../main/server.ts'
import type { Command } from '../command.ts'
import { VERSION } from '../version.ts'

const IDLE_EXIT_MS = 10 * 60_000

export const command: Command = {
  usage: 'agentpod serve',
  examples: ['agentpod serve', 'AGENTPOD_HOME=/srv/agentpod agentpod serve'],
  options: {
    background: {
      help: 'leave when nothing lives and nobody asks for ten minutes (how other commands start it)',
    },
  },
  words: { min: 0, max: 0 },
  async run({ home, terminal, env }, parsed) {
    const isBackground = parsed.has('background')
    try {
      const server = await startServer({
        home: home.root,
        version: VERSION,
        programs: programs(),
        idleExitMs: isBackground ? idleExitMs(env) : 0,
        writeLog: (line) => void terminal.stderr.write(line),
      })
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void server.stop())
      if (!isBackground) terminal.out(`agentpod ${VERSION} serves on ${home.socket}`)
      await server.done
      return 0
    } catch (thrown) {
      if (!isBackground) throw thrown
      // The command that started us reads this line and shows it as its own error.
      const { code, reason, message, hint } = asAgentPodError(thrown)
      terminal.stderr.write(`${JSON.stringify({ error: { code, reason, message, hint } })}\n`)
      return 1
    }
  },
}

/** Tests shorten the wait. */
function idleExitMs(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['AGENTPOD_IDLE_EXIT_MS']
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : IDLE_EXIT_MS
}

/** The Go programs stand beside the bundle, or in dist/ of the source tree. */
function programs(): { podhost: string; podd: string } {
  const here = dirname(fileURLToPath(import.meta.url))
  const found = [
    join(here, 'bin'),
    join(here, '..', 'bin'),
    join(here, '..', '..', '..', 'dist', 'bin'),
  ].find((directory) => existsSync(join(directory, 'podhost')))
  if (found) return { podhost: join(found, 'podhost'), podd: join(found, 'podd') }
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'programs.missing',
    message: 'podhost and podd are not built',
    hint: 'start through ./agentpod, which builds them, or run scripts/build',
  })
}
