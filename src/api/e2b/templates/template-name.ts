/** The names of templates: `name`, `name:tag`, or an id in place of the name. */
import { invalid } from '../../../core/error.ts'

export const DEFAULT_TAG = 'default'
/** The default tag, unless a build has this one. */
export const LATEST_TAG = 'latest'

/** Whether a text has the form of a template's id. */
export function isTemplateId(text: string): boolean {
  return /^tpl[a-z0-9]{20}$/.test(text)
}

export interface TemplateRef {
  /** A name or an id. */
  readonly name: string
  readonly tag: string | undefined
}

const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/

/** E2B puts the name of a team before a slash; here a key is its own team, so it is dropped. */
export function parseTemplateRef(text: string): TemplateRef {
  const [, name = '', tag] = /^(?:[a-z0-9-]{1,64}\/)?([^:/]*)(?::(.*))?$/s.exec(text.toLowerCase()) ?? []
  const given = tag === undefined ? undefined : text.slice(text.indexOf(':') + 1)
  if (!NAME.test(name) || (given !== undefined && !TAG.test(given)))
    throw invalid(
      'template.name',
      `${JSON.stringify(text.slice(0, 80))} is not the name of a template`,
      'a name has lowercase letters, digits, dots, dashes and underscores; a tag may follow after a colon',
    )
  return { name, tag: given }
}
