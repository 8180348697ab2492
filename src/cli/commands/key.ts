import type { CreateKey } from '../../api/schema/key.ts'
import { ISOLATIONS } from '../../core/capability.ts'
import { invalid } from '../../core/error.ts'
import { SCOPES } from '../../core/key.ts'
import { NETWORK_MODES } from '../../core/network.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { chosen, JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'

export const command: Command = {
  usage:
    'agentpod key create [--name NAME] [--scope SCOPE] [--net MODE] [--isolation LEVEL] [--ttl TIME] | ls | revoke ID',
  examples: [
    'agentpod key create --name ci',
    'export AGENTPOD_API_KEY=$(agentpod key create --quiet)',
    'agentpod key ls',
    'agentpod key create --name builder --net open',
    'agentpod key create --name guests --isolation gvisor',
    'agentpod key revoke abc123',
  ],
  options: {
    name: { value: 'NAME', help: 'a name for the key' },
    scope: {
      value: 'SCOPE',
      help: `${SCOPES.join(' or ')} (default sandboxes: its own sandboxes and nothing else)`,
    },
    net: {
      value: 'MODE',
      help: 'network limit of its sandboxes: off, allowlist or open (default allowlist)',
    },
    allow: { value: 'RULE', help: 'its sandboxes can reach only these hosts', repeat: true },
    isolation: {
      value: 'LEVEL',
      help: 'lowest isolation of its sandboxes: container, gvisor or vm (default container)',
    },
    ttl: { value: 'TIME', help: 'when it expires, like 30d (default: never)' },
    quiet: { short: 'q', help: 'print the key and nothing else' },
    ...JSON_OPTION,
  },
  verbs: ['create', 'ls', 'revoke'],
  words: { min: 1, max: 2 },
  async run({ client, terminal }, parsed) {
    const [verb, id] = parsed.words
    const pod = await client()
    const isJson = parsed.has('json')
    if (verb === 'create' && id === undefined) {
      const scope = SCOPES.find((known) => known === (parsed.value('scope') ?? 'sandboxes'))
      if (!scope) throw invalid('option.scope', `--scope is ${SCOPES.join(' or ')}`)
      const ttl = parsed.value('ttl')
      const made = await pod.createKey({
        name: parsed.value('name') ?? 'key',
        scope,
        network: capOf(parsed),
        isolation: chosen(parsed, 'isolation', ISOLATIONS),
        ttlMs: ttl === undefined ? undefined : parseDuration(ttl, 'ttl'),
      })
      terminal.out(isJson ? JSON.stringify(made) : made.secret)
      if (!isJson && !parsed.has('quiet')) terminal.say(`key ${made.id} (${scope}); it is not shown again`)
      return 0
    }
    if (verb === 'ls' && id === undefined) {
      const keys = await pod.keys()
      const rows = keys.map((key) => [
        key.id,
        showHidden(key.name),
        key.scope,
        key.network.mode,
        key.isolation ?? '-',
        key.revokedAt ? 'revoked' : (key.expiresAt ?? 'never expires'),
      ])
      if (isJson) terminal.out(JSON.stringify(keys))
      else
        for (const line of table([['ID', 'NAME', 'SCOPE', 'NET', 'ISOLATION', 'ENDS'], ...rows]))
          terminal.out(line)
      return 0
    }
    if (verb === 'revoke' && id !== undefined) {
      const revoked = await pod.revokeKey(id)
      terminal.out(isJson ? JSON.stringify(revoked) : `revoked ${revoked.id}`)
      return 0
    }
    throw invalid('words.unknown', `not a call: key ${parsed.words.join(' ')}`, command.usage)
  },
}

function capOf(parsed: Parsed): CreateKey['network'] {
  const mode = chosen(parsed, 'net', NETWORK_MODES)
  const allow = parsed.has('allow') ? [...parsed.values('allow')] : undefined
  return mode === undefined && allow === undefined ? undefined : { mode: mode ?? 'allowlist', allow }
}
