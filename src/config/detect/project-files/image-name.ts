/** Reads names of container images. */

export interface ImageName {
  /** Without a registry: `bitnami/postgresql`, `node`. */
  readonly name: string
  /** Without a digest; empty if there is none. */
  readonly tag: string
}

/**
 * Undefined for names with variables that have no default, and for text that is not a name. A variable with a
 * default, `${TAG:-16}`, counts as its default.
 */
export function imageName(written: string): ImageName | undefined {
  const plain = written.trim().replaceAll(/\$\{\w{1,60}:?-([\w.:/-]{0,100})\}/g, '$1')
  const [, path = '', tag = ''] =
    /^([\w./-]{1,200}(?::\d{1,5}\/[\w./-]{1,200})?)(?::([\w.-]{1,128}))?(?:@|$)/.exec(plain) ?? []
  if (path === '') return undefined
  const parts = path.split('/')
  const isRegistry = parts.length > 1 && /[.:]|^localhost$/.test(parts[0] ?? '')
  const name = (isRegistry ? parts.slice(1) : parts).filter((part) => part !== 'library').join('/')
  return { name, tag }
}

/** The version at the start of a tag: `16` for `16-alpine`. */
export function tagVersion(tag: string): string | undefined {
  return /^v?(\d{1,10}(?:\.\d{1,10}){0,3})(?![\w.])/.exec(tag)?.[1]
}
