/** The services of a devcontainer whose container is a service of compose files. */
import { posix } from 'node:path'
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'
import { composeFilesIn, readCompose } from '../compose/compose-project.ts'
import type { ComposeProject, ComposeService } from '../compose/model.ts'
import type { ChosenService } from '../compose/project-service.ts'
import { directoryOf, type FileTree } from '../file-tree.ts'
import type { Path } from '../toml/positions.ts'
import { printable } from '../toml/problem.ts'
import type { DevcontainerFile, DevcontainerSource } from './devcontainer-file.ts'

/** The service that people work in, and the services that run with it. */
export interface DevcontainerCompose extends ChosenService {
  readonly compose: ComposeProject
  /** Services that `runServices` leaves out. */
  readonly left: readonly string[]
}

export interface ComposeRequest {
  readonly document: DevcontainerFile
  readonly source: Extract<DevcontainerSource, { kind: 'from-compose' }>
  readonly tree: Pick<FileTree, 'has' | 'read' | 'isLeftOut'>
  /** The absolute path of the project: a mount of a directory above it has the project in it. */
  readonly directory: string
  readonly profiles?: readonly string[] | undefined
}

/** Throws one error that names the file and the line. */
export function devcontainerCompose({ document, source, tree, ...o }: ComposeRequest): DevcontainerCompose {
  const place = (path: Path): string => `${document.file}:${document.at(path)?.line ?? 1}`
  const files = composeFiles({ document, source, tree, ...o }, place)
  const named = [...new Set([source.service, ...(source.runServices ?? [])])]
  const read = (profiles: readonly string[]): ComposeProject =>
    readCompose({
      files,
      read: (file) => tree.read(file),
      isLeftOut: (file) => tree.isLeftOut(file),
      profiles,
      directory: o.directory,
    })
  const usual = read(o.profiles ?? [])
  // As with Docker, a service that is named needs no profile.
  const all = named.some((name) => usual.inactive.some((one) => one.name === name)) ? read(['*']) : usual
  for (const [n, name] of [source.service, ...(source.runServices ?? [])].entries()) {
    if (all.services.some((one) => one.name === name)) continue
    const near = nearest(
      name,
      all.services.map((one) => one.name),
    )
    const at: Path = n === 0 ? ['service'] : ['runServices', n - 1]
    throw invalid(
      'devcontainer.service',
      `${place(at)}: ${at[0]}: ${files.join(', ')} has no service ${JSON.stringify(printable(name))}`,
      near === undefined
        ? `the services are ${all.services.map((one) => one.name).join(', ')}`
        : `did you mean ${near}?`,
    )
  }
  const started = source.runServices?.length ? named : [source.service, ...usual.services.map(nameOf)]
  const services = withDependencies(all.services, started)
  const service = services.find(({ name }) => name === source.service)
  if (!service) throw new TypeError(`the service ${source.service} is not among the services that run`)
  return {
    service,
    why: `${place(['service'])} names it`,
    compose: {
      ...all,
      services,
      inactive: usual.inactive.filter((one) => !services.some(({ name }) => name === one.name)),
    },
    left: usual.services.filter((one) => !services.some(({ name }) => name === one.name)).map(nameOf),
  }
}

function nameOf({ name }: ComposeService): string {
  return name
}

/** `services` is ordered: each is after those that it depends on. */
function withDependencies(services: readonly ComposeService[], names: readonly string[]): ComposeService[] {
  const wanted = new Set(names)
  for (const { name, dependsOn } of [...services].reverse())
    if (wanted.has(name)) for (const one of dependsOn) wanted.add(one.service)
  return services.filter(({ name }) => wanted.has(name))
}

/** Relative to the project. Without any, those that Docker would use at the top of the project. */
function composeFiles({ document, source, tree }: ComposeRequest, place: (path: Path) => string): string[] {
  if (source.composeFiles.length === 0) {
    const usual = composeFilesIn('', (file) => tree.has(file))
    if (usual.length > 0) return usual
    throw invalid(
      'devcontainer.compose_file',
      `${place(['dockerComposeFile'])}: dockerComposeFile names no file, and the project has no compose.yaml`,
    )
  }
  return source.composeFiles.map((written, n) => {
    const file = posix.normalize(posix.join(directoryOf(document.file) || '.', written))
    const at: Path =
      document.at(['dockerComposeFile', n]) === undefined ? ['dockerComposeFile'] : ['dockerComposeFile', n]
    const shown = JSON.stringify(printable(written))
    if (posix.isAbsolute(written) || file === '..' || file.startsWith('../'))
      throw invalid(
        'devcontainer.outside',
        `${place(at)}: dockerComposeFile ${shown} is outside the project`,
        'a sandbox only gets files of the project: move it into the project',
      )
    if (tree.read(file) !== undefined) return file
    throw invalid(
      'devcontainer.compose_file',
      `${place(at)}: dockerComposeFile ${shown}: ${tree.has(file) ? `${printable(file)} is not a text file of at most 1 MiB` : `the project has no file ${printable(file)}`}`,
      'the path is relative to the devcontainer.json; git must not ignore the file',
    )
  })
}

/** Where the service has the project: the target of its mount, if the workspace is in it. */
export function composeWorkspace({ mounts }: ComposeService, folder: string): string | undefined {
  const targets = mounts.flatMap((mount) =>
    mount.kind === 'bind' && mount.source === '' ? [posix.normalize(mount.target).replace(/\/$/, '')] : [],
  )
  return targets.find((target) => `${folder}/`.startsWith(`${target}/`))
}
