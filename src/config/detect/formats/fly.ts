/** `fly.toml`. */
import { listAt, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import {
  addDockerfile,
  addImage,
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
  validPort,
  valueIn,
} from './source-file.ts'

const FILE = 'fly.toml'
const MOST = 20
const DEPLOYS = 'AgentPod does not deploy'
/** Process groups that serve the app. */
const MAIN = ['app', 'web']

const OTHERS = [
  'app', 'primary_region', 'kill_signal', 'kill_timeout', 'swap_size_mb', 'console_command', 'mounts', 'vm', 'checks',
  'metrics', 'statics', 'experimental', 'restart', 'files', 'host_dedication_id', 'http_checks', 'tcp_checks',
] // biome-ignore format: a list of words

export function readFly(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'fly')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  readBuild(tree, format, source)
  deploymentVariables(format, source, ['env'])
  addPort(format, source, ['http_service', 'internal_port'])
  for (const at of firstOf(format, source, ['services'], listAt(source.data, 'services'), MOST).keys())
    addPort(format, source, ['services', at, 'internal_port'])
  for (const name of firstKeys(format, source, ['processes'], MOST)) {
    const path = ['processes', name]
    if (MAIN.includes(name)) addCommand(format, 'start', commandAt(format, source, path))
    else
      unused(
        format,
        source,
        path,
        `it is not started; to start it beside the project, write ${JSON.stringify(name)} = { run = "..." } under [services] in agentpod.toml`,
      )
  }
  const why = Object.fromEntries(OTHERS.map((key) => [key, DEPLOYS]))
  noteOthers(format, source, [], {
    used: ['build', 'env', 'http_service', 'services', 'processes', 'deploy'],
    why,
  })
  noteOthers(format, source, ['deploy'], {
    used: [],
    why: {
      release_command:
        'it runs before a deployment; run it in `agentpod shell`, or as [lifecycle] start in agentpod.toml',
      strategy: DEPLOYS,
      max_unavailable: DEPLOYS,
      wait_timeout: DEPLOYS,
      seed_command: DEPLOYS,
    },
  })
  return [format]
}

function readBuild(tree: FileTree, format: FormatDraft, source: SourceFile): void {
  const file = textAt(source.data, 'build', 'dockerfile')
  const args = Object.fromEntries(
    Object.entries(objectAt(source.data, 'build', 'args')).flatMap(([name, value]) =>
      typeof value === 'string' && /^[A-Za-z_]\w{0,127}$/.test(name) ? [[name, value] as const] : [],
    ),
  )
  const target = textAt(source.data, 'build', 'build-target')
  if (file !== undefined) addDockerfile(tree, format, source, ['build', 'dockerfile'], { file, target, args })
  else if (valueAt(source.data, 'build', 'image') !== undefined) addImage(format, source, ['build', 'image'])
  noteOthers(format, source, ['build'], {
    used: ['dockerfile', 'image', 'args', 'build-target'],
    why: {
      builder: 'AgentPod builds with its own steps',
      buildpacks: 'AgentPod builds with its own steps',
      ignorefile: 'the build context leaves out what git and .dockerignore ignore',
    },
  })
}

function addPort(format: FormatDraft, source: SourceFile, path: SourcePath): void {
  const value = valueIn(source.data, path)
  if (value === undefined) return
  const port = validPort(value)
  if (port === undefined) unused(format, source, path, 'it is not a port')
  else if (!format.ports.some((one) => one.port === port))
    format.ports.push({ port, evidence: sayingOf(source, path, String(port)) })
}
