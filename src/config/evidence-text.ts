/** Evidence in a message. */
import type { Evidence } from './evidence.ts'
import { printable } from './toml/problem.ts'

/**
 * `package.json:12 "node": ">=20"`, or only the text.
 *
 * SECURITY: CF-02. Both come from the project and are shown on terminals and written into comments: the
 * result is always one line.
 */
export function evidenceText({ file, line, said }: Evidence): string {
  const words = printable(said, 120)
  // A file that matters only by its existence is named once.
  if (line === undefined && (file === said || file.endsWith(`/${said}`))) return printable(file, 200)
  return file === '' ? words : `${printable(file, 200)}${line ? `:${line}` : ''} ${words}`
}
