import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ProviderView } from '../../api/schema/provider.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { printChecks } from '../output/checks.ts'
import { table } from '../output/terminal.ts'

const NOT_READY = 6

export const command: Command = {
  usage: 'agentpod provider ls|check|setup [--json] [NAME]',
  examples: [
    'agentpod provider ls                 list the providers and what each supports',
    'agentpod provider check docker       check one provider, with hints',
    'agentpod provider setup gvisor       install what a provider of this machine needs (also: qemu)',
  ],
  options: JSON_OPTION,
  verbs: ['ls', 'check', 'setup'],
  words: { min: 1, max: 2 },
  async run(ctx, parsed) {
    const [verb, name] = parsed.words
    const isJson = parsed.has('json')
    if (verb === 'ls' && name === undefined) return list(ctx, isJson)
    if (verb === 'check' && name !== undefined) return check(ctx, name, isJson)
    if (verb === 'setup' && name !== undefined) return setup(name)
    throw invalid(
      'provider.verb',
      'unknown arguments: use ls, check NAME or setup NAME',
      '`agentpod provider ls`',
    )
  },
}

/** A provider that can be set up here has a script, which says what it does. */
function setup(name: string): number {
  const scripts = join(dirname(realpathSync(process.argv[1] ?? '')), '..', 'scripts')
  const script = join(scripts, `setup-${name}`)
  if (!/^[a-z]{1,20}$/.test(name) || !existsSync(script)) {
    const known = existsSync(scripts)
      ? readdirSync(scripts).flatMap((file) => /^setup-([a-z]+)$/.exec(file)?.[1] ?? [])
      : []
    throw invalid(
      'provider.setup',
      `nothing can be installed here for the provider ${JSON.stringify(name)}`,
      `${known.map((one) => `\`agentpod provider setup ${one}\``).join(', ')}; \`agentpod provider check NAME\` says what one lacks`,
    )
  }
  const { status } = spawnSync(script, { stdio: 'inherit' })
  return status ?? NOT_READY
}

async function list({ client, terminal }: CommandContext, isJson: boolean): Promise<number> {
  const providers = await (await client()).providers()
  if (isJson) {
    terminal.out(JSON.stringify(providers, null, 2))
    return 0
  }
  for (const line of table([
    ['NAME', 'READY', 'ISOLATION', 'BASES', 'NETWORK', 'PAUSE', 'SNAPSHOTS'],
    ...providers.map(row),
  ]))
    terminal.out(line)
  for (const { name, reason } of providers)
    if (reason !== undefined) terminal.out(`${name}: ${showHidden(reason)}`)
  return 0
}

function row({ name, ready, isolation, isDefault, capabilities }: ProviderView): string[] {
  const bases = [
    capabilities?.host && 'host',
    capabilities?.layers && 'debian',
    capabilities?.images && 'image',
  ].filter(Boolean)
  return [
    isDefault ? `${name} (default)` : name,
    ready ? 'yes' : 'no',
    isolation ?? '-',
    bases.join(', ') || '-',
    capabilities?.network ?? '-',
    capabilities?.pause ?? '-',
    capabilities?.snapshot ?? '-',
  ]
}

async function check({ client, terminal }: CommandContext, name: string, isJson: boolean): Promise<number> {
  const checks = await (await client()).checkProvider(name)
  const isWell = checks.every(({ ok, required }) => ok || !required)
  if (isJson) terminal.out(JSON.stringify({ ok: isWell, checks }, null, 2))
  else {
    terminal.out(isWell ? `${name} is ready.` : `${name} is not ready:`)
    printChecks(terminal, checks)
  }
  return isWell ? 0 : NOT_READY
}
