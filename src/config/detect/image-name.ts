/** Names of container images, for what they tell of a project. */

export interface ImageName {
  /** Without a registry: `bitnami/postgresql`, `node`. */
  readonly name: string
  /** Without a digest; empty where there is none. */
  readonly tag: string
}

/** Undefined for what holds variables without a default, or is no name. A variable with one, `${TAG:-16}`, counts as its default. */
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

/** The digits at the head of a tag: `16` of `16-alpine`. */
export function tagVersion(tag: string): string | undefined {
  return /^v?(\d{1,10}(?:\.\d{1,10}){0,3})(?![\w.])/.exec(tag)?.[1]
}
