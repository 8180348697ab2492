import type { OptionSpec } from '../args/parse.ts'
import type { Command, Entry } from '../command.ts'
import { table } from './terminal.ts'

type Entries = Readonly<Record<string, Entry>>

export function overview(commands: Entries): string {
  const rows = Object.entries(commands).map(([name, entry]) => [`  ${name}`, entry.summary])
  return [
    'AgentPod runs coding agents and untrusted code in sandboxes on this machine.',
    '',
    'usage: agentpod <command> [options]',
    '',
    ...table(rows),
    '',
    'examples:',
    '  agentpod run -- npm test            run it on a copy of this directory',
    '  agentpod shell                      look around in one',
    '  agentpod create --name box          keep one around',
    '  agentpod exec box -- python3 -V     and use it',
    '',
    '`agentpod <command> --help` says more. State lives in AGENTPOD_HOME (default ~/.agentpod).',
  ].join('\n')
}

export function commandHelp(name: string, commands: Entries, command: Command): string {
  const options = Object.entries(command.options).map(([option, spec]) => [
    `  ${flag(option, spec)}`,
    spec.help,
  ])
  return [
    `${commands[name]?.summary}.`,
    '',
    `usage: ${command.usage}`,
    ...(options.length > 0 ? ['', 'options:', ...table(options)] : []),
    '',
    'examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')
}

function flag(name: string, spec: OptionSpec): string {
  const short = spec.short ? `-${spec.short}, ` : '    '
  return `${short}--${name}${spec.value ? ` ${spec.value}` : ''}`
}
