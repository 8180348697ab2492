/** A Feature to install, and the variables that Features give to the container. */

/** A Feature with everything that its installation needs. */
export interface FeatureInstall {
  /** As devcontainer.json, or the Feature that depends on it, names it. */
  readonly name: string
  readonly id: string
  readonly version: string | undefined
  /** Of the manifest or the tarball; folders have none. */
  readonly digest: string | undefined
  /** Options as variables of the install script. */
  readonly variables: Readonly<Record<string, string>>
  /** Variables that the container has from this Feature on, with what they refer to replaced. */
  readonly containerEnv: Readonly<Record<string, string>>
  /** A clean tar file of its files. Nothing outside the step's sandbox unpacks it. */
  readonly archive: Buffer
}

/**
 * `${NAME}` and `$NAME` in a Feature's `containerEnv`, as in `ENV` of a Dockerfile: they stand for what the
 * container had before.
 */
export function expandedEnv(
  wanted: Readonly<Record<string, string>>,
  before: Readonly<Record<string, string>>,
): Record<string, string> {
  const of = (name: string): string => (Object.hasOwn(before, name) ? (before[name] ?? '') : '')
  return Object.fromEntries(
    Object.entries(wanted).map(([name, text]) => [
      name,
      text.replaceAll(
        /\\\$|\$\{([A-Za-z_]\w*)(?::([-+])([^}]*))?\}|\$([A-Za-z_]\w*)/g,
        (match: string, braced?: string, sign?: string, other?: string, plain?: string) => {
          if (match === '\\$') return '$'
          const value = of(braced ?? plain ?? '')
          if (sign === '-') return value === '' ? (other ?? '') : value
          if (sign === '+') return value === '' ? '' : (other ?? '')
          return value
        },
      ),
    ]),
  )
}
