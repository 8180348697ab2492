/** `.cursor/environment.json`. */
import { isObject, listAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import {
  addDockerfile,
  commandAt,
  firstOf,
  noteOthers,
  readSourceFile,
  type SourceFile,
  sayingOf,
  unused,
  validPort,
} from './source-file.ts'

const FILE = '.cursor/environment.json'
const MOST = 20

export function readCursor(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'cursor')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  const file = textAt(source.data, 'build', 'dockerfile')
  const context = textAt(source.data, 'build', 'context')
  // Both paths are relative to the file's directory.
  if (file !== undefined)
    addDockerfile(tree, format, source, ['build', 'dockerfile'], { file, context, from: '.cursor' })
  const install = commandAt(format, source, ['install'])
  if (install) format.setup.push(install)
  const start = commandAt(format, source, ['start'])
  if (start) format.processes.push({ name: 'cursor-start', ...start })
  readTerminals(format, source)
  for (const [at, one] of firstOf(format, source, ['ports'], listAt(source.data, 'ports'), MOST).entries()) {
    const port = validPort(isObject(one) ? one['port'] : one)
    if (port === undefined) unused(format, source, ['ports', at], 'it is not a port')
    else
      format.ports.push({
        port,
        label: textAt(one, 'name'),
        evidence: sayingOf(source, ['ports', at], String(port)),
      })
  }
  noteOthers(format, source, [], {
    used: ['build', 'install', 'start', 'terminals', 'ports', 'name'],
    why: {
      snapshot: 'only the servers of Cursor have it',
      agentCanUpdateSnapshot: 'only the servers of Cursor have it',
      user: 'write user under [environment] in agentpod.toml',
      repositoryDependencies: 'a sandbox has one project',
    },
  })
  return [format]
}

/** A port that the command names is the sign that it is ready. */
const PORT = /(?:--port[= ]|-p |PORT=|:)(\d{2,5})\b/

function readTerminals(format: FormatDraft, source: SourceFile): void {
  const terminals = listAt(source.data, 'terminals')
  for (const [at, one] of firstOf(format, source, ['terminals'], terminals, MOST).entries()) {
    const command = commandAt(format, source, ['terminals', at, 'command'])
    if (!command) continue
    const name = (textAt(one, 'name') ?? '')
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '')
    const port = validPort(PORT.exec(command.run)?.[1])
    format.processes.push({ name: `cursor-${name.slice(0, 40) || at + 1}`, port, ...command })
  }
}
