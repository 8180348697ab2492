/** A service with the services that it extends. */
import { nearest } from '../../util/nearest.ts'
import { directoryOf } from '../file-tree.ts'
import type { Path } from '../toml/positions.ts'
import { printable, quoted } from '../toml/problem.ts'
import type { ComposeFile, ComposeFiles } from './compose-file.ts'
import { missingHint } from './included-files.ts'
import { type ComposeResources, insideProject, readService, type ServicePart } from './service.ts'

export interface ServiceReading {
  readonly files: ComposeFiles
  /** The files of the project, in their order. */
  readonly ordered: readonly ComposeFile[]
  readonly resources: ComposeResources
  readonly project: string | undefined
}

/** Gives the parts of a service, the most basic first. Each service of each file is read once. */
export function serviceReader(
  reading: ServiceReading,
): (file: ComposeFile, name: string) => readonly ServicePart[] {
  const known = new Map<ComposeFile, Map<string, readonly ServicePart[]>>()
  const read = (file: ComposeFile, name: string, trail: readonly string[]): readonly ServicePart[] => {
    const ofFile = known.get(file) ?? new Map<string, readonly ServicePart[]>()
    known.set(file, ofFile)
    const before = ofFile.get(name)
    if (before) return before
    const table = file.table.services?.[name]
    if (!table) return []
    const { files, resources, project } = reading
    const own = readService(
      {
        ...file,
        resources,
        project,
        read: (path) => files.text(path),
        isLeftOut: (path) => files.isLeftOut(path),
      },
      name,
      table,
    )
    const path: Path = ['services', name, 'extends']
    const base =
      table.extends &&
      baseOf(reading, file, path, { ...table.extends, trail: [...trail, placeOf(file, name)] })
    const parts = base ? [...read(base.file, base.name, base.trail), own] : [own]
    ofFile.set(name, parts)
    return parts
  }
  return (file, name) => read(file, name, [])
}

function placeOf({ file }: ComposeFile, name: string): string {
  return `${printable(file)} ${printable(name)}`
}

interface Base {
  readonly file: ComposeFile
  readonly name: string
  readonly trail: readonly string[]
}

function baseOf(
  { files, ordered }: ServiceReading,
  file: ComposeFile,
  path: Path,
  o: { readonly service: string; readonly file?: string | undefined; readonly trail: readonly string[] },
): Base | undefined {
  const wrong = (message: string, hint?: string, reason = 'compose.extends'): undefined =>
    void file.remarks.push({ path, message, hint, reason })
  const target =
    o.file === undefined ? ownFile(ordered, file, o.service) : otherFile(files, file, path, o.file)
  if (!target) return undefined
  const names = Object.keys(target.table.services ?? {})
  if (!names.includes(o.service)) {
    const near = nearest(o.service, names)
    return wrong(
      `${printable(target.file)} has no service ${quoted(o.service)}`,
      near === undefined ? 'name a service of that file' : `did you mean ${near}?`,
    )
  }
  const place = placeOf(target, o.service)
  if (o.trail.includes(place)) {
    const cycle = [...o.trail.slice(o.trail.indexOf(place)), place]
    return wrong(`services extend each other: ${cycle.join(' → ')}`, 'remove one of these', 'compose.cycle')
  }
  return { file: target, name: o.service, trail: o.trail }
}

/** An override file may extend a service of the file that it overrides. */
function ownFile(ordered: readonly ComposeFile[], file: ComposeFile, service: string): ComposeFile {
  const has = ({ table }: ComposeFile): boolean => Object.hasOwn(table.services ?? {}, service)
  return has(file) ? file : (ordered.findLast((one) => has(one)) ?? file)
}

/** Paths in the other file are relative to it. */
function otherFile(
  files: ComposeFiles,
  file: ComposeFile,
  path: Path,
  written: string,
): ComposeFile | undefined {
  const inside = insideProject(file, [...path, 'file'], written)
  if (inside === undefined) return undefined
  if (inside === file.file) return file
  const found = files.open(inside, directoryOf(inside), file.variables)
  if (!found)
    file.remarks.push({
      path: [...path, 'file'],
      message: `there is no file ${quoted(written)}`,
      hint: missingHint(files, inside),
      reason: 'compose.missing',
    })
  return found
}
