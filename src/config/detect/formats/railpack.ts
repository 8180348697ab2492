/** `railpack.json`. */
import { isObject, listAt, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { stringsAt, textAt, versionText } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { addMiseTool } from './mise-tools.ts'
import { orderByDependency } from './order-by-dependency.ts'
import {
  commandAt,
  deploymentVariables,
  firstKeys,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  type SourcePath,
  sayingOf,
  unused,
} from './source-file.ts'

const FILE = 'railpack.json'
const MOST = 100
const DEFAULTS = '...'
const DEPLOYS = 'it configures the image of a deployment'

export function readRailpack(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'railpack')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  const provider = textAt(source.data, 'provider')
  if (provider !== undefined)
    addMiseTool(format, provider, undefined, sayingOf(source, ['provider'], provider))
  const packages = objectAt(source.data, 'packages')
  for (const name of firstKeys(format, source, ['packages'], MOST))
    addMiseTool(
      format,
      name,
      versionText(packages[name]),
      sayingOf(source, ['packages', name], packages[name]),
    )
  for (const path of [['buildAptPackages'], ['deploy', 'aptPackages']])
    for (const [at, name] of firstOf(format, source, path, stringsAt(source.data, ...path), MOST).entries())
      if (name !== DEFAULTS) format.packages.push({ name, evidence: sayingOf(source, [...path, at], name) })
  readSteps(format, source)
  addCommand(format, 'start', commandAt(format, source, ['deploy', 'startCommand']))
  deploymentVariables(format, source, ['deploy', 'variables'])
  noteOthers(format, source, [], {
    used: ['provider', 'packages', 'buildAptPackages', 'steps', 'deploy'],
    why: {
      caches: 'downloads are cached outside the sandboxes',
      secrets: 'builds get no secrets; see [secrets] in agentpod.toml',
    },
  })
  noteOthers(format, source, ['deploy'], {
    used: ['aptPackages', 'startCommand', 'variables'],
    why: { base: DEPLOYS, inputs: DEPLOYS, paths: 'the PATH is that of the environment' },
  })
  return [format]
}

/** The step `install` and those before it go into the environment; the others build the project. */
function readSteps(format: FormatDraft, source: SourceFile): void {
  const steps = objectAt(source.data, 'steps')
  const before = (name: string): readonly string[] => [
    ...listAt(steps, name, 'inputs').flatMap((one) => textAt(one, 'step') ?? []),
    ...(name === 'build' ? ['install'] : []),
  ]
  const order = orderByDependency(firstKeys(format, source, ['steps'], MOST), before)
  if (order.cycle !== undefined)
    unused(format, source, ['steps', order.cycle], 'its inputs lead back to itself')
  const needsInstall = new Set(['build'])
  for (const name of order.names)
    if (name === 'build' || before(name).some((one) => one === 'install' || needsInstall.has(one)))
      needsInstall.add(name)
  const build: FoundCommand[] = []
  for (const name of order.names) {
    const path = ['steps', name]
    const commands = commandsOf(format, source, path)
    if (needsInstall.has(name)) build.push(...commands)
    else format.setup.push(...commands)
    deploymentVariables(format, source, [...path, 'variables'])
    noteOthers(format, source, path, {
      used: ['commands', 'inputs', 'variables', 'name'],
      why: {
        secrets: 'builds get no secrets; see [secrets] in agentpod.toml',
        caches: 'downloads are cached outside the sandboxes',
        assets: DEPLOYS,
        deployOutputs: DEPLOYS,
        startingImage: DEPLOYS,
      },
    })
  }
  const [first, ...rest] = build
  if (first) addCommand(format, 'build', { ...first, run: [first, ...rest].map(({ run }) => run).join('\n') })
}

function commandsOf(format: FormatDraft, source: SourceFile, at: SourcePath): FoundCommand[] {
  const list = listAt(source.data, ...at.map(String), 'commands')
  return firstOf(format, source, [...at, 'commands'], list, MOST).flatMap((one, index): FoundCommand[] => {
    const path = [...at, 'commands', index]
    if (one === DEFAULTS) return []
    if (typeof one === 'string') return toList(commandAt(format, source, path))
    if (isObject(one) && typeof one['cmd'] === 'string')
      return toList(commandAt(format, source, [...path, 'cmd']))
    // Copying the project's own files needs no step: they are all there.
    if (isObject(one) && (one['src'] !== undefined || one['dest'] !== undefined)) return []
    unused(format, source, path, 'it is neither a command nor a copy of the project')
    return []
  })
}

function toList<T>(value: T | undefined): T[] {
  return value === undefined ? [] : [value]
}
