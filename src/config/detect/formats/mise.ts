/** mise's files beyond the versions of languages: other tools, variables and tasks. Also `.tool-versions`. */
import { isObject, objectAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { linesIn } from '../project-files/find-lines.ts'
import { shortQuote, stringsAt, versionText } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { readMiseTaskFiles, readMiseTasks } from './mise-tasks.ts'
import { addMiseTool } from './mise-tools.ts'
import {
  firstKeys,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  sayingOf,
  unused,
  variablesAt,
} from './source-file.ts'

const FILES = [
  'mise.toml',
  '.mise.toml',
  'mise/config.toml',
  '.mise/config.toml',
  '.config/mise.toml',
  '.config/mise/config.toml',
] as const
const MOST = 100

export function readMise(tree: FileTree): readonly FormatFile[] {
  return [
    ...FILES.filter((file) => tree.has(file)).map((file) => mise(tree, file)),
    ...readMiseTaskFiles(tree),
    ...(tree.has('.tool-versions') ? [toolVersions(tree)] : []),
  ]
}

function mise(tree: FileTree, file: string): FormatFile {
  const format = newFormat(file, 'mise')
  const source = readSourceFile(tree, file, format)
  if (!source) return format
  const tools = objectAt(source.data, 'tools')
  for (const name of firstKeys(format, source, ['tools'], MOST)) {
    const written = tools[name]
    const one = Array.isArray(written) ? written[0] : written
    if (Array.isArray(written) && written.length > 1)
      unused(format, source, ['tools', name, 1], 'only the first version of a tool is installed')
    const version = versionText(isObject(one) ? one['version'] : one)
    addMiseTool(
      format,
      name,
      version === 'latest' ? undefined : version,
      sayingOf(source, ['tools', name], version ?? ''),
    )
  }
  readEnv(format, source)
  readMiseTasks(tree, format, source)
  noteOthers(format, source, [], {
    used: ['tools', 'env', 'tasks', 'min_version'],
    why: {
      settings: 'it configures mise, which is not used to install the tools',
      alias: 'it configures mise, which is not used to install the tools',
      tool_alias: 'it configures mise, which is not used to install the tools',
      plugins: 'plugins of mise are not run',
      hooks: 'hooks of mise are not run; write commands under [lifecycle] in agentpod.toml',
      watch_files: 'hooks of mise are not run',
      task_config: 'tasks are read from the usual directories',
      redactions: 'it configures the output of mise',
      vars: 'templates of mise are not evaluated',
      env_file: 'files of variables are not read: they may hold secrets',
    },
  })
  return format
}

/** `_.path` is for the PATH; `_.file` and `_.source` are files that may hold secrets. */
function readEnv(format: FormatDraft, source: SourceFile): void {
  const env = objectAt(source.data, 'env')
  for (const one of variablesAt(format, { ...source, data: { env: withoutUnderscore(env) } }, ['env']))
    format.variables.push(one)
  const more = objectAt(env, '_')
  const paths = typeof more['path'] === 'string' ? [more['path']] : stringsAt(more, 'path')
  for (const written of firstOf(format, source, ['env', '_', 'path'], paths, MOST)) {
    const inside = pathInProject('', written.replace(/^\{\{ ?config_root ?\}\}\//, ''))
    if (inside === undefined || /[{}:]|\p{Cc}/u.test(inside))
      unused(format, source, ['env', '_', 'path'], 'it is not a directory of the project')
    else format.path.push(inside === '' ? '$WORKSPACE' : `$WORKSPACE/${inside}`)
  }
  noteOthers(format, source, ['env', '_'], {
    used: ['path'],
    why: {
      file: 'files of variables are not read: they may hold secrets',
      source: 'scripts are not run to find variables',
      python: 'AgentPod makes the virtual environment itself',
      module: 'plugins of mise are not run',
    },
  })
}

function withoutUnderscore(env: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => name !== '_'))
}

function toolVersions(tree: FileTree): FormatFile {
  const file = '.tool-versions'
  const format = newFormat(file, 'tool-versions')
  const lines = linesIn(tree, file).filter(({ text }) => /^\s*[^\s#]/.test(text))
  const next = lines[MOST]
  if (next)
    format.notes.push(
      `${file}:${next.number}: the lines from here on are not used: there are more than ${MOST}`,
    )
  for (const { text, number } of lines.slice(0, MOST)) {
    const [name = '', version] = text.replace(/#.*$/, '').trim().split(/\s+/)
    if (name === '') continue
    const value = versionText(version)
    addMiseTool(format, name, value === 'latest' ? undefined : value, {
      file,
      line: number,
      said: shortQuote(text),
    })
  }
  return format
}
