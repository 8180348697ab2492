/** A compose file, for `init --from`. Without agentpod.toml, the services of the file run as a group. */
import { isImageRef } from '../../../core/image-ref.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { composeFilesIn, readCompose } from '../../compose/compose-project.ts'
import type { ComposeProject, ComposeService } from '../../compose/model.ts'
import { projectService } from '../../compose/project-service.ts'
import { serviceDockerfile } from '../../compose/service-dockerfile.ts'
import { isVariableName, serviceSettings } from '../../compose/service-settings.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree } from '../../file-tree.ts'
import { rankOfFile } from '../../source-rank.ts'
import { printable } from '../../toml/problem.ts'
import { imageName } from '../project-files/image-name.ts'
import { SERVICE_IMAGES } from '../services/known-names.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'

/** Throws if the file has mistakes: this file was asked for. */
export function readComposeFormat(tree: FileTree, file: string): FormatDraft {
  const usual = composeFilesIn(directoryOf(file), (one) => tree.has(one))
  const files = usual[0] === file ? usual : [file]
  const compose = readCompose({ files, read: (one) => tree.read(one) })
  const format = newFormat(file, 'compose')
  addComposeServices(format, tree, compose, projectService(compose)?.service)
  return format
}

/** What agentpod.toml can say of the services; the rest is noted. */
export function addComposeServices(
  format: FormatDraft,
  tree: FileTree,
  compose: ComposeProject,
  main: ComposeService | undefined,
): void {
  const note = ({ file, line }: Pick<Evidence, 'file' | 'line'>, text: string): void =>
    void format.notes.push(`${line === undefined ? file : `${file}:${line}`}: ${text}`)
  for (const one of compose.notes) note(one, one.said)
  if (main) addMain(format, tree, main, (text) => note(main, `services.${main.name}.${text}`))
  for (const one of compose.services)
    if (one !== main && !isKnown(one))
      note(
        one,
        `services.${one.name} is not used: agentpod.toml has no service for ${one.build ? 'a Dockerfile' : printable(one.image ?? '')}; write its command under [services]`,
      )
  for (const one of compose.inactive)
    note(one, `services.${printable(one.name)} is not used: it belongs to a profile`)
}

function isKnown({ image, build }: ComposeService): boolean {
  const name = build || image === undefined ? undefined : imageName(image)?.name
  return name !== undefined && SERVICE_IMAGES.some(([pattern]) => pattern.test(name))
}

/** Commands that only keep a container running. */
const WAITING = /^(?:sleep|tail)\b|^(?:\/(?:usr\/)?bin\/)?(?:ba|da|a|z|k|fi)?sh$/

/** Whether a command has nothing to do without a person. */
export function isWaiting(words: readonly string[]): boolean {
  return WAITING.test(words.join(' '))
}

/** The service that is the project, as a file of its own: its base, variables, ports and command. */
export function serviceFormat(
  tree: FileTree,
  { files }: ComposeProject,
  service: ComposeService,
): FormatFile {
  const format = newFormat(files[0] ?? service.file, 'compose')
  const { workspace } = serviceSettings(service)
  const { workingDir } = service
  const isElsewhere = workingDir !== undefined && workingDir !== workspace
  addParts(format, tree, {
    service: {
      ...service,
      environment: Object.fromEntries(
        Object.entries(service.environment).filter(([name]) => isVariableName(name)),
      ),
    },
    before: isElsewhere ? `cd ${shellWord(workingDir)} && exec ` : '',
    unused: () => undefined,
  })
  return format
}

interface AddedParts {
  readonly service: ComposeService
  /** Goes before the words of the command. */
  readonly before: string
  unused(text: string): void
}

function addParts(format: FormatDraft, tree: FileTree, { service, before, unused }: AddedParts): void {
  const { file, line, name, image, command, entrypoint } = service
  // The rank of a value comes from its file's name, and a devcontainer's compose file may have any name.
  const isNamed = rankOfFile(file) === 'compose file'
  const said = (text: string): Evidence =>
    isNamed
      ? { file, line, said: printable(`services.${name}.${text}`, 80) }
      : { file: format.file, said: printable(`${file}:${line ?? 1} services.${name}.${text}`, 80) }
  const { rank } = format
  const dockerfile = serviceDockerfile(tree, service)
  if (dockerfile) {
    if (tree.read(dockerfile.file) === undefined)
      unused(`build is not used: the project has no file ${printable(dockerfile.file)}`)
    else format.bases.push({ dockerfile, evidence: said(`build: ${dockerfile.file}`), rank })
  } else if (image !== undefined && isImageRef(image))
    format.bases.push({ image, evidence: said(`image: ${image}`), rank })
  for (const [key, value] of Object.entries(service.environment))
    format.variables.push({ name: key, value, evidence: said(`environment ${key}`) })
  for (const { target, line: at } of service.ports)
    format.ports.push({
      port: target,
      label: name,
      evidence: { ...said('ports'), ...(isNamed && { line: at ?? line }) },
    })
  const words = [...(entrypoint ?? []), ...(command ?? [])]
  if (words.length > 0 && !isWaiting(words))
    addCommand(format, 'dev', {
      run: `${before}${words.map(shellWord).join(' ')}`,
      evidence: said('command'),
    })
}

function addMain(
  format: FormatDraft,
  tree: FileTree,
  service: ComposeService,
  unused: (text: string) => void,
): void {
  addParts(format, tree, { service, before: '', unused })
  for (const mount of service.mounts)
    if (mount.kind === 'volume')
      unused(`volumes ${mount.name} is not used: write it under [volumes], with the path ${mount.target}`)
    else if (mount.kind === 'tmpfs') unused(`tmpfs ${mount.target} is not used: write it under [ephemeral]`)
    else if (mount.kind === 'bind' && mount.source !== '')
      unused(`volumes ${mount.source} is not used: a sandbox has a copy of the whole project`)
  const others = {
    user: [service.user, 'write user under [environment]'],
    working_dir: [service.workingDir, 'commands run in the project'],
    cpus: [service.cpus, 'write cpus under [resources]'],
    mem_limit: [service.memoryMib, 'write memory under [resources]'],
    healthcheck: [service.healthcheck?.test, 'nothing waits for the project itself'],
    configs: [service.files[0], 'add the file to the project'],
  } as const
  for (const [key, [value, why]] of Object.entries(others))
    if (value !== undefined) unused(`${key} is not used: ${why}`)
}
