/** The table `[ephemeral]`: directories that are never kept. */
import * as z from 'zod'
import { invalid } from '../../core/error.ts'
import { MOST_EPHEMERAL, parseEphemeralPath } from '../../core/volume/ephemeral.ts'
import { about, acceptedBy, lineValue, sizeValue } from './values.ts'

/** Below the project, absolute, or in the home directory of the user inside: `~/.cache/x`. */
const placeValue = lineValue(512).superRefine(acceptedBy(checkPlace)).meta({ kind: 'path inside' })

/** Checks a path as the file has it. The place of the project inside is not known yet. */
function checkPlace(path: string): void {
  if (/^(?:\/|~\/)/.test(path)) {
    parseEphemeralPath(path.replace(/^~(?=\/)/, '/home'))
    return
  }
  const parts = path.split('/')
  if (path.includes('\\') || path === '~' || parts.some((part) => ['', '.', '..'].includes(part)))
    throw invalid(
      'ephemeral.path',
      'must be a path below the project, like tmp, or an absolute one, like /var/cache/app',
    )
  if (parts.includes('.git'))
    throw invalid('ephemeral.path', 'is where git keeps the repository, and results need it')
}

export const ephemeralTable = z.strictObject({
  paths: z
    .array(placeValue)
    .max(MOST_EPHEMERAL)
    .meta(
      about(
        'Below the project, like `tmp`; absolute; or in the home directory, like `~/.cache/app`.',
        'none',
      ),
    ),
  size: sizeValue('1MiB', '1TiB')
    .optional()
    .meta(
      about('The most that each of them holds. It is memory of the sandbox.', 'as much as `/tmp`: 1 GiB'),
    ),
})
