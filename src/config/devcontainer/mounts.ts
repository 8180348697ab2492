/** Mounts of devcontainer.json, Features and image labels: text in the form of `--mount`, or objects. */
import { isAgentPodError } from '../../core/error.ts'
import { isNeverKept, parseEphemeralPath } from '../../core/volume/ephemeral.ts'
import { readEngineMib } from '../../util/quantity.ts'
import { MOUNT_KINDS, type MountValue } from './properties.ts'

export interface DevcontainerMount {
  /** Undefined if it is none that the specification has. */
  readonly kind: (typeof MOUNT_KINDS)[number] | undefined
  readonly source?: string | undefined
  /** The path inside. */
  readonly target: string
  readonly isReadOnly: boolean
  /** `tmpfs-size`. */
  readonly sizeMib?: number | undefined
  /** What else the text says, such as `consistency=cached`. */
  readonly others: readonly string[]
}

const KEYS: Readonly<Record<string, string>> = { src: 'source', dst: 'target', destination: 'target' }

/** The engine's default kind is `volume`. */
export function parseMount(value: MountValue): DevcontainerMount {
  if (typeof value !== 'string') {
    const { type, source, target } = value
    return { kind: type, ...(source !== undefined && { source }), target, isReadOnly: false, others: [] }
  }
  const fields = new Map<string, string>()
  const others: string[] = []
  for (const part of mountParts(value)) {
    const at = part.indexOf('=')
    const name = at < 0 ? part : part.slice(0, at)
    const key = Object.hasOwn(KEYS, name) ? (KEYS[name] ?? name) : name
    if (['type', 'source', 'target'].includes(key)) fields.set(key, at < 0 ? '' : part.slice(at + 1))
    else if (!isReadOnlyPart(part)) others.push(part)
  }
  const source = fields.get('source')
  const size = others.find((part) => part.startsWith('tmpfs-size='))
  const sizeMib = readEngineMib(size?.slice('tmpfs-size='.length) ?? '')
  const kind = fields.get('type') ?? 'volume'
  return {
    kind: MOUNT_KINDS.find((known) => known === kind),
    ...(source !== undefined && { source }),
    target: fields.get('target') ?? '',
    isReadOnly: mountParts(value).some(isReadOnlyPart),
    ...(sizeMib !== undefined && { sizeMib }),
    others: sizeMib === undefined ? others : others.filter((part) => part !== size),
  }
}

function isReadOnlyPart(part: string): boolean {
  return /^(?:readonly|ro)(?:=(?:true|1))?$/.test(part)
}

/** Whether a temporary file system can be there: /tmp and /run are such already. */
export function isTemporaryTarget(target: string): boolean {
  if (isNeverKept(target)) return true
  try {
    parseEphemeralPath(target)
    return true
  } catch (error) {
    if (!isAgentPodError(error, 'invalid_argument')) throw error
    return false
  }
}

/** Parts are separated by commas; a part in quotes may hold one. */
function mountParts(text: string): string[] {
  return [...text.matchAll(/"([^"]*)"|([^,"]+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

/**
 * The target by which the official command tells two mounts apart: it splits at every comma, and knows no
 * quotes.
 */
export function comparedTarget(value: MountValue): string | undefined {
  if (typeof value !== 'string') return value.target
  let target: string | undefined
  for (const part of value.split(',')) {
    const [name = '', said] = part.split('=')
    const key = Object.hasOwn(KEYS, name) ? KEYS[name] : name
    if (key === 'target') target = said
  }
  return target
}
