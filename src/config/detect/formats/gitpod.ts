/** `.gitpod.yml`: tasks, ports and the image of Gitpod. */
import { isObject, listAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { shortQuote, textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import {
  addDockerfile,
  addImage,
  commandAt,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  sayingOf,
  unused,
  validPort,
  variablesAt,
  withVariables,
} from './source-file.ts'

const FILE = '.gitpod.yml'
const MOST_TASKS = 20
const MOST_PORTS = 40
const WIDEST_RANGE = 10

const OTHERS: Readonly<Record<string, string>> = {
  vscode: 'AgentPod installs no extensions of editors',
  jetbrains: 'AgentPod starts no editors',
  github: 'layers take the place of prebuilds, and nothing has to trigger them',
  gitConfig: 'git in the sandbox has the settings of the project',
  checkoutLocation: 'the project has its own directory in the sandbox',
  workspaceLocation: 'the project has its own directory in the sandbox',
  additionalRepositories: 'a sandbox has one project',
  mainConfiguration: 'a sandbox has one project',
  coreDump: 'the sandbox decides about core dumps',
  experimentalNetwork: 'a sandbox reaches the hosts under [network] in agentpod.toml',
}

export function readGitpod(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'gitpod')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  readImage(tree, format, source)
  const tasks = listAt(source.data, 'tasks')
  const ports = listAt(source.data, 'ports')
  for (const [at, task] of firstOf(format, source, ['tasks'], tasks, MOST_TASKS).entries())
    if (isObject(task)) readTask(format, source, at)
    else unused(format, source, ['tasks', at], 'it is not a table')
  for (const [at, port] of firstOf(format, source, ['ports'], ports, MOST_PORTS).entries())
    readPort(format, source, at, port)
  noteOthers(format, source, [], { used: ['image', 'tasks', 'ports'], why: OTHERS })
  return [format]
}

function readImage(tree: FileTree, format: FormatDraft, source: SourceFile): void {
  const file = textAt(source.data, 'image', 'file')
  if (file === undefined) {
    addImage(format, source, ['image'])
    return
  }
  const context = textAt(source.data, 'image', 'context')
  addDockerfile(tree, format, source, ['image', 'file'], { file, context })
}

/** Lines that change the shell for the commands after them. */
const CHANGES_SHELL = /^\s*(?:export|cd|source|\.|nvm|alias|eval|set|\w+=)\b/m

/**
 * The commands of a task share a shell: `before` runs at every start, `init` once for a prebuild, `command`
 * in the terminal.
 */
function readTask(format: FormatDraft, source: SourceFile, at: number): void {
  const path = ['tasks', at] as const
  const variables = variablesAt(format, source, [...path, 'env'])
  const own = (key: string): FoundCommand | undefined => {
    const command = commandAt(format, source, [...path, key])
    return command && withVariables(command, variables)
  }
  const before = own('before')
  const prepared = (command: FoundCommand): FoundCommand =>
    before && CHANGES_SHELL.test(before.run) ? { ...command, run: `${before.run}\n${command.run}` } : command
  for (const key of ['init', 'prebuild']) {
    const command = own(key)
    if (command) format.setup.push(before ? { ...command, run: `${before.run}\n${command.run}` } : command)
  }
  if (before) format.start.push(before)
  const command = own('command')
  if (command) addCommand(format, 'dev', prepared(command))
  noteOthers(format, source, path, {
    used: ['name', 'before', 'init', 'prebuild', 'command', 'env'],
    why: {
      openMode: '`agentpod dev` shows all commands in one terminal',
      openIn: '`agentpod dev` shows all commands in one terminal',
    },
  })
}

function readPort(format: FormatDraft, source: SourceFile, at: number, written: unknown): void {
  const path = ['ports', at] as const
  const value = isObject(written) ? written['port'] : written
  const [, first, last] = typeof value === 'string' ? (/^(\d{1,5})-(\d{1,5})$/.exec(value) ?? []) : []
  const ports = first === undefined ? [validPort(value)] : rangeOf(Number(first), Number(last))
  const label = textAt(written, 'name') ?? textAt(written, 'description')
  for (const port of ports)
    if (port === undefined) unused(format, source, path, 'it is not a port')
    else
      format.ports.push({
        port,
        label: label && shortQuote(label, 64),
        evidence: sayingOf(source, [...path, 'port'], String(port)),
      })
  if (ports.length === 0)
    unused(
      format,
      source,
      path,
      `a range has at most ${WIDEST_RANGE} ports; \`agentpod dev\` forwards ports as programs open them`,
    )
  if (textAt(written, 'visibility') === 'public')
    unused(
      format,
      source,
      [...path, 'visibility'],
      'a public port needs public = true under [ports] in agentpod.toml, and your approval',
    )
  noteOthers(format, source, path, {
    used: ['port', 'name', 'description', 'visibility'],
    why: {
      onOpen: '`agentpod dev` prints the address of a port when a program opens it',
      protocol: 'a port is forwarded as it is',
    },
  })
}

function rangeOf(first: number, last: number): number[] {
  if (last < first || last - first >= WIDEST_RANGE) return []
  return Array.from({ length: last - first + 1 }, (_, n) => first + n).filter(
    (port) => validPort(port) !== undefined,
  )
}
