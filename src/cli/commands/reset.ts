import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { atRest } from '../server/wait-for-shutdown.ts'

export const command: Command = {
  usage: 'agentpod reset [--yes]',
  examples: ['agentpod reset', 'agentpod reset --yes'],
  options: { yes: { short: 'y', help: 'do not ask for confirmation' }, ...JSON_OPTION },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const { home, terminal } = ctx
    if (!parsed.has('yes') && !(await confirm(ctx))) {
      terminal.say('nothing was removed')
      return 1
    }
    if (existsSync(home.root)) {
      await clear(ctx)
      const lock = await atRest(home)
      // A process that is about to exit may still write compiled code there.
      await rm(home.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
      lock.release()
    }
    terminal.out(parsed.has('json') ? JSON.stringify({ removed: home.root }) : `removed ${home.root}`)
    return 0
  },
}

/**
 * Only the server can remove files of the sandboxes' ids. Files that keep it from starting are removed first.
 */
async function clear(ctx: CommandContext): Promise<void> {
  const { stateDb, eventsDb, secretsKey } = ctx.home
  const kept = [eventsDb, secretsKey, stateDb]
  for (;;) {
    try {
      const pod = await ctx.client()
      await pod.clear()
      return
    } catch (error) {
      const lost = isAgentPodError(error, 'data_loss') ? kept.pop() : undefined
      if (lost === undefined) throw error
      for (const end of ['', '-wal', '-shm']) await rm(`${lost}${end}`, { force: true })
    }
  }
}

async function confirm({ home, terminal }: CommandContext): Promise<boolean> {
  if (!terminal.isInteractive)
    throw invalid('reset.unconfirmed', `this destroys every sandbox and removes ${home.root}`, 'say --yes')
  const ask = createInterface({ input: terminal.stdin, output: terminal.stderr })
  const answer = await ask.question(`Destroy every sandbox and remove ${home.root}? [y/N] `)
  ask.close()
  return /^y(es)?$/i.test(answer.trim())
}
