import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { AgentPodError, invalid } from '../../core/error.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { atRest } from '../server/wait-for-shutdown.ts'

/** Files that a running server and podhost recreate. */
const PASSING = new Set(['run', 'tmp', 'logs'])

export const command: Command = {
  usage: 'agentpod backup DIRECTORY | agentpod backup restore DIRECTORY',
  examples: [
    'agentpod stop --all && agentpod backup /mnt/usb/agentpod',
    'agentpod backup restore /mnt/usb/agentpod',
  ],
  options: JSON_OPTION,
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const [first = '', second] = parsed.words
    const isRestore = first === 'restore' && second !== undefined
    if (second !== undefined && !isRestore)
      throw invalid('words.extra', `unknown: backup ${first}`, command.usage)
    const directory = resolve(ctx.cwd, second ?? first)
    if (isRestore) await restore(ctx, directory)
    else await backUp(ctx, directory)
    const said = isRestore ? `restored ${ctx.home.root}` : `backed up to ${directory}`
    ctx.terminal.out(parsed.has('json') ? JSON.stringify({ directory, home: ctx.home.root }) : said)
    return 0
  },
}

/** Nothing runs during the copy, and the copy gets its name only when it is complete. */
async function backUp(ctx: CommandContext, to: string): Promise<void> {
  if (existsSync(to)) throw invalid('backup.exists', `${to} exists`, 'name a directory that does not')
  const pod = await ctx.client()
  const busy = (await pod.list()).filter(({ state }) => state !== 'stopped')
  if (busy.length > 0) {
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'backup.busy',
      message: `${busy.length} sandboxes are not stopped: ${busy.map(({ id, name }) => name ?? id).join(', ')}`,
      hint: '`agentpod stop --all` stops them; or destroy those that you do not need',
    })
  }
  ctx.terminal.say('stopping the server')
  await pod.stopServer()
  const lock = await atRest(ctx.home)
  try {
    await copied(ctx.home.root, to)
  } finally {
    lock.release()
  }
}

async function restore({ home, terminal }: CommandContext, from: string): Promise<void> {
  if (!existsSync(join(from, 'state.db'))) throw invalid('backup.unknown', `${from} is not a backup`)
  if (existsSync(home.root) && readdirSync(home.root).length > 0) {
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'backup.home_used',
      message: `${home.root} is not empty`,
      hint: '`agentpod reset` removes it, or set AGENTPOD_HOME to another directory',
    })
  }
  terminal.say(`copying ${from}`)
  await rm(home.root, { recursive: true, force: true })
  makeDirectory(dirname(home.root), 0o700)
  await copied(from, home.root)
}

async function copied(from: string, to: string): Promise<void> {
  const partial = `${to}.partial`
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { mode: 0o700 })
  try {
    const names = readdirSync(from).filter((name) => !PASSING.has(name))
    await copy(
      names.map((name) => join(from, name)),
      partial,
    )
    await rename(partial, to)
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

/** Node's own copy keeps neither owners nor extended attributes. The copy of the pool may be sparse. */
function copy(paths: readonly string[], to: string): Promise<void> {
  return new Promise((done, failed) => {
    const words = ['cp', '--archive', '--reflink=auto', '--sparse=always', '--', ...paths, to]
    // Files of an ordinary user's sandboxes belong to ids in /etc/subuid, so they are copied inside that user
    // namespace.
    const inside =
      process.getuid?.() === 0 ? [] : ['unshare', '--user', '--map-root-user', '--map-auto', '--']
    const [program = '', ...args] = [...inside, ...words]
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString('utf8')).slice(-2000)
    })
    child.once('error', failed)
    child.once('close', (code) => {
      if (code === 0) return done()
      failed(
        new AgentPodError({
          code: /No space left/.test(said) ? 'resource_exhausted' : 'internal',
          reason: 'backup.copy',
          message: `the copy failed: ${said.trim()}`,
          hint: 'check the free space and the permissions there; the state directory is unchanged',
        }),
      )
    })
  })
}
