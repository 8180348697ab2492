import { open, rename, rm, stat } from 'node:fs/promises'
import { type Readable, Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { AgentPod } from '../../client/client.ts'
import type { Snapshot } from '../../client/snapshots.ts'
import { invalid } from '../../core/error.ts'
import { PREPARED_LABEL } from '../../core/snapshot.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parsePairs } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { fileError } from '../output/file-error.ts'
import { lineage } from '../output/lineage.ts'
import { type Terminal, table } from '../output/terminal.ts'
import { size, span } from '../output/units.ts'
import { openFile } from '../sandbox/open-file.ts'

const VERBS = ['create', 'ls', 'rm', 'export', 'import'] as const
type Verb = (typeof VERBS)[number]

export const command: Command = {
  usage: [
    'agentpod snapshot [create] NAME [--name NAME] [--memory] [--label KEY=VALUE]',
    'agentpod snapshot ls [--all] [--tree] [--sandbox NAME] [--label KEY=VALUE]',
    'agentpod snapshot rm SNAPSHOT...',
    'agentpod snapshot export SNAPSHOT FILE|-',
    'agentpod snapshot import FILE|- [--name NAME]',
  ].join('\n       '),
  examples: [
    'agentpod snapshot box                          its files as they are now',
    'agentpod snapshot create box --name golden',
    'agentpod snapshot create box --memory          its running processes too (gVisor, virtual machines)',
    'agentpod snapshot ls --tree',
    'agentpod restore golden                        a new sandbox with those files',
    'agentpod snapshot export golden golden.pod',
    'agentpod snapshot export golden - | ssh other agentpod snapshot import - --name golden',
    'agentpod snapshot rm golden',
  ],
  options: {
    name: { value: 'NAME', help: 'create, import: a name for the snapshot' },
    label: {
      value: 'KEY=VALUE',
      help: 'create: a label to find it by; ls: only those with it',
      repeat: true,
    },
    memory: { help: 'create: keep the memory of its processes too; a restored copy continues them' },
    sandbox: { value: 'NAME', help: 'ls: only those of this sandbox' },
    tree: { help: 'ls: show which came from which' },
    all: { short: 'a', help: 'ls: those too that are kept of projects for their next run' },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 1000 },
  async run(ctx, parsed) {
    const { verb, words } = verbOf(parsed)
    return CALLS[verb](ctx, parsed, words)
  },
}

/** The short form omits `create`. A sandbox named like a subcommand needs the long form. */
function verbOf({ words }: Parsed): { verb: Verb; words: readonly string[] } {
  const [first = '', ...rest] = words
  const verb = VERBS.find((known) => known === first)
  if (verb) return { verb, words: rest }
  if (rest.length === 0) return { verb: 'create', words }
  const near = nearest(first, VERBS)
  throw invalid(
    'words.unknown',
    `not a call: snapshot ${words.join(' ')}`,
    near ? `did you mean \`agentpod snapshot ${near}\`?` : command.usage,
  )
}

type Call = (ctx: CommandContext, parsed: Parsed, words: readonly string[]) => Promise<number>

const CALLS: Readonly<Record<Verb, Call>> = {
  async create({ client, terminal }, parsed, words) {
    const [ref] = exactly(words, 1)
    const sandbox = await (await client()).get(ref ?? '')
    const snapshot = await sandbox.snapshot({
      name: parsed.value('name'),
      labels: parsePairs(parsed.values('label'), 'label'),
      ...(parsed.has('memory') && { memory: true }),
    })
    terminal.out(parsed.has('json') ? JSON.stringify(snapshot) : snapshot.id)
    return 0
  },

  async ls({ client, terminal }, parsed, words) {
    exactly(words, 0)
    const found = await (await client()).snapshots.list({
      labels: parsePairs(parsed.values('label'), 'label'),
      name: parsed.value('name'),
      sandbox: parsed.value('sandbox'),
    })
    const isAll = parsed.has('all') || parsed.values('label').length > 0
    const snapshots = isAll ? found : found.filter(({ labels }) => labels[PREPARED_LABEL] === undefined)
    if (parsed.has('json')) terminal.out(JSON.stringify(snapshots, null, 2))
    else if (snapshots.length === 0) terminal.say('no snapshots; `agentpod snapshot NAME` takes one')
    else show(terminal, snapshots, parsed.has('tree'))
    return 0
  },

  async rm({ client, terminal }, parsed, words) {
    if (words.length === 0) throw invalid('words.missing', 'name the snapshots to remove', command.usage)
    const { snapshots } = await client()
    const ids: string[] = []
    for (const ref of words) {
      const { id } = await snapshots.get(ref)
      await snapshots.remove(id)
      ids.push(id)
      if (!parsed.has('json')) terminal.out(ref)
    }
    if (parsed.has('json')) terminal.out(JSON.stringify(ids))
    return 0
  },

  async export(ctx, parsed, words) {
    const [ref = '', file = ''] = exactly(words, 2)
    const isJson = parsed.has('json')
    if (file === '-') {
      if (isJson) throw invalid('option.json', 'stdout is the archive: --json has no place there')
      if (ctx.terminal.stdout.isTTY)
        throw invalid('export.terminal', 'an archive is no text for a terminal', 'name a file, or use a pipe')
      await exportTo(ctx, await ctx.client(), ref, ctx.terminal.stdout)
      return 0
    }
    if ((await stat(file).catch(() => undefined))?.isDirectory())
      throw invalid('export.file', `${file} is a directory`, `try ${file.replace(/\/$/, '')}/${ref}.pod`)
    const bytes = await exportToFile(ctx, await ctx.client(), ref, file)
    ctx.terminal.out(isJson ? JSON.stringify({ file, bytes }) : `${file}: ${size(bytes)}`)
    return 0
  },

  async import({ client, terminal }, parsed, words) {
    const [file = ''] = exactly(words, 1)
    if (file === '-' && terminal.stdin.isTTY)
      throw invalid('import.terminal', 'the archive comes by stdin', 'agentpod snapshot import - < FILE')
    const archive: Readable = file === '-' ? terminal.stdin : await openFile(file, 'import.file')
    const counted = archive.pipe(progress(terminal, 'sent'))
    archive.once('error', (error) => counted.destroy(error))
    const snapshot = await (await client({ start: true })).snapshots.import(counted, {
      name: parsed.value('name'),
    })
    terminal.clearProgress()
    terminal.out(parsed.has('json') ? JSON.stringify(snapshot) : snapshot.id)
    return 0
  },
}

function exactly(words: readonly string[], count: number): readonly string[] {
  if (words.length < count)
    throw invalid('words.missing', `missing arguments after snapshot ${words.join(' ')}`, command.usage)
  if (words.length > count)
    throw invalid('words.extra', `unexpected ${JSON.stringify(words[count])}`, command.usage)
  return words
}

function show(terminal: Terminal, snapshots: readonly Snapshot[], isTree: boolean): void {
  const header = ['ID', 'NAME', 'SANDBOX', 'KEEPS', 'SIZE', 'AGE', 'LABELS']
  const rows = isTree
    ? lineage(snapshots).map(({ snapshot, prefix, note }) => row(snapshot, prefix, note))
    : snapshots.map((snapshot) => row(snapshot))
  for (const line of table([header, ...rows])) terminal.out(line)
}

function row(snapshot: Snapshot, prefix = '', note?: string): string[] {
  const { id, name, state, sandboxId, sizeBytes, fidelity, memoryBytes, createdAt } = snapshot
  const labels = Object.entries(snapshot.labels).map(([key, value]) => `${key}=${showHidden(value)}`)
  const notes = [state === 'lost' ? '(its files are gone)' : '', note ? `(${note})` : ''].filter(Boolean)
  return [
    `${prefix}${id}`,
    name ?? '-',
    sandboxId ?? 'imported',
    fidelity,
    size(sizeBytes + memoryBytes),
    span(systemClock.now() - Date.parse(createdAt)),
    [labels.join(','), ...notes].filter(Boolean).join(' ') || '-',
  ]
}

/** The file gets its name only when it is complete. */
async function exportToFile(ctx: CommandContext, pod: AgentPod, ref: string, file: string): Promise<number> {
  const part = `${file}.${process.pid}.part`
  const cannotWrite = (error: unknown): never => {
    throw fileError(error, { reason: 'export.file', what: 'cannot write', path: file })
  }
  const handle = await open(part, 'wx', 0o600).catch(cannotWrite)
  try {
    const bytes = await exportTo(ctx, pod, ref, handle.createWriteStream())
    await rename(part, file).catch(cannotWrite)
    return bytes
  } catch (error) {
    await rm(part, { force: true })
    throw error
  } finally {
    await handle.close()
  }
}

async function exportTo(
  { terminal }: CommandContext,
  pod: AgentPod,
  ref: string,
  to: Writable,
): Promise<number> {
  const counter = progress(terminal, 'received')
  await pipeline(await pod.snapshots.export(ref), counter, to, { end: to !== terminal.stdout })
  terminal.clearProgress()
  return counter.bytes
}

/** Forwards bytes and reports their number a few times a second. */
function progress(terminal: Terminal, what: string): Transform & { readonly bytes: number } {
  let bytes = 0
  let saidAt = 0
  const counter = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length
      if (performance.now() - saidAt > 200) {
        saidAt = performance.now()
        terminal.progress(`${size(bytes)} ${what}`)
      }
      done(null, chunk)
    },
  })
  return Object.defineProperty(counter, 'bytes', { get: () => bytes }) as Transform & { bytes: number }
}
