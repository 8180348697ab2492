/** Keys of layers that a Dockerfile makes, and the steps that describe them in the cache. */
import { createHash } from 'node:crypto'
import type { NetworkRule } from '../../core/network.ts'
import type { Step } from '../../core/recipe.ts'
import { canonicalJson } from '../../util/canonical-json.ts'
import { NOTHING, type Selected, type Vertex } from './graph.ts'

/** Increase this when a vertex is executed differently. */
const EXECUTOR = 2

export interface KeyInputs {
  /** The keys of the vertices before it, by number. */
  key(vertex: number): string
  /** What a copy or mount of this vertex reads of the context, in order; undefined for other sources. */
  readonly selected: readonly (Selected | undefined)[]
  readonly network: readonly NetworkRule[]
  /** Makes the key unique, for a build without the cache. */
  readonly salt?: string | undefined
  /** What was found at an address without a checksum. */
  readonly content?: string | undefined
}

/**
 * SECURITY: network rules are part of the key, as for steps of a recipe. Secrets are not: their values must
 * not be found out by trying keys.
 */
export function vertexKey(vertex: Vertex, o: KeyInputs): string {
  const { exec, file, http, git } = vertex
  const from = (number: number, at: number): string =>
    o.selected[at]?.digest ?? (number === NOTHING ? 'nothing' : o.key(number))
  const what = exec
    ? {
        exec: {
          ...exec,
          root: from(exec.root, -1),
          mounts: exec.mounts?.map((one, at) => ({ ...one, from: from(one.from, at) })),
        },
        network: exec.network === 'none' ? [] : o.network,
      }
    : file
      ? {
          root: from(file.root, -1),
          actions: file.actions.map((action, at) =>
            action.copy ? { copy: { ...action.copy, from: from(action.copy.from, at) } } : action,
          ),
        }
      : { http, git, content: o.content }
  return digestOf(['dockerfile', EXECUTOR, what, o.salt ?? ''])
}

/** How the cache remembers it: a later build is compared with this. */
export function stepOf(
  vertex: Vertex,
  name: string,
  o: Pick<KeyInputs, 'selected' | 'network'> & { readonly timeoutMs: number },
): Step {
  const { exec, file, http, git } = vertex
  const entries = Object.assign({}, ...o.selected.map((one) => one?.files ?? {})) as Record<string, string>
  const digests = o.selected.flatMap((one) => one?.digest ?? [])
  return {
    name,
    title: titleOf(vertex),
    run: exec
      ? exec.args.join(' ')
      : canonicalJson(file?.actions ?? http ?? git ?? null).slice(0, LONGEST_RUN),
    user: exec?.user ?? '',
    workdir: exec?.cwd ?? '',
    path: [],
    variables: envVariables(exec?.env ?? []),
    ...(digests.length > 0 && { files: { digest: digestOf(digests), to: '', entries } }),
    network: exec && exec.network !== 'none' ? o.network : [],
    timeoutMs: o.timeoutMs,
    ...(exec?.mounts && { mountPoints: exec.mounts.map(({ path }) => path) }),
  }
}

const LONGEST_RUN = 16 * 1024

export function envVariables(env: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    env.map((text) => {
      const at = text.indexOf('=')
      return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
    }),
  )
}

/** `build/2` for the second instruction of the stage `build`: the same in the next build. */
export function namesOf(vertices: readonly Vertex[]): string[] {
  const taken = new Map<string, number>()
  return vertices.map(({ title }) => {
    const { stage, place } = partsOf(title)
    const name = place === undefined ? 'prepare' : `${stage?.toLowerCase() ?? 'stage'}/${place}`
    const count = (taken.get(name) ?? 0) + 1
    taken.set(name, count)
    return count === 1 ? name : `${name}.${count}`
  })
}

/** BuildKit's titles are `[2/3] RUN make`, or `[build 2/3] RUN make` if there are several stages. */
function partsOf(title: string): {
  readonly stage: string | undefined
  readonly place: string | undefined
  readonly text: string
} {
  const [, stage, place, text] = /^\[(?:(\S+) +)?([0-9]+)\/[0-9]+\] ([\s\S]*)$/.exec(title) ?? []
  return { stage, place, text: text ?? title.replace(/^\[internal\] /, '') }
}

/** For people: `build: RUN make`. */
export function titleOf({ title }: Vertex): string {
  const { stage, text } = partsOf(title)
  const line = text.replaceAll(/\s+/g, ' ')
  return stage === undefined ? line : `${stage}: ${line}`
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex')
}
