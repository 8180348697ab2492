import type { OptionSpec } from '../args/parse.ts'
import type { Command, CommandEntry } from '../command.ts'
import { table } from './terminal.ts'

type Entries = Readonly<Record<string, CommandEntry>>

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
    '  agentpod run -- npm test            run a command on a copy of this directory',
    '  agentpod shell                      open a terminal in a sandbox',
    '  agentpod create --name box          create a sandbox that stays',
    '  agentpod exec box -- python3 -V     run a command in it',
    '',
    '`agentpod <command> --help` shows the options. State is kept in AGENTPOD_HOME (default ~/.agentpod).',
  ].join('\n')
}

export async function commandHelp(name: string, commands: Entries, command: Command): Promise<string> {
  const details = (await command.details?.()) ?? []
  const options = Object.entries(command.options).map(([option, spec]) => [
    `  ${flag(option, spec)}`,
    spec.help,
  ])
  return [
    `${commands[name]?.summary}.`,
    '',
    `usage: ${command.usage}`,
    ...(options.length > 0 ? ['', 'options:', ...table(options)] : []),
    ...(details.length > 0 ? ['', ...details] : []),
    '',
    'examples:',
    ...command.examples.map((example) => `  ${example}`),
  ].join('\n')
}

function flag(name: string, spec: OptionSpec): string {
  const short = spec.short ? `-${spec.short}, ` : '    '
  return `${short}--${name}${spec.value ? ` ${spec.value}` : ''}`
}
