/** What the instructions of a Dockerfile read of the build context. */
import { type AgentPodError, invalid } from '../../core/error.ts'
import type { InputFiles } from '../input-files.ts'
import type { DockerfileRequest } from './dockerfile-request.ts'
import type { FrontEnd, Selection } from './front-end.ts'
import { NOTHING, type Selected, type Vertex } from './graph.ts'
import type { ResolvedGraph } from './resolved-graph.ts'

export class ContextSelections {
  readonly #resolved: ResolvedGraph
  readonly #selected = new Map<string, Selected>()

  constructor(resolved: ResolvedGraph) {
    this.#resolved = resolved
  }

  /** Finds out what each copy and mount reads, from the archive that `owner` uploaded. */
  async find(
    parts: { readonly files: InputFiles; readonly frontEnd: FrontEnd },
    request: DockerfileRequest,
    o: { readonly owner: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const wanted = new Map<string, Selection>()
    for (const [number, vertex] of this.#resolved.graph.vertices.entries())
      for (const [at, selection] of this.#selectionsOf(vertex).entries())
        if (selection) wanted.set(`${number}/${at}`, selection)
    if (wanted.size === 0) return
    if (request.context === undefined) throw noContext(request)
    const archive = parts.files.path(o.owner, request.context)
    const found = await parts.frontEnd.select(archive, [...wanted.values()], o.signal)
    for (const [at, place] of [...wanted.keys()].entries()) {
      const selected = found[at]
      if (selected) this.#selected.set(place, selected)
    }
  }

  /** For each action or mount: what it reads of the context, if it reads it. */
  #selectionsOf({ exec, file }: Vertex): (Selection | undefined)[] {
    const isContext = (number: number): boolean => number !== NOTHING && !!this.#resolved.vertex(number).local
    if (file)
      return file.actions.map(({ copy }) => {
        if (!copy || !isContext(copy.from)) return undefined
        const { src, wildcard, include, exclude } = copy
        return { src, wildcard, include, exclude }
      })
    return (exec?.mounts ?? []).map(({ from, selector }) =>
      isContext(from) ? { src: selector ?? '/' } : undefined,
    )
  }

  /** What a vertex reads, one for each of its actions or mounts. */
  of(number: number): (Selected | undefined)[] {
    return this.#selectionsOf(this.#resolved.vertex(number)).map((_, at) =>
      this.#selected.get(`${number}/${at}`),
    )
  }
}

export function noContext({ name }: DockerfileRequest): AgentPodError {
  return invalid('dockerfile.context', `${name} copies files of the build context, and none was sent`)
}
