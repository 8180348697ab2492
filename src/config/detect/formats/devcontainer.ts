/** devcontainer.json, for `init --from`. Without agentpod.toml, the whole file is used. */
import { isImageRef } from '../../../core/image-ref.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { devcontainerCompose } from '../../devcontainer/compose-source.ts'
import {
  type DevcontainerFile,
  type DevcontainerSource,
  devcontainerSource,
  parseDevcontainer,
} from '../../devcontainer/devcontainer-file.ts'
import { lifecycleStep, OWN_ORIGIN } from '../../devcontainer/lifecycle.ts'
import type { LifecycleStage } from '../../devcontainer/properties.ts'
import { directoryOf, type FileTree } from '../../file-tree.ts'
import { addComposeServices } from './compose.ts'
import { type FormatDraft, newFormat } from './format-file.ts'
import { addDockerfile, evidenceOf, noteOthers, type SourceFile, unused, variablesAt } from './source-file.ts'

const SETUP: readonly LifecycleStage[] = ['onCreateCommand', 'updateContentCommand', 'postCreateCommand']
const USED = [
  ...['name', 'image', 'build', 'dockerFile', 'context', 'dockerComposeFile', 'service', 'runServices'],
  ...[...SETUP, 'postStartCommand', 'containerEnv', 'remoteEnv', 'forwardPorts', 'portsAttributes'],
]
const WHY: Readonly<Record<string, string>> = {
  features: 'agentpod.toml has no Features; write languages and packages under [environment]',
  overrideFeatureInstallOrder: 'agentpod.toml has no Features',
  remoteUser: 'write user under [environment]',
  containerUser: 'write user under [environment]',
  workspaceFolder: 'the project is in a directory of the user',
  workspaceMount: 'a sandbox has a copy of the project',
  mounts: 'write directories that are kept under [volumes]',
  hostRequirements: 'write cpus, memory and disk under [resources]',
  secrets: 'write them under [secrets]',
  customizations: 'agentpod.toml takes the tables of customizations.agentpod; others are for other tools',
  initializeCommand: 'nothing of a project runs on this machine',
  postAttachCommand: 'agentpod.toml has no command for shells that open',
  appPort: 'write it under [ports]',
  otherPortsAttributes: 'ports have only labels',
  shutdownAction: 'sandboxes stop by the rules of their lifetime',
  overrideCommand: 'the command of an image is not started',
  waitFor: 'commands wait for all steps',
  userEnvProbe: 'agentpod.toml names all variables',
  updateRemoteUserUID: 'no directory of this machine is mounted',
}
const NO_KEY = 'agentpod.toml has no such key'

/** Throws if the file has mistakes: this file was asked for. */
export function readDevcontainerFormat(tree: FileTree, file: string, directory: string): FormatDraft {
  const document = parseDevcontainer({ file, text: tree.read(file) ?? '' })
  const source: SourceFile = { file, data: document.raw, lineAt: (path) => document.at(path)?.line }
  const format = newFormat(file, 'devcontainer')
  addSource({ format, tree, document, source, directory })
  for (const key of ['containerEnv', 'remoteEnv'])
    format.variables.push(...variablesAt(format, source, [key]))
  for (const stage of SETUP) format.setup.push(...commandsOf(document, source, stage))
  format.start.push(...commandsOf(document, source, 'postStartCommand'))
  const { forwardPorts = [], portsAttributes = {} } = document.properties
  for (const [n, said] of forwardPorts.entries()) {
    const port = Number(/^(?:(?:localhost|127\.0\.0\.1):)?([0-9]{1,5})$/.exec(String(said))?.[1])
    const path = ['forwardPorts', n]
    if (Number.isNaN(port)) unused(format, source, path, 'it is a port of another service')
    else
      format.ports.push({
        port,
        label: Object.hasOwn(portsAttributes, String(port))
          ? portsAttributes[String(port)]?.label
          : undefined,
        evidence: evidenceOf(source, path, `forwardPorts ${port}`),
      })
  }
  const why = { ...Object.fromEntries(Object.keys(document.raw).map((key) => [key, NO_KEY])), ...WHY }
  noteOthers(format, source, [], { used: USED, why })
  return format
}

interface Parts {
  readonly format: FormatDraft
  readonly tree: FileTree
  readonly document: DevcontainerFile
  readonly source: SourceFile
  readonly directory: string
}

function addSource({ format, tree, document, source, directory }: Parts): void {
  const from: DevcontainerSource = devcontainerSource(document.properties)
  if (from.kind === 'from-compose') {
    const found = devcontainerCompose({ document, source: from, tree, directory })
    addComposeServices(format, tree, found.compose, found.service)
  } else if (from.kind === 'from-image') {
    const evidence = evidenceOf(source, ['image'], `image: ${from.image}`)
    if (isImageRef(from.image)) format.bases.push({ image: from.image, evidence, rank: format.rank })
    else unused(format, source, ['image'], 'it is not the name of an image')
  } else {
    const path = document.properties.dockerFile === undefined ? ['build', 'dockerfile'] : ['dockerFile']
    const { dockerfile, context, target, args, options, cacheFrom } = from
    const place = directoryOf(document.file)
    addDockerfile(tree, format, source, path, { file: dockerfile, from: place, context, target, args })
    if (options.length > 0) unused(format, source, ['build', 'options'], 'it is for another build program')
    if (cacheFrom.length > 0) unused(format, source, ['build', 'cacheFrom'], 'layers have their own cache')
  }
}

function commandsOf(
  { properties }: DevcontainerFile,
  source: SourceFile,
  stage: LifecycleStage,
): FormatDraft['start'] {
  const step = lifecycleStep(OWN_ORIGIN, properties[stage])
  return (step?.runs ?? []).map(({ run }) => {
    const text = 'shell' in run ? run.shell : run.program.map(shellWord).join(' ')
    return { run: text, evidence: evidenceOf(source, [stage], `${stage}: ${text}`) }
  })
}
