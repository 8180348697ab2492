/** `e2b.toml`. */
import type { FileTree } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { type FormatFile, newFormat } from './format-file.ts'
import { addDockerfile, commandAt, noteOthers, readSourceFile } from './source-file.ts'

const FILE = 'e2b.toml'
const OF_E2B = 'it names a template on the servers of E2B'

export function readE2b(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'e2b')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  const file = textAt(source.data, 'dockerfile')
  if (file !== undefined) addDockerfile(tree, format, source, ['dockerfile'], { file })
  const start = commandAt(format, source, ['start_cmd'])
  const ready = commandAt(format, source, ['ready_cmd'])
  if (start) format.processes.push({ name: 'e2b-start', ...start, ready: ready?.run })
  noteOthers(format, source, [], {
    used: ['dockerfile', 'start_cmd', 'ready_cmd'],
    why: {
      template_id: OF_E2B,
      template_name: OF_E2B,
      team_id: OF_E2B,
      cpu_count: 'write cpus under [resources] in agentpod.toml',
      memory_mb: 'write memory under [resources] in agentpod.toml',
    },
  })
  return [format]
}
