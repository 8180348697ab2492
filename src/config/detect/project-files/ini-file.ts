/** INI files of Python's tools: setup.cfg, tox.ini, pytest.ini. */
import type { FileTree } from '../../file-tree.ts'
import { normalizeText } from './parsed-file.ts'

export interface IniValue {
  /** Several lines are trimmed and joined by line ends. */
  readonly text: string
  readonly line: number
}

export type Ini = ReadonlyMap<string, ReadonlyMap<string, IniValue>>

const MOST_LINES = 20_000

export function readIniFile(tree: FileTree, path: string): Ini | undefined {
  return tree.readAs(path, iniOf)
}

export function iniAt(ini: Ini | undefined, section: string, key: string): IniValue | undefined {
  return ini?.get(section)?.get(key)
}

/** Lines that are neither section, key nor continuation are skipped. */
function iniOf(raw: string): Ini {
  const sections = new Map<string, Map<string, IniValue>>()
  let section: Map<string, IniValue> | undefined
  let key: string | undefined
  for (const [index, written] of normalizeText(raw).split('\n').slice(0, MOST_LINES).entries()) {
    const line = written.slice(0, 2000).trimEnd()
    const start = line.trimStart()
    if (start === '' || start.startsWith('#') || start.startsWith(';')) continue
    if (line.startsWith('[') && line.includes(']')) {
      const name = line.slice(1, line.indexOf(']')).trim()
      section = sections.get(name) ?? new Map()
      sections.set(name, section)
      key = undefined
    } else if (section && start !== line && key !== undefined) {
      const known = section.get(key)
      if (known) section.set(key, { ...known, text: known.text === '' ? start : `${known.text}\n${start}` })
    } else if (section) {
      const at = line.search(/[=:]/)
      key = at < 0 ? undefined : line.slice(0, at).trim()
      if (key) section.set(key, { text: line.slice(at + 1).trim(), line: index + 1 })
    }
  }
  return sections
}
