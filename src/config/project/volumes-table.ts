/** The table `[volumes]`: directories of the project that outlive its sandboxes. */
import * as z from 'zod'
import { parseMountPath } from '../../core/volume/mount-path.ts'
import { MOST_VOLUMES } from '../../core/volume/volume.ts'
import { about, acceptedBy, keyedTable, lineValue, sizeValue, wordValue } from './values.ts'

/** An absolute path inside, or one in the home directory of the user inside: `~/.cache/pip`. */
const placeValue = lineValue(1024)
  .superRefine(acceptedBy((path: string) => parseMountPath(path.replace(/^~(?=\/)/, '/home'))))
  .meta({ kind: 'path inside' })

const volumeValue = z.strictObject({
  path: placeValue.meta(
    about('Where it is mounted: an absolute path inside, or one in the home directory, like `~/.cache/pip`.'),
  ),
  read_only: z.boolean().optional().meta(about('Whether programs can only read it.', '`false`')),
  size: sizeValue('16MiB', '1024TiB')
    .optional()
    .meta(about('How much it may hold. It is set when the volume is created.', 'as much as the disk has')),
})

export const volumesTable = keyedTable(
  wordValue('a volume’s name'),
  z.union([placeValue, volumeValue]).meta({ kind: 'path inside or table' }),
  MOST_VOLUMES,
)
export type VolumesTable = z.infer<typeof volumesTable>
