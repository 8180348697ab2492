import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { StoredImageInfo } from '../../client/images.ts'
import { invalid } from '../../core/error.ts'
import { extract } from '../../sync/untar.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'
import { size, span } from '../output/units.ts'

const VERBS = ['pull', 'ls', 'inspect', 'rm', 'push'] as const
type Verb = (typeof VERBS)[number]

/** The target of a push that is a directory. */
const LAYOUT = 'oci:'

export const command: Command = {
  usage: [
    'agentpod image pull REF...',
    'agentpod image ls',
    'agentpod image inspect REF',
    'agentpod image rm REF...',
    'agentpod image push SANDBOX|SNAPSHOT|IMAGE|ENVIRONMENT REF|oci:DIRECTORY',
  ].join('\n       '),
  examples: [
    'agentpod image pull debian:12             get it, or what the tag stands for now',
    'agentpod run --no-project --image debian:12 -- cat /etc/os-release',
    'agentpod image inspect debian:12          user, variables, command, ports, layers',
    'agentpod image push box registry.example.com/team/box:1',
    'agentpod image push golden oci:./golden   an OCI layout, for skopeo and others',
    'agentpod image rm debian:12',
  ],
  options: {
    provider: { value: 'NAME', help: 'the provider that keeps the images' },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 1000 },
  async run(ctx, parsed) {
    const [first = '', ...words] = parsed.words
    const verb = VERBS.find((known) => known === first)
    if (verb) return CALLS[verb](ctx, parsed, words)
    const near = nearest(first, VERBS)
    throw invalid(
      'words.unknown',
      `not a call: image ${parsed.words.join(' ')}`,
      near ? `did you mean \`agentpod image ${near}\`?` : command.usage,
    )
  },
}

type Call = (ctx: CommandContext, parsed: Parsed, words: readonly string[]) => Promise<number>

const CALLS: Readonly<Record<Verb, Call>> = {
  async pull({ client, terminal }, parsed, words) {
    needed(words, 1)
    const { images } = await client({ start: true })
    const pulled: StoredImageInfo[] = []
    for (const ref of words) {
      const image = await images.pull(ref, {
        provider: parsed.value('provider'),
        onProgress: (line) => terminal.progress(showHidden(line)),
      })
      terminal.clearProgress()
      pulled.push(image)
      if (!parsed.has('json'))
        terminal.out(
          `${image.ref}  ${image.digest}  ${image.layers.length} ${image.layers.length === 1 ? 'layer' : 'layers'}, ${size(image.sizeBytes)}`,
        )
    }
    if (parsed.has('json')) terminal.out(JSON.stringify(pulled, null, 2))
    return 0
  },

  async ls({ client, terminal }, parsed, words) {
    atMost(words, 0)
    const images = await (await client()).images.list({ provider: parsed.value('provider') })
    if (parsed.has('json')) terminal.out(JSON.stringify(images, null, 2))
    else if (images.length === 0) terminal.say('no images; `agentpod image pull REF` gets one')
    else {
      const rows = images.map((one) => [
        one.ref,
        one.digest.slice('sha256:'.length).slice(0, 12),
        String(one.layers.length),
        size(one.sizeBytes),
        span(systemClock.now() - Date.parse(one.pulledAt)),
        one.usedBy.length === 0 ? '-' : one.usedBy.slice(0, 3).join(','),
      ])
      for (const line of table([['IMAGE', 'DIGEST', 'LAYERS', 'SIZE', 'PULLED', 'USED BY'], ...rows]))
        terminal.out(line)
    }
    return 0
  },

  async inspect({ client, terminal }, parsed, words) {
    needed(words, 1)
    atMost(words, 1)
    const image = await (await client()).images.get(words[0] ?? '', { provider: parsed.value('provider') })
    if (parsed.has('json')) terminal.out(JSON.stringify(image, null, 2))
    else for (const line of described(image)) terminal.out(line)
    return 0
  },

  async rm({ client, terminal }, parsed, words) {
    needed(words, 1)
    const { images } = await client()
    const removed: string[] = []
    for (const ref of words) {
      const image = await images.remove(ref, { provider: parsed.value('provider') })
      removed.push(image.ref)
      if (!parsed.has('json')) terminal.out(ref)
    }
    if (parsed.has('json')) terminal.out(JSON.stringify(removed))
    return 0
  },

  async push(ctx, parsed, words) {
    needed(words, 2)
    atMost(words, 2)
    const [source = '', target = ''] = words
    const { images } = await ctx.client()
    if (target.startsWith(LAYOUT)) return pushLayout(ctx, parsed, source, target.slice(LAYOUT.length))
    const { image, digest } = await images.push(source, target, {
      onProgress: (line) => ctx.terminal.progress(showHidden(line)),
    })
    ctx.terminal.clearProgress()
    ctx.terminal.out(parsed.has('json') ? JSON.stringify({ image, digest }) : `${image}@${digest}`)
    return 0
  },
}

/** The directory gets its name only when it is complete. */
async function pushLayout(
  { client, terminal, cwd }: CommandContext,
  parsed: Parsed,
  source: string,
  to: string,
): Promise<number> {
  if (to === '') throw invalid('image.layout', 'name the directory: oci:DIRECTORY', command.usage)
  const directory = resolve(cwd, to)
  const left = await readdir(directory).catch(() => undefined)
  if (left && left.length > 0)
    throw invalid('image.layout', `${to} is not empty`, 'name a new directory, or remove it first')
  const part = `${directory}.${process.pid}.part`
  terminal.progress(`packing ${source}`)
  try {
    const archive = await (await client()).images.layout(source)
    await mkdir(part)
    await extract(archive, part)
    const index = JSON.parse(await readFile(join(part, 'index.json'), 'utf8')) as LayoutIndex
    const digest = String(index.manifests?.[0]?.digest ?? '')
    if (left) await rm(directory, { recursive: true })
    await rename(part, directory)
    terminal.clearProgress()
    const image = `${LAYOUT}${to}`
    terminal.out(parsed.has('json') ? JSON.stringify({ image, digest }) : `${image}@${digest}`)
    return 0
  } finally {
    await rm(part, { recursive: true, force: true })
  }
}

interface LayoutIndex {
  readonly manifests?: readonly { readonly digest?: string }[]
}

function described(image: StoredImageInfo): string[] {
  const lines = [
    ['image', image.ref],
    ['digest', image.digest],
    ['manifest', image.manifestDigest],
    ['platform', image.platform],
    ['size', size(image.sizeBytes)],
    ['user', image.user ?? 'root'],
    ['workdir', image.workdir ?? '/'],
    ['command', image.command.length > 0 ? JSON.stringify(image.command) : '-'],
    ['ports', image.ports.join(', ') || '-'],
    ['pulled', image.pulledAt],
    ['used by', image.usedBy.join(', ') || '-'],
    ...Object.entries(image.variables).map(([name, value]) => ['variable', `${name}=${value}`]),
    ...Object.entries(image.labels).map(([name, value]) => ['label', `${name}=${value}`]),
    ...image.layers.map((layer) => ['layer', layer]),
  ]
  return lines.map(([name = '', value = '']) => `${name.padEnd(10)}${showHidden(value)}`)
}

function needed(words: readonly string[], count: number): void {
  if (words.length < count) throw invalid('words.missing', 'missing argument', command.usage)
}

function atMost(words: readonly string[], count: number): void {
  if (words.length > count)
    throw invalid('words.extra', `unexpected ${JSON.stringify(words[count])}`, command.usage)
}
