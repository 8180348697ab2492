/** What a front end asks about the network of a sandbox, beside what the files say. */
import type { NetworkWish } from '../../config/network/network-table.ts'
import type { NetworkMode } from '../../core/network.ts'

export interface NetworkOptions {
  readonly mode?: NetworkMode | undefined
  /** Rules such as `example.com` or `*.example.com:8443`. */
  readonly allow?: readonly string[] | undefined
  /** Rules whose hosts may resolve to private addresses. */
  readonly allowPrivate?: readonly string[] | undefined
  readonly deny?: readonly string[] | undefined
  /** Presets such as `npm` or `pip`. */
  readonly presets?: readonly string[] | undefined
  /** Names of secrets; the sandbox gets a placeholder for each. */
  readonly secrets?: readonly string[] | undefined
  /** Intercept all TLS, not only where rules or secrets need it. */
  readonly interceptAll?: boolean | undefined
}

/** Where the rest comes from. */
export interface NetworkSources {
  /** The project's directory, where there is a project. */
  readonly directory?: string | undefined
  /** What the files ask for, where that was read along with an environment. */
  readonly wish?: NetworkWish | undefined
}

/** A rule with ports and a path in its text, whose host may resolve to private addresses. */
export function privateRule(text: string): {
  host: string
  ports?: number[]
  paths?: string[]
  private: true
} {
  const [, host = '', ports, path] = /^([^/:]*)(?::([\d,]+))?(\/.*)?$/s.exec(text) ?? []
  return {
    host: host === '' ? text : host,
    ...(ports !== undefined && { ports: ports.split(',').map(Number) }),
    ...(path !== undefined && { paths: [path] }),
    private: true,
  }
}
