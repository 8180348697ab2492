import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { AgentPod } from '../../client/client.ts'
import { invalid } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { NETWORK_MODES, type NetworkMode } from '../../core/network.ts'
import { systemClock } from '../../util/clock.ts'
import { chosen, JSON_OPTION } from '../args/options.ts'
import { parseDuration } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { currentContext } from '../server/contexts.ts'

const KEY_TTL_MS = 30 * 24 * 3_600_000
/** A key that expires sooner than this is not given to a new shell. */
const KEY_LEFT_MS = 24 * 3_600_000

export const command: Command = {
  usage: 'agentpod e2b env [--new-key] [--net MODE] [--ttl TIME] [--json]',
  examples: [
    'eval "$(agentpod e2b env)"',
    'agentpod e2b env --json',
    'agentpod e2b env --net open           # sandboxes reach the internet, as at E2B',
    'agentpod e2b env --new-key --ttl 1h   # a separate key: it cannot see other sandboxes',
  ],
  options: {
    'new-key': { help: 'create a new key instead of the shared one' },
    net: {
      value: 'MODE',
      help: 'create a key with this network limit: off, allowlist or open (default allowlist)',
    },
    ttl: { value: 'TIME', help: 'how long a new key lives (default 30d)' },
    ...JSON_OPTION,
  },
  verbs: ['env'],
  words: { min: 1, max: 1 },
  async run(ctx, parsed) {
    if (parsed.word(0) !== 'env')
      throw invalid('words.unknown', `not a call: e2b ${parsed.word(0)}`, command.usage)
    const ttl = parsed.value('ttl')
    const variables = await environment(ctx, {
      isNew: parsed.has('new-key') || parsed.has('net'),
      mode: chosen(parsed, 'net', NETWORK_MODES),
      ttlMs: ttl === undefined ? KEY_TTL_MS : parseDuration(ttl, 'ttl'),
    })
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify(variables, null, 2))
    else
      for (const [name, value] of Object.entries(variables))
        ctx.terminal.out(`export ${name}=${quoted(value)}`)
    return 0
  },
}

interface KeyWish {
  readonly mode: NetworkMode | undefined
  readonly isNew: boolean
  readonly ttlMs: number
}

/** Variables that point E2B's SDKs at this server. A remote server's key works for them already. */
async function environment(ctx: CommandContext, wish: KeyWish): Promise<Record<string, string>> {
  const remote = currentContext(ctx.home, ctx.env)
  if (remote) return { E2B_API_KEY: remote.key, ...addresses(remote.url) }
  const pod = await ctx.client()
  const { port, isTls, movedFrom } = await pod.listen()
  if (movedFrom !== undefined)
    ctx.terminal.say(
      `another program uses port ${movedFrom}, so the server now listens on ${port}; restart programs that use the old address with these variables`,
    )
  // An SDK waits a minute for its first sandbox; building the base may take longer, so it is built here.
  await pod.prepare('debian', (line) => ctx.terminal.progress(line), { kit: 'development' })
  ctx.terminal.clearProgress()
  const key = await keyOf(pod, ctx.home, wish)
  // With TLS the certificate's name is used; plain http uses the address, which needs no resolver.
  const url = isTls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`
  return {
    E2B_API_KEY: key,
    ...addresses(url),
    ...(isTls && existsSync(ctx.home.tlsCa) && { NODE_EXTRA_CA_CERTS: ctx.home.tlsCa }),
  }
}

function addresses(url: string): Record<string, string> {
  return { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_VOLUME_API_URL: url }
}

/**
 * A key owns its sandboxes, so the shells of one person share one: it is kept in a file that only they can
 * read, as contexts are.
 */
async function keyOf(pod: AgentPod, home: Home, wish: KeyWish): Promise<string> {
  const kept = wish.isNew ? undefined : await keptKey(pod, home)
  if (kept !== undefined) return kept
  const made = await pod.createKey({
    name: 'e2b env',
    scope: 'sandboxes',
    ttlMs: wish.ttlMs,
    ...(wish.mode && { network: { mode: wish.mode } }),
  })
  if (!wish.isNew) {
    writeFileSync(home.e2bKey, JSON.stringify({ id: made.id, secret: made.secret }), { mode: 0o600 })
    chmodSync(home.e2bKey, 0o600)
  }
  return made.secret
}

async function keptKey(pod: AgentPod, home: Home): Promise<string | undefined> {
  let kept: { id?: unknown; secret?: unknown } | null
  try {
    kept = JSON.parse(readFileSync(home.e2bKey, 'utf8')) as typeof kept
  } catch {
    // No key is stored, or the file is damaged: a new key replaces it.
    return undefined
  }
  const known = (await pod.keys()).find(({ id }) => id === kept?.id)
  const isLiving =
    known &&
    known.revokedAt === null &&
    (known.expiresAt === null || Date.parse(known.expiresAt) - systemClock.now() > KEY_LEFT_MS)
  return isLiving && typeof kept?.secret === 'string' ? kept.secret : undefined
}

/** For any POSIX shell. */
function quoted(value: string): string {
  return /^[\w:/.@%+=-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`
}
