// Links in documents lead somewhere.

import { posix } from 'node:path'
import { lineAt, type SourceFile, type Violation } from './source.ts'

const LINK = /\[[^\]\n]*\]\((?<target>[^()\s]+)(?:\s+"[^"]*")?\)/g

/** `exists` is asked for paths from the repository's top. */
export function checkLinks(files: readonly SourceFile[], exists: (path: string) => boolean): Violation[] {
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      [...withoutCode(text).matchAll(LINK)].flatMap((match) => {
        const target = decodeURI(match.groups?.['target'] ?? '').replace(/#.*$/, '')
        if (target === '' || /^[a-z][a-z0-9+.-]*:/i.test(target)) return []
        const found = target.startsWith('/') ? target.slice(1) : posix.join(posix.dirname(path), target)
        return exists(found)
          ? []
          : [{ path, line: lineAt(text, match.index), rule: `the link to ${target} leads nowhere` }]
      }),
    )
}

function withoutCode(text: string): string {
  return text.replace(/^ *(```|~~~)[\s\S]*?^ *\1|`[^`\n]*`/gm, (code) => code.replace(/[^\n]/g, ' '))
}
