/** `railway.toml` and `railway.json`. */
import type { FileTree } from '../../file-tree.ts'
import { textAt } from '../project-files/parsed-file.ts'
import { addCommand, type FormatFile, newFormat } from './format-file.ts'
import { readNixpacksPlan } from './nixpacks.ts'
import { addDockerfile, commandAt, noteOthers, readSourceFile, unused } from './source-file.ts'

const FILES = ['railway.toml', 'railway.json'] as const
const DEPLOYS = 'AgentPod does not deploy'

export function readRailway(tree: FileTree): readonly FormatFile[] {
  return FILES.filter((file) => tree.has(file)).map((file) => {
    const format = newFormat(file, 'railway')
    const source = readSourceFile(tree, file, format)
    if (!source) return format
    const path = textAt(source.data, 'build', 'dockerfilePath')
    const builder = textAt(source.data, 'build', 'builder')?.toUpperCase()
    if (path !== undefined)
      addDockerfile(tree, format, source, ['build', 'dockerfilePath'], { file: path.replace(/^\//, '') })
    else if (builder === 'DOCKERFILE')
      addDockerfile(tree, format, source, ['build', 'builder'], { file: 'Dockerfile' })
    else if (builder !== undefined && !['NIXPACKS', 'RAILPACK'].includes(builder))
      unused(format, source, ['build', 'builder'], 'AgentPod builds with its own steps')
    addCommand(format, 'build', commandAt(format, source, ['build', 'buildCommand']))
    addCommand(format, 'start', commandAt(format, source, ['deploy', 'startCommand']))
    readNixpacksPlan(format, source, ['build', 'nixpacksPlan'])
    noteOthers(format, source, [], {
      used: ['build', 'deploy'],
      why: { environments: 'it configures deployments of Railway' },
    })
    noteOthers(format, source, ['build'], {
      used: ['builder', 'buildCommand', 'dockerfilePath', 'nixpacksPlan'],
      why: {
        watchPatterns: DEPLOYS,
        nixpacksConfigPath: 'nixpacks.toml is read from the root of the project',
        railpackConfigPath: 'railpack.json is read from the root of the project',
        nixpacksVersion: 'AgentPod builds with its own steps',
        railpackVersion: 'AgentPod builds with its own steps',
        buildEnvironment: DEPLOYS,
      },
    })
    noteOthers(format, source, ['deploy'], {
      used: ['startCommand'],
      why: {
        preDeployCommand:
          'it runs before a deployment; run it in `agentpod shell`, or as [lifecycle] start in agentpod.toml',
        ...Object.fromEntries(DEPLOY_KEYS.map((key) => [key, DEPLOYS])),
      },
    })
    return format
  })
}

const DEPLOY_KEYS = [
  'healthcheckPath',
  'healthcheckTimeout',
  'restartPolicyType',
  'restartPolicyMaxRetries',
  'numReplicas',
  'cronSchedule',
  'region',
  'sleepApplication',
  'multiRegionConfig',
  'runtime',
  'overlapSeconds',
  'drainingSeconds',
  'limitOverride',
  'requiredMountPath',
  'ipv6EgressEnabled',
]
